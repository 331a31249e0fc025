"""Opens outputs: only this module makes files that users name. Must not know their contents.

A new file gets its name when it is complete and on disk. A file that exists is replaced only with
`overwrite`, and only if it is a regular file and no input. A FIFO is written as a stream. Addresses
of object stores are for `_remote_outputs`.
"""

import contextlib
import errno
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote, urlsplit

from . import _remote_outputs
from ._address import Address
from ._errors import InvalidArgument, IoError
from ._target import exists
from ._text import escaped
from ._types import Path

STDOUT = "/dev/stdout"
"""The path by which the core writes to standard output itself."""

PRIVATE = 0o600
PUBLIC = 0o666

# Long enough that syncs, each of them a commit of the file system, do not slow the writing down.
_WRITE_BACK_SECONDS = 0.25


def check(
    path: Path, *, overwrite: bool = False, inputs: Sequence[str] = (), is_folder: bool = False
) -> None:
    """Checks that an output can be written, before the work. Asks a service if the object exists.

    Raises what `check_local` and `_remote_outputs.check` raise.
    """
    name = _local(path)
    if not Address(name).is_url:
        if is_folder:
            _check_no_folder(name)
        elif not check_local(name, overwrite=overwrite, inputs=inputs):
            _check_folder_of(name)
    elif is_folder:
        _remote_outputs.check_folder(name)
    else:
        _remote_outputs.check(name, overwrite=overwrite, inputs=inputs)


def check_local(path: Path, *, overwrite: bool = False, inputs: Sequence[str] = ()) -> bool:
    """Whether the output is written in place: a FIFO, or "-" for standard output.

    Raises InvalidArgument for an output that exists, unless `overwrite` is set; with `overwrite`,
    for one that is no regular file, or is an input. Raises it also for an empty name, a URL, and a
    place inside a store.
    """
    name = os.fspath(path)
    if name == "-":
        return True
    if not name:
        raise InvalidArgument("the name of an output is empty; name a file")
    if Address(name).is_url:
        raise InvalidArgument(f"cannot write to {Address(name)}; name a file on this machine")
    with contextlib.suppress(OSError):
        # Shells give a FIFO by a link: >(gzip > file).
        if stat.S_ISFIFO(os.stat(name).st_mode):
            return True
    if os.path.lexists(name):
        _check_replaced(name, overwrite, inputs)
    store = _store_around(name)
    if store is not None:
        raise InvalidArgument(
            f"{escaped(name)} is inside the store {escaped(store)}; name a place outside"
        )
    return False


@contextlib.contextmanager
def new_file(
    path: Path, *, overwrite: bool = False, inputs: Sequence[str] = (), mode: int = PUBLIC
) -> Iterator[str]:
    """Gives the path to write to: a FIFO, or a temporary file that is renamed after the block.

    After an exception there is no file, unless the error says that it is complete. An address of an
    object store is written as a FIFO. Raises what `check` raises, and IoError.
    """
    name = _local(path)
    if Address(name).is_url:
        _remote_outputs.check(name, overwrite=overwrite, inputs=inputs)
        with _remote_outputs.new_object(name, overwrite=overwrite) as pipe:
            yield pipe
        return
    if check_local(name, overwrite=overwrite, inputs=inputs):
        yield STDOUT if name == "-" else name
        return
    beside = _beside(name, mode)
    try:
        with _written_back(beside, name) as sync:
            yield beside
            with _writing(name):
                sync()
        _give_name(beside, name, overwrite)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise
    _sync_name(name)


def is_same(one: Path, other: Path) -> bool:
    """Whether both name one place: the same existing file, or else the same folder and name."""
    names = [_local(one), _local(other)]
    if any(name == "-" or Address(name).is_url for name in names):
        return names[0] == names[1]
    places = [os.path.realpath(name) for name in names]
    with contextlib.suppress(OSError):
        return os.path.samefile(*places)
    return places[0] == places[1]


def is_standard_output(path: Path) -> bool:
    """Whether this is standard output, by "-" or by a name of its pipe or terminal."""
    name = os.fspath(path)
    if name == "-":
        return True
    with contextlib.suppress(OSError):
        found = os.stat(name)
        return not stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.fstat(1))
    return False


def is_stream(path: Path, file: str) -> bool:
    """Whether a reader may read the output while it is written: "-" or a FIFO, but no object."""
    name = os.fspath(path)
    is_regular = stat.S_ISREG(os.stat(file).st_mode)
    return name == "-" or (not Address(name).is_url and not is_regular)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[str]:
    """Gives an empty folder to write to, which gets its name after the block.

    After an exception there is no folder, unless the error says that it is complete. A folder at an
    address is written to this machine first.
    Raises InvalidArgument for a place that exists or is inside a store, and IoError.
    """
    name = _local(path).rstrip("/") or "/"
    if Address(name).is_url:
        with _remote_outputs.new_folder(name) as folder:
            yield folder
        return
    _check_no_folder(name)
    beside = os.path.join(os.path.dirname(name), f".idmatch-{secrets.token_hex(8)}.tmp")
    with _writing(name):
        os.mkdir(beside)
    try:
        yield beside
        with _writing(name):
            _sync_all(beside)
        _check_no_folder(name)
        with _writing(name):
            os.rename(beside, name)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    _sync_name(name)


def open_at_once(
    path: Path, *, overwrite: bool = False, inputs: Sequence[str] = (), mode: int = PRIVATE
) -> int:
    """A file descriptor of a new file that has its name from the start, or of a FIFO.

    For files that must exist after a crash. Raises what `check_local` raises, and IoError.
    """
    name = os.fspath(path)
    if check_local(name, overwrite=overwrite, inputs=inputs):
        return os.dup(1) if name == "-" else _open(name, os.O_WRONLY)
    beside = _beside(name, mode)
    try:
        file = _open(beside, os.O_WRONLY | os.O_NOFOLLOW)
        _give_name(beside, name, overwrite)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise
    return file


def sync(file: int, path: str) -> None:
    """Makes a file and its name durable; a FIFO or a terminal has nothing to sync.

    Raises OSError where the disk refuses.
    """
    if stat.S_ISREG(os.fstat(file).st_mode):
        os.fsync(file)
        _sync(os.path.dirname(path) or ".")


def _sync_name(path: str) -> None:
    """Makes the name of a complete file or folder durable, where the file system can.

    Raises IoError, whose text says that the output is complete.
    """
    try:
        _sync_folder(os.path.dirname(path) or ".")
    except OSError as error:
        text = f"{escaped(path)} is complete, but a power failure may undo its name"
        raise IoError(f"{text}: {error.strerror}") from error


def _sync_folder(path: str) -> None:
    try:
        _sync(path)
    except OSError as error:
        # Ignored if the folder cannot be read, or the file system does not sync folders.
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.EBADF):
            raise


@contextlib.contextmanager
def _written_back(path: str, name: str) -> Iterator[Callable[[], None]]:
    """Has the disk write a file while the block writes it, and gives the function that syncs it at
    the end. That sync then has little left to wait for; it raises OSError if the disk has refused
    anything.
    """
    with _writing(name):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    ended, refused = threading.Event(), list[OSError]()

    def write_back() -> None:
        while not refused and not ended.wait(_WRITE_BACK_SECONDS):
            try:
                os.fdatasync(file)
            except OSError as error:
                # The system tells an error only once: the last sync would not get it.
                refused.append(error)

    thread = threading.Thread(target=write_back, daemon=True)

    def end() -> None:
        ended.set()
        if thread.ident is not None:
            thread.join()

    def sync() -> None:
        end()
        for error in refused:
            raise error
        os.fsync(file)

    try:
        # If no thread can be started, the last sync waits for all.
        with contextlib.suppress(RuntimeError):
            thread.start()
        yield sync
    finally:
        end()
        os.close(file)


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _sync_all(top: str) -> None:
    """Syncs a folder with all files and folders in it."""
    for folder, _, files in os.walk(top):
        for file in files:
            _sync(os.path.join(folder, file))
        _sync_folder(folder)


def _check_no_folder(name: str) -> None:
    """Raises InvalidArgument if the place of a new folder is taken or in a store, and for "-"."""
    if name == "-":
        text = "files of a folder cannot go to standard output; name a folder, or write one file"
        raise InvalidArgument(text)
    if os.path.lexists(name):
        raise InvalidArgument(
            f"{escaped(name)} exists, and no folder is overwritten; name one that does not exist"
        )
    check_local(name)
    _check_folder_of(name)


def _check_folder_of(name: str) -> None:
    """Raises IoError if the parent folder is missing."""
    folder = os.path.dirname(name.rstrip("/")) or "."
    if not os.path.isdir(folder):
        text = f"cannot write {escaped(name)}: there is no folder {escaped(folder)}"
        raise IoError(f"{text}; make it, or name another place")


def _check_replaced(name: str, overwrite: bool, inputs: Sequence[str]) -> None:
    found = os.lstat(name)
    if not overwrite:
        raise exists(escaped(name))
    if not stat.S_ISREG(found.st_mode):
        raise InvalidArgument(
            f"{escaped(name)} is no regular file, and no other is overwritten; name another output"
        )
    for source in inputs:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(source), found):
                raise InvalidArgument(f"{escaped(name)} is an input, too; name another output")


def _local(path: Path) -> str:
    """The path of an address such as file:///tmp/rows.csv; any other name as it is."""
    name = os.fspath(path)
    if name.lower().startswith("file:///"):
        return unquote(urlsplit(name).path)
    return name


def _store_around(name: str) -> str | None:
    """The directory of the store or backup that contains this file."""
    directory = os.path.dirname(os.path.realpath(name))
    while True:
        if os.path.isfile(os.path.join(directory, "MANIFEST")) and os.path.isdir(
            os.path.join(directory, "segments")
        ):
            return directory
        directory, before = os.path.dirname(directory), directory
        if directory == before:
            return None


def _beside(name: str, mode: int) -> str:
    """Makes a new file with a unique name in the same directory."""
    beside = os.path.join(os.path.dirname(name), f".idmatch-{secrets.token_hex(8)}.tmp")
    with _writing(name):
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode))
    return beside


def _give_name(beside: str, name: str, overwrite: bool) -> None:
    with _writing(name):
        if overwrite:
            os.replace(beside, name)
            return
        try:
            # Unlike a rename, a link replaces nothing.
            os.link(beside, name)
        except FileExistsError:
            raise exists(escaped(name)) from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                raise
            # A file system without links.
            if os.path.lexists(name):
                raise exists(escaped(name)) from None
            os.rename(beside, name)
            return
        os.remove(beside)


def _open(name: str, flags: int) -> int:
    with _writing(name):
        return os.open(name, flags | os.O_CLOEXEC)


@contextlib.contextmanager
def _writing(name: str) -> Iterator[None]:
    """Turns an OSError of the block into an IoError that names the output."""
    try:
        yield
    except OSError as error:
        raise IoError(
            f"cannot write {escaped(name)}: {error.strerror}; name another file"
        ) from error
