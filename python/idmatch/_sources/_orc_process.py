"""The program of the process that decodes ORC: it serves one file after the other to `_orc.py`.

It has no file and no address: it asks for the bytes of a file. Must not import idmatch, so that it
starts soon. Each message to it is a request, or the bytes that it has asked for; each message from
it is a tag and a body.
"""

import io
import json
import struct
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from threading import Lock
from typing import IO, cast

import pyarrow as pa

IDLE_SECONDS = 60.0
"""How long it waits for another file after `null`; then it ends with status 0."""

READ, DATA, END, ERROR = b"read", b"data", b"end", b"error"
"""Tags: a request for a `PLACE` of the file; an answer; the end of answers; an error as text."""
PLACE = struct.Struct("<qq")
"""Offset and length in bytes."""
ROWS = struct.Struct("<q")
"""The number of rows of a file. With the schema after it, it answers a file's size in bytes."""
BATCH_ROWS = 1 << 17
"""The most rows of a batch. Batches are the answers to a list of columns."""
_BATCHES_AHEAD = 8


class _Messages:
    """Sends messages. Arrow's threads ask for bytes while the main thread sends batches."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = Lock()

    def send(self, tag: bytes, body: bytes | pa.Buffer) -> None:
        with self._lock:
            self._send(tag, body)

    def read(self, offset: int, size: int) -> bytes:
        with self._lock:
            self._send(READ, PLACE.pack(offset, size))
            return self._connection.recv_bytes()

    def _send(self, tag: bytes, body: bytes | pa.Buffer) -> None:
        self._connection.send_bytes(tag)
        self._connection.send_bytes(cast("bytes", body))


class _Remote(io.RawIOBase):
    """A file whose bytes are asked for by messages."""

    def __init__(self, messages: _Messages, size: int) -> None:
        self._messages = messages
        self._size = size
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        data = self._messages.read(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def main(connection: Connection) -> None:
    """Serves until no request comes any more, or the other end is gone."""
    messages = _Messages(connection)
    size: int | None = None
    while connection.poll(IDLE_SECONDS if size is None else None):
        try:
            asked = json.loads(connection.recv_bytes())
        except EOFError:
            return
        if not isinstance(asked, list):
            size = asked
        if size is None:
            continue
        file = _Remote(messages, size)
        try:
            if asked is size:
                messages.send(DATA, _footer(file))
            else:
                for batch in _batches(file, asked):
                    messages.send(DATA, batch.serialize())
        except (pa.ArrowException, MemoryError, OSError, ValueError) as error:
            messages.send(ERROR, str(error).encode())
        else:
            messages.send(END, b"")


def _footer(file: _Remote) -> bytes:
    from pyarrow import orc

    footer = orc.ORCFile(_native(file))
    return ROWS.pack(footer.nrows) + footer.schema.serialize().to_pybytes()


def _batches(file: _Remote, columns: Sequence[str]) -> pa.RecordBatchReader:
    # This import takes longer than a footer.
    import pyarrow.dataset as ds

    return (
        ds.OrcFileFormat()
        .make_fragment(_native(file))
        .scanner(
            columns=list(columns),
            batch_size=BATCH_ROWS,
            batch_readahead=_BATCHES_AHEAD,
        )
        .to_reader()
    )


def _native(file: _Remote) -> IO[bytes]:
    # Stubs of pyarrow take its own files for no files.
    return cast("IO[bytes]", pa.PythonFile(file, mode="r"))


if __name__ == "__main__":
    main(Connection(int(sys.argv[2])))
