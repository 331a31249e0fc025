"""Work on a store that is not open: restores of backups, and recovery."""

import os

from . import _core
from ._logs import follow
from ._results import Finding
from ._store import directory_of, progress_in


def restore(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    verify: bool = True,
    progress: bool | None = None,
) -> None:
    """Copies a backup to a place where nothing is yet.

    With `verify`, every checksum of the backup is verified first, so each file is read once. Raises
    Corrupt, and copies nothing, if a checksum is wrong. `progress` is that of `open`.
    """
    follow()
    backup, place = directory_of(source), directory_of(destination)
    with progress_in(backup, progress).shown():
        _core.restore(backup, place, verify)


def recover(
    path: str | os.PathLike[str],
    *,
    accept_loss: bool = False,
    accept_older: bool = False,
    progress: bool | None = None,
) -> list[Finding]:
    """Recovers a store that does not open. Returns the problems found; none if it does open.

    A segment that is missing, or whose header is damaged, is rebuilt from the other direction. A
    damaged journal is rewritten with the upserts that can be read. `Table.repair` repairs a table
    of a store that opens. Writers refuse a MANIFEST that is older than the last one published; with
    `accept_older` the store goes on with it, and loses the versions published since. `progress` is
    that of `open`.

    Raises Corrupt, and changes nothing, if something would be lost and `accept_loss` is not set.
    Raises Corrupt also for a damaged manifest or list of erasures: these need a backup.
    """
    follow()
    place = directory_of(path)
    with progress_in(place, progress).shown():
        found = _core.recover(place, accept_loss, accept_older)
    return [Finding(*finding) for finding in found]
