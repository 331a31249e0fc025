"""Outputs at addresses: what is written to a path goes there, whole or not at all.

The core writes to a pipe, and a thread sends what arrives. The pipe holds the core back, so memory
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
# After Ctrl-C or an error nobody waits longer for a service that does not answer. A second Ctrl-C
# ends the wait.
_ABORT_SECONDS = 60
_DONE = "_SUCCESS"


def check(url: str, *, overwrite: bool, inputs: Sequence[str]) -> None:
    """Asks the service whether the object exists, unless it may be overwritten.

    Raises InvalidArgument for what exists, for an input and for an address that nothing writes to,
    MissingExtra, and IoError where the service refuses.
    """
    target = target_of(url)
    if identity(url) in map(identity, inputs):
        raise InvalidArgument(f"{target.shown} is an input, too; name another output")
    if not overwrite and target.exists():
        raise exists(target.shown)


def check_folder(url: str) -> None:
    """Asks the service whether there is a file below. Raises what `check` raises."""
    target = target_of(url)
    if target.has_files():
        raise exists(target.shown)


@contextlib.contextmanager
def new_object(url: str, *, overwrite: bool) -> Iterator[str]:
    """Gives the path of a pipe; what was written there has its name after the block.

    After an exception there is none. An error of the service ends the writing, and is raised. To
    complete the upload takes up to three minutes where the service does not answer. Raises what
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
        # The core knows only that nobody reads any more.
        if upload.error is not None and isinstance(error, Exception):
            raise upload.error from None
        raise
    if upload.error is not None:
        raise upload.error


@contextlib.contextmanager
def new_folder(url: str, *, overwrite: bool = False) -> Iterator[str]:
    """Gives an empty folder of this machine, whose files are uploaded after the block.

    On HDFS the folder appears whole; with `overwrite` it takes the place of one that is there,
    which is gone for a moment. Elsewhere the files appear one after the other, each whole, and
    `_SUCCESS` is the last. After an exception nothing is left, where the service answers. Raises
    what `check_folder` raises.
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
    """Sends what is written to a pipe, until its end."""

    def __init__(self, reading: int, target: Target, overwrite: bool) -> None:
        super().__init__(name="idmatch-upload", daemon=True)
        self._reading = reading
        self._target = target
        self._overwrite = overwrite
        self.is_whole = False
        """Whether all was written. The end of a pipe comes after a failure, too."""
        self.error: Error | None = IoError(f"cannot write {target.shown}: the upload has ended")
        """Why the object is not there. None once it is, and where nothing is to be completed."""
        self._is_abandoned = False

    def run(self) -> None:
        """Ends when the pipe does, or with an error."""
        try:
            self._target.put(self._chunks(), overwrite=self._overwrite)
            self.error = None
        except _Abandoned:
            self.error = None
        except Error as error:
            # Also to abort may fail, which is not why there is no output.
            self.error = None if self._is_abandoned else error
        finally:
            os.close(self._reading)

    def _chunks(self) -> Iterator[bytes]:
        while chunk := os.read(self._reading, _PIPE_BYTES):
            yield chunk
        if not self.is_whole:
            self._is_abandoned = True
            raise _Abandoned
