"""Places: the stores that tasks of a job open by address: one version of a directory, or servers.

Must not know Dask or Spark. A worker never uses a store object of the process that begins the job:
it may be a fork of that process.
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

# A worker process outlives its job, and files of its open stores stay on the disk: keep few open.
_OPEN_STORES = 4

StoreOrAddress = Store | str | os.PathLike[str]


class Place(NamedTuple):
    """A store, or one version of it, as other processes open it. It can be pickled."""

    address: str
    """The address of servers, secrets included, or an absolute path."""
    folder: str
    """The directory of the store that has the version; empty on servers."""
    host: str
    """The host on which the directory was seen."""
    until: datetime | None = None
    """The end of the version's life; None if it is not limited."""
    version: str | None = None
    """The version, as `Snapshot.version` names it: no other store has it. None if it may change."""

    @property
    def is_remote(self) -> bool:
        """Whether it is on servers."""
        return not self.folder

    def __repr__(self) -> str:
        return f"Place({str(Address(self.address))!r})"


def place_of(store: StoreOrAddress) -> Place:
    """The place of the store itself, not of one version."""
    address = store._how[0] if isinstance(store, Store) else os.fspath(store)
    if is_address(address):
        return Place(address, "", socket.gethostname())
    folder = os.path.abspath(address)
    return Place(folder, folder, socket.gethostname())


@contextmanager
def one_version(store: StoreOrAddress, keep: timedelta | str) -> Iterator[tuple[Store, Place]]:
    """A store as tasks will see it: in a directory, at a checkpoint that lives for `keep`.

    Servers have no checkpoints: there, rows are read as they are. A store that is a checkpoint is
    used itself.

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


# Several threads of a worker may open the same store at the same time.
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
        # An open store would go on answering although its directory is gone.
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
    # Schedulers count the pages of cached files as memory, and end workers that have too much.
    give_memory_back()
    # The pid is a part of the key of the cache: a forked child opens its own store.
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
