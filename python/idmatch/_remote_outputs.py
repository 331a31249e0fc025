"""Outputs at addresses: bytes that are written to a path go there, whole or not at all.

The core writes to a pipe, and a thread sends the bytes. A full pipe makes the core wait, so memory
is bounded. Must not know which service it is.
"""

import contextlib
import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import partial

from ._errors import Error, InvalidArgument, IoError
from ._remote_targets import identity, target_of
from ._target import Target, exists

_PIPE_BYTES = 1 << 20
# The longest wait, after Ctrl-C or an error, for a service that does not answer. A second Ctrl-C
# ends the wait.
_ABORT_SECONDS = 60
_DONE = "_SUCCESS"


def check(url: str, *, overwrite: bool, inputs: Sequence[str]) -> None:
    """Asks the service whether the object exists, unless it may be overwritten.

    Raises InvalidArgument for an object that exists, for an input, and for an address that cannot
    be written. Raises MissingExtra, and IoError if the service refuses.
    """
    target = target_of(url)
    if identity(url) in map(identity, inputs):
        raise InvalidArgument(f"{target.shown} is an input, too; name another output")
    if not overwrite and target.exists():
        raise exists(target.shown)


def check_folder(url: str) -> None:
    """Asks the service whether there is a file below the address. Raises what `check` raises."""
    target = target_of(url)
    if target.has_files():
        raise exists(target.shown)


@contextlib.contextmanager
def new_object(url: str, *, overwrite: bool) -> Iterator[str]:
    """Gives the path of a pipe. Its bytes are the object, which has its name after the block.

    After an exception there is no object. An error of the service ends the writing, and is raised.
    If the service does not answer, the end of the upload takes up to three minutes. Raises what
    `check` raises.
    """
    reading, writing = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    upload = _Upload(reading, target_of(url), overwrite)
    upload.start()
    try:
        try:
            yield f"/dev/fd/{writing}"
            upload.is_whole = True
        finally:
            os.close(writing)
        upload.join()
    except BaseException as error:
        upload.is_whole = False
        upload.join(_ABORT_SECONDS)
        # The error of the core says only that the pipe has no reader.
        if upload.error is not None and isinstance(error, Exception):
            raise upload.error from None
        raise
    if upload.error is not None:
        raise upload.error


@contextlib.contextmanager
def new_folder(url: str, *, overwrite: bool = False) -> Iterator[str]:
    """Gives an empty folder of this machine, whose files are uploaded after the block.

    On HDFS the folder appears whole. With `overwrite` it replaces an existing folder, and for a
    moment there is neither. Elsewhere the files appear one after the other, each whole, and
    `_SUCCESS` is the last. After an exception nothing is left, if the service answers. Raises what
    `check_folder` raises.
    """
    if not overwrite:
        check_folder(url)
    target = target_of(url)
    with _temporary_folder() as folder:
        yield folder
        _upload_folder(folder, target, overwrite)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="idmatch-")
    except OSError as error:
        where = tempfile.gettempdir()
        raise IoError(
            f"cannot keep files in {where}: {error.strerror}; set TMPDIR to another folder"
        ) from error
    with folder as path:
        yield path


def _upload_folder(folder: str, target: Target, overwrite: bool) -> None:
    names = sorted(
        os.path.relpath(os.path.join(parent, file), folder)
        for parent, _, files in os.walk(folder)
        for file in files
    )
    done: list[Target] = []
    try:
        with target.filled(overwrite=overwrite) as filled:
            for name in names:
                place = filled.below(name)
                with open(os.path.join(folder, name), "rb") as file:
                    place.put(iter(partial(file.read, _PIPE_BYTES), b""), overwrite=False)
                done.append(place)
            filled.below(_DONE).put(iter(()), overwrite=False)
    except BaseException:
        with contextlib.suppress(IoError):
            for place in done:
                place.remove()
        raise


class _Abandoned(Exception):
    """The writing failed, or was stopped: there is nothing to complete."""


class _Upload(threading.Thread):
    """Sends the bytes of a pipe, until its end."""

    def __init__(self, reading: int, target: Target, overwrite: bool) -> None:
        super().__init__(name="idmatch-upload", daemon=True)
        self._reading = reading
        self._target = target
        self._overwrite = overwrite
        self.is_whole = False
        """Whether all bytes were written: a pipe also ends after a failure."""
        self.error: Error | None = IoError(f"cannot write {target.shown}: the upload has ended")
        """Why there is no object. None once there is one, and if the upload was abandoned."""
        self._is_abandoned = False

    def run(self) -> None:
        """Sends until the pipe ends, or an error ends the upload."""
        try:
            self._target.put(self._chunks(), overwrite=self._overwrite)
            self.error = None
        except _Abandoned:
            self.error = None
        except Error as error:
            # An abort may fail, too, but that is not why there is no output.
            self.error = None if self._is_abandoned else error
        finally:
            os.close(self._reading)

    def _chunks(self) -> Iterator[bytes]:
        while chunk := os.read(self._reading, _PIPE_BYTES):
            yield chunk
        if not self.is_whole:
            self._is_abandoned = True
            raise _Abandoned
