"""Opens existing stores for commands."""

import os

from idmatch import _store
from idmatch._errors import NotAStore
from idmatch._runs import Recorder
from idmatch._store import Store


def open_existing(path: str, wait: str | None = None, *, record: bool = False) -> Store:
    """Opens a store that shows progress on a terminal and, with `record`, records runs.

    Raises NotAStore for a missing directory instead of creating a store.
    """
    store = _store.open(path, wait=wait, progress=True, record=record)
    if not _store.is_address(path) and not os.path.isdir(path):
        raise NotAStore(f"there is no store at {path}; create or load a table to make one")
    return store


def runs_of(store: Store) -> Recorder:
    """The recorder of a store, for a command that is one run from its start to its end."""
    return Recorder(store.path, _store.is_address(store.path))
