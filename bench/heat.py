"""Page cache before a run, and bytes read from disk by it.

Bytes are those that Linux counts for a process in `/proc/PID/io` as `read_bytes`: fetched from the
block device for it, by reads and by page faults of mapped files, with its threads and the children
that it waited for. What comes from the page cache counts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

# A run that reads a larger share of the files that it opens is not called hot.
HOT_SHARE = 0.01
_CHUNK_BYTES = 16 << 20
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def disk_bytes_read(process: int) -> int:
    """Bytes read from disk by a process so far; 0 when it has ended or the system does not say."""
    try:
        lines = Path(f"/proc/{process}/io").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), 0)


def can_drop_page_cache() -> bool:
    """Whether this process may drop the page cache."""
    return os.access(_DROP_CACHES, os.W_OK)


def drop_page_cache() -> None:
    """Writes dirty pages and evicts all cached file contents."""
    os.sync()
    _DROP_CACHES.write_text("3\n")


def read_once(files: Iterable[Path]) -> None:
    """Reads files into the page cache."""
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.read(_CHUNK_BYTES):
                pass


def give_page_cache_to(files: Iterable[Path]) -> None:
    """Evicts all other files, where root allows it, and reads these once."""
    if can_drop_page_cache():
        drop_page_cache()
    read_once(files)
