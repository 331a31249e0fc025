"""The first rows of streams, kept while all are read."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyarrow import types

from ._checked import copied

Streams = Iterable[tuple[str, pa.RecordBatchReader]]


class FirstRows:
    """Passes on the same streams. Once they are read, `rows` has the first rows again."""

    def __init__(self, streams: Streams, most: int) -> None:
        self._streams = streams
        self._missing = most
        self._kept: list[tuple[str, pa.RecordBatchReader]] = []

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatchReader]]:
        for name, stream in self._streams:
            if self._missing > 0:
                yield (
                    name,
                    pa.RecordBatchReader.from_batches(stream.schema, self._take(name, stream)),
                )
            else:
                yield name, stream

    @property
    def rows(self) -> Sequence[tuple[str, pa.RecordBatchReader]]:
        """The first column of the first `most` rows, or of all if fewer. They are read once."""
        return self._kept

    def _take(self, name: str, stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while self._missing > 0 and (batch := next(stream, None)) is not None:
            if batch.num_rows:
                self._kept.append((name, _compact(batch.select([0]).slice(0, self._missing))))
                self._missing -= batch.num_rows
            yield batch
            del batch
        yield from stream


def _compact(rows: pa.RecordBatch) -> pa.RecordBatchReader:
    """A stream of a slice of one column. Unlike the slice, it does not hold the memory of all rows;
    of views and dictionaries a copy would have all bytes, too.
    """
    kind = rows.schema.field(0).type
    if types.is_dictionary(kind) or types.is_string_view(kind) or types.is_binary_view(kind):
        return pa.RecordBatchReader.from_batches(rows.schema, [rows])
    return copied(rows)
