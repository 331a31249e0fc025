"""The result of matching a population."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _core, _outputs
from ._results import Detected, PlanStep
from ._types import Compression

if TYPE_CHECKING:
    import pyarrow as pa


class MatchResult:
    """A population that has been matched.

    Every read streams the matches from the store, as they were at the time of the match.
    Anything that takes Arrow streams (`pyarrow`, `polars`, `duckdb`, another table's `match`)
    takes this object.
    The first column is `id` or `partner_id`, as in the population; the second is the other one
    (both text as it is stored, whatever the population's type), the third `seen_at`
    (`timestamp[ms, UTC]`). A population row's matches come newest
    first, population rows in no particular order.
    """

    __slots__ = ("_core", "columns", "detected", "hex_columns", "is_guess_unmatched", "seconds")

    def __init__(
        self,
        core: _core.Match,
        seconds: float,
        columns: Sequence[str],
        hex_columns: Sequence[str],
        detected: Sequence[Detected],
        is_guess_unmatched: bool,
    ) -> None:
        self._core = core
        self.columns = columns
        """The population's column that was read; several where its sources differ."""
        self.hex_columns = hex_columns
        """Those of `columns` that are fixed-size binary: they were read as lowercase hex."""
        self.detected = detected
        """How the population is written, each way once."""
        self.is_guess_unmatched = is_guess_unmatched
        """Whether the column was guessed, and the table, which is not empty, has none of its first
        10,000 identifiers: then it is likely another one."""
        self.seconds = seconds
        """How long the matching took."""

    @property
    def population(self) -> int:
        """Population rows read."""
        return self._core.population

    @property
    def matched(self) -> int:
        """Population rows with at least one match."""
        return self._core.matched

    @property
    def rows(self) -> int:
        """Matches: what `SELECT count(*)` over the join gives."""
        return self._core.rows

    @property
    def rate(self) -> float:
        """`matched / population`; 0 for an empty population."""
        return self.matched / self.population if self.population else 0.0

    @property
    def plan(self) -> list[PlanStep]:
        """How the population was read, and why so: one step for each way that was taken."""
        return [PlanStep(*step) for step in self._core.plan]

    def to_arrow(self) -> "pa.Table":
        """All matches as one Arrow table, in memory."""
        return self._core.to_arrow()

    def write_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        compression: Compression = "none",
        overwrite: bool = False,
    ) -> None:
        """Writes the matches to a Parquet file, which appears only when it is whole, or to a FIFO.

        A file that exists is replaced only with `overwrite`.

        Identifiers hardly compress: "none" is the fastest, "zstd" halves the size of
        hexadecimal ones; "snappy", "lz4" and "gzip" are possible too.

        Raises IoError when the file cannot be written, InvalidArgument for what is no regular file
        or is inside a store.
        """
        with _outputs.new_file(path, overwrite=overwrite) as file:
            self._core.write_parquet(file, compression)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._core.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return (
            f"<idmatch.MatchResult population={self.population} matched={self.matched} "
            f"rate={self.rate:.4f} rows={self.rows} seconds={self.seconds:.3f}>"
        )
