"""Places: what all tasks of a job open, by address: one version of a directory, or servers.

Must not know Dask or Spark. A store of the process that begins a job is never used in a worker,
which may be a fork of it.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from ._address import Address
from ._core import give_memory_back
from ._errors import Expired, NotAStore, Unsupported
from ._store import Store, is_address
from ._store import open as open_store

# A worker process lives on after its job. The files of a store that it has open stay on the disk.
_OPEN_STORES = 4

StoreOrAddress = Store | str | os.PathLike[str]


class Place(NamedTuple):
    """A store, or one version of it, as other processes open it. It can be pickled."""

    address: str
    """Of servers, with what is secret in it; or an absolute path."""
    folder: str
    """The directory of the store that has the version; empty on servers."""
    host: str
    """The host on which the directory was seen."""
    until: datetime | None = None
    """Until when the version is kept; None where it is not limited."""
    version: str | None = None
    """The version, as `Snapshot.version` names it: no other store has it. None where it may change.
    """

    @property
    def is_remote(self) -> bool:
        """Whether it is on servers."""
        return not self.folder

    def __repr__(self) -> str:
        return f"Place({str(Address(self.address))!r})"


def place_of(store: StoreOrAddress) -> Place:
    """The store itself, as it is at any moment."""
    address = store._how[0] if isinstance(store, Store) else os.fspath(store)
    if is_address(address):
        return Place(address, "", socket.gethostname())
    folder = os.path.abspath(address)
    return Place(folder, folder, socket.gethostname())


@contextmanager
def one_version(store: StoreOrAddress, keep: timedelta | str) -> Iterator[tuple[Store, Place]]:
    """A store as tasks will see it: in a directory, at a checkpoint that lives for `keep`.

    Servers have no checkpoints: there, rows are read as they are. A checkpoint is taken as it is.

    Raises what `open` and `Store.checkpoint` raise.
    """
    place = place_of(store)
    with opened_here(place) as here:
        try:
            checkpoint = here.checkpoint(keep=keep)
        except Unsupported:
            checkpoint = None
        if checkpoint is None:
            version = None if place.is_remote else _version_of(here)
            yield here, place._replace(version=version)
            return
    place = place._replace(address=checkpoint.path, until=checkpoint.until)
    with opened_here(place) as frozen:
        yield frozen, place._replace(version=_version_of(frozen))


def opened_here(place: Place, wait: timedelta | str | None = None) -> Store:
    """Opens a store; the caller closes it. A directory must have one already.

    Raises NotAStore where this host does not see the directory, Expired for a checkpoint that is
    gone, and what `open` raises.
    """
    try:
        return open_store(place.address, wait=wait, create=is_address(place.address))
    except NotAStore as error:
        if place.is_remote:
            raise
        raise _unseen(place) from error


# Threads of a worker ask for the same store at once.
_opening = threading.Lock()


def _forget_lock() -> None:
    """A child does not wait for a thread of its parent."""
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def opened(place: Place) -> Store:
    """The store of a place, which this process opens once.

    Raises what `opened_here` raises, and Expired where another version is in the place.
    """
    if not place.is_remote and not os.path.isfile(os.path.join(place.address, "MANIFEST")):
        # An open one would answer on, without its directory.
        with _opening:
            _opened.cache_clear()
        raise _unseen(place)
    with _opening:
        store = _opened(os.getpid(), place)
        if place.version is not None and place.version != _version_of(store):
            _opened.cache_clear()
            raise _gone(place)
    return store


@lru_cache(maxsize=_OPEN_STORES)
def _opened(_pid: int, place: Place) -> Store:
    # Schedulers end workers whose memory they find too large, with the pages of cached files.
    give_memory_back()
    # A child that was forked has the number of another process, and opens its own.
    return opened_here(place)


def _version_of(store: Store) -> str | None:
    with store.snapshot() as snapshot:
        return snapshot.version


def _unseen(place: Place) -> NotAStore | Expired:
    is_own = place.address == place.folder
    has_store = not is_own and os.path.isfile(os.path.join(place.folder, "MANIFEST"))
    if has_store or (is_own and place.version is not None):
        return _gone(place)
    here = socket.gethostname()
    return NotAStore(
        f"host {here} sees no store at {place.folder}, where host {place.host} has it; all hosts "
        "need the store at this path, such as on a shared file system"
    )


def _gone(place: Place) -> Expired:
    if place.address == place.folder:
        return Expired(
            f"the checkpoint {place.address} is no longer there, or another store is in its place; "
            f"make another one, at a path that host {socket.gethostname()} sees, and begin the job "
            "again"
        )
    until = "" if place.until is None else f" (to be kept until {place.until:%F %T} UTC)"
    return Expired(
        f"the checkpoint {place.address}{until} is no longer in the store, or another store is "
        "in its place; begin the job again, with a longer `keep` if needed"
    )
