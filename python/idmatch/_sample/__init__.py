"""Sample data for idmatch: realistic match tables with known exact answers.

`donors.parquet` has the e-mail addresses of a company's donors. `crm.parquet` has the cookies of
its customers. `partner1.parquet` and so on are the match tables of advertising partners: cookies
and the partner's own IDs. `truth.json` has the figures for two matches: the donors with the CRM,
and the cookies found there with each partner.
"""

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from idmatch import _outputs
from idmatch._core import format_instant
from idmatch._errors import InvalidArgument

from ._truth import CrmTruth, PartnerTruth, windows_as_text
from ._world import REFERENCE_MILLIS, Partner, People

__all__ = ["Made", "generate"]

_PEOPLE_AT_ONCE = 1 << 16
_MAX_PEOPLE = 10**9
_MAX_PARTNERS = 100


@dataclass(frozen=True)
class Made:
    """The rows of each file that was written, and commands to try next."""

    rows_by_file: dict[str, int]
    commands_to_try: list[str]


def generate(
    directory: str | os.PathLike[str],
    people: int,
    partners: int,
    seed: int,
    overwrite: bool = False,
) -> Made:
    """Writes a sample into a directory; the same arguments give the same bytes.

    Memory does not grow with the number of people.

    Raises InvalidArgument for numbers of people or partners that are out of range, and for files
    that exist unless they may be overwritten.
    """
    for what, number, most in (
        ("people", people, _MAX_PEOPLE),
        ("partners", partners, _MAX_PARTNERS),
    ):
        if not 1 <= number <= most:
            raise InvalidArgument(f"a sample has 1 to {most:,} {what}, not {number:,}")
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    crm_truth = CrmTruth()
    everyone = [Partner(seed, number) for number in range(1, partners + 1)]
    partner_truths = {partner: PartnerTruth(partner) for partner in everyone}
    with ExitStack() as stack:
        files = _Files(home, stack, overwrite)
        for start in range(0, people, _PEOPLE_AT_ONCE):
            chunk = People(seed, start, min(start + _PEOPLE_AT_ONCE, people))
            donors = chunk.donors()
            files.append("donors.parquet", donors)
            files.append("crm.parquet", chunk.crm())
            crm_truth.add(chunk, donors.num_rows)
            for partner, truth in partner_truths.items():
                seen = partner.sightings(chunk)
                files.append(f"{partner.name}.parquet", seen.table())
                truth.add(chunk, seen)
    truth_file = {
        "seed": seed,
        "people": people,
        "reference": format_instant(REFERENCE_MILLIS),
        "keep": "last",
        "windows": windows_as_text(),
        "rows": files.rows,
        "crm": crm_truth.answers(),
        "partners": {partner.name: truth.answers() for partner, truth in partner_truths.items()},
    }
    with _outputs.new_file(home / "truth.json", overwrite=overwrite) as path:
        Path(path).write_text(json.dumps(truth_file, indent=2) + "\n", encoding="utf-8")
    return Made(files.rows, _commands_to_try(home))


class _Files:
    """Parquet files that are open for writing at the same time, and the rows in each."""

    def __init__(self, home: Path, stack: ExitStack, overwrite: bool) -> None:
        self._overwrite = overwrite
        self.rows: dict[str, int] = {}
        self._home = home
        self._stack = stack
        self._writers: dict[str, pq.ParquetWriter] = {}

    def append(self, name: str, table: pa.Table) -> None:
        """Appends rows to a file as one row group; the first call creates the file."""
        if name not in self._writers:
            file = _outputs.new_file(self._home / name, overwrite=self._overwrite)
            path = self._stack.enter_context(file)
            writer = pq.ParquetWriter(path, table.schema, use_dictionary=False)
            self._writers[name] = self._stack.enter_context(writer)
        self._writers[name].write_table(table)
        self.rows[name] = self.rows.get(name, 0) + table.num_rows


def _commands_to_try(home: Path) -> list[str]:
    return [
        f"idmatch load store crm {home}/crm.parquet --columns email,cookie",
        f"idmatch load store partner1 {home}/partner1.parquet --columns cookie",
        f"idmatch match store crm {home}/donors.parquet -o cookies.parquet",
        "idmatch match store partner1 cookies.parquet --column partner_id",
        "idmatch tables store",
    ]
