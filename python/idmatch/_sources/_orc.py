"""ORC files, decoded by a process of their own, which runs `_orc_process.py`.

Why: ORC has no checksums, and damage of some kinds ends the process of pyarrow's decoder. Must not
know what columns are for. Invariants: Whatever a decoder does, this process gets at worst an
exception, and goes on. This process reads the file, and sends no address to the decoder.
"""

import json
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pyarrow as pa
from pyarrow.fs import FileSystem

from . import _orc_process as protocol

# Runs the program by its path, so that its folder stays off `sys.path`: modules in the folder have
# names of Python's own modules.
_START = "import runpy, sys; sys.path = sys.argv[3:]; runpy.run_path(sys.argv[1], None, '__main__')"
_MOST_WAITING = 2
_ENDING_SECONDS = 10
_waiting = list["_Decoder"]()
"""Idle decoders, which wait for another file: the start of a decoder takes some 0.4 s."""
# A forked process has none.
os.register_at_fork(after_in_child=_waiting.clear)


class OrcFile:
    """An ORC file of any file system. Its methods raise OSError where it is damaged.

    Its bytes and its rows cross a pipe, at some 3 million rows a second of two identifiers.
    """

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._file = filesystem.open_input_file(path)
        self._decoder, footer = _decoder_of(self._file)
        self.rows = int(protocol.ROWS.unpack_from(footer)[0])
        """The number of rows, as the footer says."""
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(footer[protocol.ROWS.size :]))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows, in their order, with these columns. Closes the file in the end."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        with self._file:
            for body in self._decoder.answers(columns, self._file):
                yield pa.ipc.read_record_batch(pa.py_buffer(body), schema)
        self._decoder.release()

    def close(self) -> None:
        """Closes a file whose rows are not wanted."""
        self._file.close()
        self._decoder.release()


def _decoder_of(file: pa.NativeFile) -> "tuple[_Decoder, bytes]":
    """A decoder that has opened the file, and its answer about the footer."""
    while True:
        try:
            decoder, is_new = _waiting.pop(), False
        except IndexError:
            decoder, is_new = _Decoder(), True
        try:
            (footer,) = decoder.answers(file.size(), file)
        except _Gone:
            if is_new:
                raise
        else:
            return decoder, footer


class _Gone(OSError):
    """The process of a decoder has ended."""


class _Decoder:
    """A process, for one file at a time."""

    def __init__(self) -> None:
        if not sys.executable:
            raise OSError("this Python has no program to start, which decodes ORC")
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    _START,
                    protocol.__file__,
                    str(theirs.fileno()),
                    *sys.path,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Ctrl-C is for this process alone.
                start_new_session=True,
            )
        self._end = weakref.finalize(self, _end, os.getpid(), self._process, self._connection)

    def answers(self, asked: int | Sequence[str], file: pa.NativeFile) -> Iterator[bytes]:
        """Yields the answers of the process, and sends it the bytes of the file that it asks for.

        The first error ends the process, since damaged data may have changed its memory. The
        process also ends if the caller does not take all answers.
        """
        is_whole = False
        try:
            self._send(json.dumps(asked).encode())
            while (tag := self._received()) != protocol.END:
                body = self._received()
                if tag == protocol.ERROR:
                    raise OSError(body.decode())
                if tag == protocol.READ:
                    offset, size = protocol.PLACE.unpack(body)
                    file.seek(offset)
                    self._send(file.read(size))
                else:
                    yield body
            self._received()
            is_whole = True
        finally:
            if not is_whole:
                self._end()

    def release(self) -> None:
        """Lets the process wait for another file, or ends it."""
        if len(_waiting) < _MOST_WAITING:
            with suppress(OSError):
                self._send(b"null")
                _waiting.append(self)
                return
        self._end()

    def _send(self, message: bytes) -> None:
        try:
            self._connection.send_bytes(message)
        except OSError:
            raise self._gone() from None

    def _received(self) -> bytes:
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            raise self._gone() from None

    def _gone(self) -> _Gone:
        try:
            status = self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            return _Gone("the process that decodes ORC does not answer")
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return _Gone(f"the process that decodes ORC has ended with {how}")


def _end(owner: int, process: subprocess.Popen[bytes], connection: Connection) -> None:
    # A fork of this process has the same decoders, and must not end them.
    if os.getpid() == owner:
        process.kill()
        process.wait()
    connection.close()
