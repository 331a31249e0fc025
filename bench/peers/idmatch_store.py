"""idmatch itself, through its public Python API, with its default settings."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as arrow
import pyarrow.parquet as parquet
from units import directory_bytes

from peers.base import Codec, Peer

_TABLE = "matches"
_KEYS = 2_000
_CALLS = 20_000


class IdMatch(Peer):
    """The match rows are loaded into a store once, in one load or several; the population stays
    Parquet.
    """

    @property
    def store_path(self) -> str:
        """The store's directory."""
        return str(self.setting.workspace / "store")

    def version(self) -> str:
        return version("idmatch")

    def prepare(self) -> None:
        self.load([str(file) for file in self.data.files])

    def load(self, files: Sequence[str]) -> None:
        """One load of these files; returns when it is durable."""
        with idmatch.open(self.store_path) as store:
            table = store.create_table(_TABLE, keep="last")
            report = table.load(list(files))
        if report.rejected:
            raise RuntimeError(f"{report.rejected} of {report.rows} rows were rejected")

    def open(self) -> None:
        self.store = idmatch.open(self.store_path)
        self.table = self.store.table(_TABLE)

    def count(self) -> int:
        return self.table.match(str(self.data.population)).rows

    def write(self, path: str, compression: Codec) -> None:
        self.table.match(str(self.data.population)).write_parquet(path, compression=compression)

    def inputs(self) -> list[str]:
        """The population alone: which files of a store a count reads is the store's own business,
        so runs that do not count bring them into the page cache.
        """
        return [str(self.data.population)]

    def opened_bytes(self) -> int:
        """A count reads one of the two directions."""
        return super().opened_bytes() + directory_bytes(Path(self.store_path)) // 2

    def typed(self) -> list[str]:
        program = Path(sys.executable).with_name("idmatch")
        return [str(program), "match", "--json", self.store_path, _TABLE, str(self.data.population)]

    def open_and_close(self) -> None:
        """Opens the store and its table, as a new reader does."""
        with idmatch.open(self.store_path) as store:
            store.table(_TABLE)

    def lookups(self) -> dict[str, dict[str, float]]:
        """Times single questions and one call of 1,000 ids, each on keys that were asked for
        before.
        """
        table = self.table
        pairs = self._stored_pairs()
        ids = [pair[0] for pair in pairs]
        partner_ids = [pair[1] for pair in pairs]
        thousand = arrow.table({"id": ids[:1000]})
        return {
            "latest_partner_id": _time_calls(table.latest_partner_id, [(key,) for key in ids]),
            "partner_ids": _time_calls(table.partner_ids, [(key,) for key in ids]),
            "latest_id": _time_calls(table.latest_id, [(key,) for key in partner_ids]),
            "ids": _time_calls(table.ids, [(key,) for key in partner_ids]),
            "last_seen": _time_calls(table.last_seen, pairs),
            "match_1000_rows": _time_calls(
                lambda population: table.match(population).rows, [(thousand,)], calls=500
            ),
            "match_1000_to_arrow": _time_calls(
                lambda population: table.match(population).to_arrow(), [(thousand,)], calls=500
            ),
        }

    def write_lookup_keys(self, path: str) -> int:
        """Writes the ids that `lookups` asks for, one a line, for the lookups from Rust; returns
        how many.
        """
        ids = [pair[0] for pair in self._stored_pairs()]
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(ids) + "\n")
        return len(ids)

    def _stored_pairs(self) -> list[tuple[str, str]]:
        """Pairs spread over the first, a middle and the last file."""
        chosen = [
            self.data.files[0],
            self.data.files[len(self.data.files) // 2],
            self.data.files[-1],
        ]
        pairs: list[tuple[str, str]] = []
        for file in chosen:
            group = parquet.ParquetFile(file).read_row_group(0, columns=["id", "partner_id"])
            step = max(1, group.num_rows * len(chosen) // _KEYS)
            sample = group.take(arrow.array(range(0, group.num_rows, step)))
            ids: list[Any] = sample["id"].to_pylist()
            partner_ids: list[Any] = sample["partner_id"].to_pylist()
            pairs += zip(ids, partner_ids, strict=True)
        return pairs


def _time_calls(
    ask: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], calls: int = _CALLS
) -> dict[str, float]:
    """Median and 99th percentile of `calls` calls, in seconds, after every argument was used
    once.
    """
    for argument in arguments:
        ask(*argument)
    nanoseconds = []
    for number in range(calls):
        argument = arguments[number % len(arguments)]
        began = time.perf_counter_ns()
        ask(*argument)
        nanoseconds.append(time.perf_counter_ns() - began)
    nanoseconds.sort()
    return {
        "calls": calls,
        "median": statistics.median(nanoseconds) / 1e9,
        "p99": nanoseconds[calls * 99 // 100] / 1e9,
    }


PEER = IdMatch
