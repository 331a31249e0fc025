"""The folder of a store's rejects: STORE.rejects/, or for servers one in the user's state folder.

It is for its owner only. Files are named by table, time and process; after 30 days the next one
that is made removes them.
"""

import contextlib
import os
import re
import stat
import time
from pathlib import Path

from ._core import Table
from ._errors import IoError
from ._outputs import PRIVATE
from ._text import escaped

_KEPT_SECONDS = 30 * 86_400
_NAME = re.compile(r".+-\d{8}T\d{6}Z-\d+(-\d+)?\.csv")


def new_file(table: Table) -> tuple[str, int]:
    """Makes a file for rejects of a table; returns its path and its file descriptor.

    Raises IoError.
    """
    folder = _folder(table)
    try:
        _make(folder)
        _remove_old(folder)
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        name, number = f"{table.name}-{at}-{os.getpid()}", 1
        while True:
            path = folder / (f"{name}.csv" if number == 1 else f"{name}-{number}.csv")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                return str(path), os.open(path, flags, PRIVATE)
            except FileExistsError:
                number += 1
    except OSError as error:
        raise IoError(
            f"cannot write rejected rows to {escaped(str(folder))}: {error.strerror}; name a file "
            "for them: --rejects, in Python rejects="
        ) from error


def _folder(table: Table) -> Path:
    if not table.is_remote:
        # The parent of "." has another name.
        store = table.store_path.rstrip("/")
        if os.path.basename(store) in ("", ".", ".."):
            store = os.path.realpath(store or "/")
        return Path(f"{store}.rejects")
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "idmatch" / "rejects"


def _make(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError(0, "it is no directory of this user")


def _remove_old(folder: Path) -> None:
    oldest = time.time() - _KEPT_SECONDS
    with os.scandir(folder) as entries:
        for entry in entries:
            # Another process may remove it, too.
            with contextlib.suppress(OSError):
                is_file = entry.is_file(follow_symlinks=False)
                if is_file and _NAME.fullmatch(entry.name) and entry.stat().st_mtime < oldest:
                    os.remove(entry.path)
