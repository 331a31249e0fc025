"""RocksDB, through its own C interface.

Layout: one key space, `i id NUL partner_id` and `p partner_id NUL id`; the value is the date, 8
bytes, largest first. Newest date: the merge operator `max` that RocksDB has built in, so that no
write reads. A batch is one WriteBatch with both directions of its rows. A question is a seek and a
scan of a prefix.

Settings: WAL with sync=true at each write (RocksDB groups the syncs of writers that wait), LZ4, a
block cache of 4 GB, memtables of 128 MB, dynamic levels, bloom filters over the first 17 bytes of
the keys for the scans.

Why not a Python package: rocksdict has no merge operators and keeps Python's lock while it writes,
so that its writers never share a sync; here `ctypes` lets it go. The library is the one inside the
wheel of rdbpython, because Debian's is built with assertions, which cost a quarter of the speed;
Debian's is taken where that wheel is missing.

Fill: WriteBatches without WAL, then a flush, and the compactions that follow from it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import time
from collections.abc import Iterable, Mapping
from ctypes import c_char_p, c_int, c_size_t, c_ubyte, c_void_p
from pathlib import Path
from typing import Any

from live_peers.base import CACHE_BYTES, Batch, Client, Found, LeftOut, LivePeer

_OPTIONS = f"""
    create_if_missing=true; merge_operator=max;
    compression=kLZ4Compression; level_compaction_dynamic_level_bytes=true;
    max_background_jobs=2; bytes_per_sync=1048576;
    write_buffer_size={128 << 20}; max_write_buffer_number=4; enable_pipelined_write=true;
    prefix_extractor=rocksdb.FixedPrefix.17;
    block_based_table_factory={{block_cache={CACHE_BYTES};
        filter_policy=bloomfilter:10:false; format_version=5}}
"""
_ROWS_PER_FILL_BATCH = 10_000
_DEBIAN = "librocksdb.so.7.8"
_MERGE_TAG, _DATE_LENGTH = b"\x02", b"\x08"

# Functions of rocksdb/c.h: what they take, and what they give.
_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "options_create": ([], c_void_p),
    "options_destroy": ([c_void_p], None),
    "writeoptions_create": ([], c_void_p),
    "writeoptions_set_sync": ([c_void_p, c_ubyte], None),
    "writeoptions_disable_WAL": ([c_void_p, c_int], None),
    "readoptions_create": ([], c_void_p),
    "flushoptions_create": ([], c_void_p),
    "close": ([c_void_p], None),
    "free": ([c_void_p], None),
    "property_value": ([c_void_p, c_char_p], c_void_p),
    "writebatch_create_from": ([c_char_p, c_size_t], c_void_p),
    "writebatch_destroy": ([c_void_p], None),
    "create_iterator": ([c_void_p, c_void_p], c_void_p),
    "iter_destroy": ([c_void_p], None),
    "iter_seek": ([c_void_p, c_char_p, c_size_t], None),
    "iter_next": ([c_void_p], None),
    "iter_valid": ([c_void_p], c_ubyte),
    "iter_key": ([c_void_p, ctypes.POINTER(c_size_t)], c_void_p),
    "iter_value": ([c_void_p, ctypes.POINTER(c_size_t)], c_void_p),
    "iter_get_error": ([c_void_p, c_void_p], None),
    "get_options_from_string": ([c_void_p, c_char_p, c_void_p, c_void_p], None),
    "open": ([c_void_p, c_char_p, c_void_p], c_void_p),
    "write": ([c_void_p, c_void_p, c_void_p, c_void_p], None),
    "flush": ([c_void_p, c_void_p, c_void_p], None),
}
_FALLIBLE = {"iter_get_error", "get_options_from_string", "open", "write", "flush"}


class RocksDbFailed(Exception):
    """RocksDB's own error."""


class RocksDb(LivePeer):
    """One database."""

    log_files = "*.log"

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace)
        self._database = 0

    def version(self) -> str:
        found = [
            match.group(1)
            for file in self.workspace.glob("OPTIONS-*")
            if (match := re.search(r"rocksdb_version=([0-9.]+)", file.read_text()))
        ]
        return f"{found[0] if found else 'unknown'} ({_library_path().name})"

    def settings(self) -> Mapping[str, str]:
        return {
            "layout": "i id \\0 partner_id -> seen_at, p partner_id \\0 id -> seen_at",
            "durable": "WAL, sync=true",
            "newest": "built-in merge operator max",
            "writers": "threads; RocksDB groups them",
            "cache": "block cache 4 GB",
            "options": " ".join(_OPTIONS.split()),
        }

    def start(self) -> None:
        self._c = c = _C(_library_path())
        defaults, options = c.options_create(), c.options_create()
        c.get_options_from_string(defaults, _OPTIONS.strip().encode(), options)
        self._database = c.open(options, str(self.workspace).encode())
        for unneeded in (defaults, options):
            c.options_destroy(unneeded)
        self._synced, self._unlogged = c.writeoptions_create(), c.writeoptions_create()
        c.writeoptions_set_sync(self._synced, 1)
        c.writeoptions_disable_WAL(self._unlogged, 1)
        self._reading = c.readoptions_create()

    def fill(self, chunks: Iterable[Batch]) -> None:
        for chunk in chunks:
            for at in range(0, len(chunk), _ROWS_PER_FILL_BATCH):
                part = slice(at, at + _ROWS_PER_FILL_BATCH)
                self._write(
                    Batch(chunk.ids[part], chunk.partner_ids[part], chunk.seen_at[part]),
                    self._unlogged,
                )
        self._c.flush(self._database, self._c.flushoptions_create())
        while any(
            self._property(name)
            for name in ("compaction-pending", "num-running-compactions", "num-running-flushes")
        ):
            time.sleep(0.05)

    def _property(self, name: str) -> int:
        text = self._c.property_value(self._database, f"rocksdb.{name}".encode())
        try:
            return int(ctypes.string_at(text))
        finally:
            self._c.free(text)

    def connect(self) -> Client:
        return _Connection(self)

    def upsert(self, batch: Batch) -> None:
        """Returns when the batch is on disk."""
        self._write(batch, self._synced)

    def _write(self, batch: Batch, options: int) -> None:
        content = _content(batch)
        pointer = self._c.writebatch_create_from(content, len(content))
        try:
            self._c.write(self._database, options, pointer)
        finally:
            self._c.writebatch_destroy(pointer)

    def starting_with(self, direction: str, key: str) -> Found:
        """What goes with a key in one direction, newest first."""
        c, found = self._c, []
        prefix = f"{direction}{key}\0".encode()
        start = len(prefix)
        length = c_size_t()
        iterator = c.create_iterator(self._database, self._reading)
        try:
            c.iter_seek(iterator, prefix, start)
            while c.iter_valid(iterator):
                text = ctypes.string_at(c.iter_key(iterator, length), length.value)
                if not text.startswith(prefix):
                    break
                date = ctypes.string_at(c.iter_value(iterator, length), length.value)
                found.append((text[start:].decode(), int.from_bytes(date, "big")))
                c.iter_next(iterator)
            c.iter_get_error(iterator)
        finally:
            c.iter_destroy(iterator)
        found.sort(key=lambda pair: pair[1], reverse=True)
        return found

    def stop(self) -> None:
        if self._database:
            self._c.close(self._database)
        self._database = 0


class _Connection(Client):
    def __init__(self, store: RocksDb) -> None:
        self._store = store

    def upsert(self, batch: Batch) -> None:
        self._store.upsert(batch)

    def partner_ids(self, key: str) -> Found:
        return self._store.starting_with("i", key)

    def ids(self, key: str) -> Found:
        return self._store.starting_with("p", key)


class _C:
    """The functions, without `rocksdb_` before their names and without the argument for errors,
    which are raised.
    """

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        for name, (takes, gives) in _FUNCTIONS.items():
            function = getattr(library, f"rocksdb_{name}")
            function.argtypes, function.restype = takes, gives
            setattr(self, name, _raising(function) if name in _FALLIBLE else function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _raising(function: Any) -> Any:
    def call(*arguments: Any) -> Any:
        error = c_char_p()
        given = function(*arguments, ctypes.byref(error))
        if error.value:
            raise RocksDbFailed(error.value.decode(errors="replace"))
        return given

    return call


def _content(batch: Batch) -> bytes:
    """A WriteBatch as RocksDB keeps it in its log: a sequence number, the count, then each key and
    value with lengths.
    """
    parts = [bytes(8) + (2 * len(batch)).to_bytes(4, "little")]
    for one, other, date in zip(batch.ids, batch.partner_ids, batch.seen_at, strict=True):
        by_id, by_partner_id = f"i{one}\0{other}".encode(), f"p{other}\0{one}".encode()
        head = _MERGE_TAG + _length(len(by_id))
        value = _DATE_LENGTH + date.to_bytes(8, "big")
        parts += (head, by_id, value, head, by_partner_id, value)
    return b"".join(parts)


def _length(number: int) -> bytes:
    """A varint32."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))


def _library_path() -> Path:
    """RocksDB's shared library; LeftOut where there is none."""
    package = importlib.util.find_spec("rdbpy")
    if package and package.origin:
        for bundled in Path(package.origin).parents[1].glob("rdbpython.libs/librocksdb-*.so*"):
            return bundled
    try:
        ctypes.CDLL(_DEBIAN)
    except OSError as error:
        raise LeftOut(
            "neither the wheel of rdbpython nor Debian's librocksdb7.8 is installed"
        ) from error
    return Path(_DEBIAN)


PEER = RocksDb
