"""Folders beside a store in a directory, for this user only: STORE.rejects/, STORE.runs/.

For stores on servers, these folders are in the user's state folder. Must not know their contents.
"""

import contextlib
import os
import re
import stat
import time
from pathlib import Path


def beside(store: str, kind: str) -> Path:
    """The folder of this kind beside a store in a directory."""
    # "." and ".." are no names of a directory: its real path has the name.
    store = store.rstrip("/")
    if os.path.basename(store) in ("", ".", ".."):
        store = os.path.realpath(store or "/")
    return Path(f"{store}.{kind}")


def of_user(kind: str) -> Path:
    """The folder of this kind for stores on servers."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "idmatch" / kind


def make(folder: Path) -> None:
    """Makes a folder, for its owner only; one that exists must be a directory of this user.

    Raises OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError(0, "it is no directory of this user")


def remove_old(folder: Path, name: re.Pattern[str], days: int) -> None:
    """Removes files whose names match `name` and that were written more than `days` ago."""
    oldest = time.time() - days * 86_400
    with os.scandir(folder) as entries:
        for entry in entries:
            # Another process may remove it, too.
            with contextlib.suppress(OSError):
                is_file = entry.is_file(follow_symlinks=False)
                if is_file and name.fullmatch(entry.name) and entry.stat().st_mtime < oldest:
                    os.remove(entry.path)
