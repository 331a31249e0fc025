"""A byte stream as chunks of rows, each as soon as it has arrived.

The stream's first bytes tell its format: an Arrow IPC stream, JSON lines (one object a line) or
CSV with a header.
"""

import io
from collections.abc import Iterator

import pyarrow as pa

from ._columns import Wanted, project
from ._csv import CsvRows
from ._json_lines import JsonLines
from ._source import OnMalformed, reading

_ARROW_START = b"\xff\xff\xff\xff"


class ByteStream:
    """A stream of rows that arrive, such as on standard input."""

    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        self._stream = stream
        self.name = name
        self.rows = 0
        """Rows given so far, malformed ones included."""

    def read(
        self, wanted: Wanted, on_malformed: OnMalformed
    ) -> Iterator[pa.RecordBatchReader | None]:
        """Yields the rows that have arrived, under the names of their roles, until the stream ends.

        Malformed rows go to `on_malformed`, numbered from 1 over the whole stream. None stands for
        an arrival of malformed rows only. Raises SourceError when the stream cannot be read,
        InvalidArgument when it lacks a column.
        """
        with reading(self.name):
            start = self._stream.peek(len(_ARROW_START))
        if start.startswith(_ARROW_START):
            yield from self._arrow_rows(wanted)
        elif start.lstrip().startswith(b"{"):
            yield from self._json_rows(wanted, on_malformed)
        elif start:
            yield from self._csv_rows(wanted, on_malformed)

    def _arrow_rows(self, wanted: Wanted) -> Iterator[pa.RecordBatchReader]:
        with reading(self.name):
            reader = pa.ipc.open_stream(self._stream)
            chosen = wanted.choose(reader.schema, self.name, "arrow")
        while True:
            try:
                with reading(self.name):
                    batch = reader.read_next_batch()
                    numbers, roles = wanted.numbers[self.name], len(wanted.roles)
                    rows = project([batch], reader.schema, chosen, {}, numbers, roles).read_all()
            except StopIteration:
                return
            self.rows += batch.num_rows
            yield rows.to_reader()

    def _json_rows(
        self, wanted: Wanted, on_malformed: OnMalformed
    ) -> Iterator[pa.RecordBatchReader | None]:
        objects = JsonLines(self._stream, self.name, wanted, on_malformed)
        for table in objects.read():
            self.rows = objects.rows
            yield table.to_reader() if table is not None else None

    def _csv_rows(
        self, wanted: Wanted, on_malformed: OnMalformed
    ) -> Iterator[pa.RecordBatchReader | None]:
        rows = CsvRows(self._stream, self.name, wanted, on_malformed)
        for table in rows.read():
            self.rows = rows.rows
            yield table.to_reader() if table is not None else None
