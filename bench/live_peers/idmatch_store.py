"""idmatch itself, through its Python package: in the same harness as the peers, and with what
Python costs.

Settings: those that it starts with. A batch becomes an Arrow table within the measured time, an
answer a list; a batch of one is what `upsert_one` is for.

Fill: one load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import idmatch
import pyarrow as pa

from live_peers.base import Batch, Client, Found, LivePeer

_SEEN_AT = pa.timestamp("ms", "UTC")
_TEXT: list[pa.Field[Any]] = [pa.field("id", pa.string()), pa.field("partner_id", pa.string())]
_SCHEMA = pa.schema([*_TEXT, pa.field("seen_at", _SEEN_AT)])


class Idmatch(LivePeer):
    """A store with one table."""

    log_files = "store/journal/*"

    def version(self) -> str:
        return idmatch.__version__

    def settings(self) -> Mapping[str, str]:
        return {
            "durable": "fdatasync before the acknowledgement, group commit",
            "cache": "the page cache",
        }

    def start(self) -> None:
        self._store = idmatch.open(self.workspace / "store")
        self._table = self._store.create_table("matches")

    def fill(self, chunks: Iterable[Batch]) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            for chunk in chunks:
                yield _arrow(chunk)

        self._table.load(pa.RecordBatchReader.from_batches(_SCHEMA, batches()), strict=True)

    def connect(self) -> Client:
        return _Connection(self._table)

    def stop(self) -> None:
        self._store.close()


class _Connection(Client):
    def __init__(self, table: idmatch.Table) -> None:
        self._table = table

    def upsert(self, batch: Batch) -> None:
        if len(batch.ids) == 1:
            seen_at = datetime.fromtimestamp(batch.seen_at[0] / 1000, UTC)
            self._table.upsert_one(batch.ids[0], batch.partner_ids[0], seen_at)
        else:
            self._table.upsert(_arrow(batch), strict=True)

    def partner_ids(self, key: str) -> Found:
        return _listed(self._table.partner_ids(key))

    def ids(self, key: str) -> Found:
        return _listed(self._table.ids(key))


def _arrow(batch: Batch) -> pa.RecordBatch:
    return pa.record_batch(
        [batch.ids, batch.partner_ids, pa.array(batch.seen_at, _SEEN_AT)], schema=_SCHEMA
    )


def _listed(answers: pa.Table) -> Found:
    found, seen_at = answers.columns
    keys: list[Any] = found.to_pylist()
    dates: list[Any] = seen_at.cast(pa.int64()).to_pylist()
    return list(zip(keys, dates, strict=True))


PEER = Idmatch
