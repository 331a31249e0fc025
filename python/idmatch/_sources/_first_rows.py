"""The first rows of streams, kept while all are read."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

Streams = Iterable[tuple[str, pa.RecordBatchReader]]


class FirstRows:
    """Passes on the same streams. Once they are read, `rows` has the first rows again."""

    def __init__(self, streams: Streams, most: int) -> None:
        self._streams = streams
        self._missing = most
        self._kept: list[tuple[str, pa.RecordBatch]] = []

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
        """The first column of the first `most` rows, or of all if there are fewer."""
        return [
            (name, pa.Table.from_batches([batch.select([0])]).to_reader())
            for name, batch in self._kept
        ]

    def _take(self, name: str, stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in stream:
            if self._missing > 0 and batch.num_rows:
                self._kept.append((name, batch.slice(0, self._missing)))
                self._missing -= batch.num_rows
            yield batch
