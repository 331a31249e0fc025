"""A spool: the batches of several streams, in a temporary file without a name."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ._errors import Error, IoError

if TYPE_CHECKING:
    import pyarrow as pa

    Streams = Iterable[tuple[str, pa.RecordBatchReader]]


class Spool:
    """Streams are written as they are read, and can then be read again.

    Errors of the file are noted in `raised`.
    """

    def __init__(self, raised: list[Error]) -> None:
        self._raised = raised
        self._file = tempfile.TemporaryFile(prefix="idmatch-")  # noqa: SIM115
        # Each stream's name, and where it is.
        self._starts: list[tuple[str, int]] = []

    def writing(self, streams: "Streams") -> "Iterator[tuple[str, pa.RecordBatchReader]]":
        """The same streams, which are kept as they are read.

        Raises IoError where the folder for temporary files is full.
        """
        import pyarrow as pa

        for name, stream in streams:
            self._starts.append((name, self._file.tell()))
            yield name, pa.RecordBatchReader.from_batches(stream.schema, self._kept(stream))

    def reading(self) -> "Iterator[tuple[str, pa.RecordBatchReader]]":
        """The streams that were written."""
        import pyarrow as pa

        for name, start in self._starts:
            self._file.seek(start)
            yield name, pa.ipc.open_stream(self._file)

    def _kept(self, stream: "pa.RecordBatchReader") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        try:
            with pa.ipc.new_stream(self._file, stream.schema) as writer:
                for batch in stream:
                    writer.write_batch(batch)
                    yield batch
        except OSError as error:
            folder = tempfile.gettempdir()
            reason = os.strerror(error.errno) if error.errno else str(error)
            full = IoError(
                f"cannot keep rows in {folder}: {reason}; set TMPDIR to a folder with more space"
            )
            # The core sees only the text of the error.
            self._raised.append(full)
            raise full from error

    def close(self) -> None:
        """Frees the disk space."""
        self._file.close()
