"""Opens existing stores for commands."""

import os

from idmatch import _store
from idmatch._errors import NotAStore
from idmatch._store import Store


def open_existing(path: str, wait: str | None = None) -> Store:
    """Opens a store that shows progress on a terminal.

    Raises NotAStore for a missing directory instead of creating a store.
    """
    store = _store.open(path, wait=wait, progress=True)
    if not _store.is_address(path) and not os.path.isdir(path):
        raise NotAStore(f"there is no store at {path}; create or load a table to make one")
    return store
