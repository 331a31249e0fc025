"""Places: what all tasks of a job open, by address: one version of a directory, or servers.

Must not know Dask or Spark. A store of the process that begins a job is never used in a worker,
which may be a fork of it.
"""

import os
import socket
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
            yield here, place
            return
    place = place._replace(address=checkpoint.path, until=checkpoint.until)
    with opened_here(place) as frozen:
        yield frozen, place


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


def opened(place: Place) -> Store:
    """The store of a place, which this process opens once; raises what `opened_here` raises."""
    if not place.is_remote and not os.path.isfile(os.path.join(place.address, "MANIFEST")):
        # An open one would answer on, without its directory.
        _opened.cache_clear()
        raise _unseen(place)
    return _opened(os.getpid(), place)


@lru_cache(maxsize=_OPEN_STORES)
def _opened(_pid: int, place: Place) -> Store:
    # Schedulers end workers whose memory they find too large, with the pages of cached files.
    give_memory_back()
    # A child that was forked has the number of another process, and opens its own.
    return opened_here(place)


def _unseen(place: Place) -> NotAStore | Expired:
    if os.path.isfile(os.path.join(place.folder, "MANIFEST")):
        until = "" if place.until is None else f" (to be kept until {place.until:%F %T} UTC)"
        return Expired(
            f"the checkpoint {place.address}{until} is no longer in the store, or another store is "
            "in its place; begin the job again, with a longer `keep` if needed"
        )
    here = socket.gethostname()
    return NotAStore(
        f"host {here} sees no store at {place.folder}, where host {place.host} has it; all hosts "
        "need the store at this path, such as on a shared file system"
    )
