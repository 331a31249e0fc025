"""Files: a path, a glob, a directory or a URL, and how each is opened."""

import io
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from idmatch._address import Address
from idmatch._errors import SourceError
from idmatch._lazy import LazyModule

from ._columnar import open_columnar
from ._columns import Wanted
from ._csv import CsvRows
from ._declared import Declared
from ._filesystems import filesystem_of
from ._json_lines import JsonLines
from ._records import Readable
from ._source import OnMalformed, Opened, reading

if TYPE_CHECKING:
    from idmatch import _hdfs
else:
    _hdfs = LazyModule("idmatch._hdfs")

_READ_BUFFER_BYTES = 1 << 20
_KINDS = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".orc": "orc",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_COMPRESSIONS = (".gz", ".zst", ".bz2", ".lz4")
_MAGIC = {b"PAR1": "parquet", b"ORC": "orc"}
_GLOB = re.compile(r"[*?[]")
_HIDDEN = re.compile(r"/[._]")
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class File:
    """A Parquet, ORC, CSV or JSON lines file of some file system."""

    filesystem: FileSystem
    path: str
    name: str
    declared: Declared | None = None
    """The declaration of the table that the file belongs to."""

    @property
    def local_path(self) -> str | None:
        """See `Source`."""
        return self.path if isinstance(self.filesystem, LocalFileSystem) else None

    def open(self, wanted: Wanted, on_malformed: OnMalformed | None) -> Opened:
        """See `Source`. Directories named `key=value` on the file's path count as columns."""
        before = self._state()
        opened = self._open(wanted, on_malformed)

        def check() -> None:
            opened.check()
            if self._state() != before:
                raise SourceError(
                    f"{self.name} changed while it was read; try again when it is complete"
                )

        return Opened(opened.reader, check)

    def _open(self, wanted: Wanted, on_malformed: OnMalformed | None) -> Opened:
        partition = _partition_of(self.name)
        with reading(self.name):
            kind = self.kind()
            if kind == "json":
                objects = JsonLines(self._stream(), self.name, wanted, on_malformed, partition)
                tables = objects.read()
                # The first object tells whether there are such columns.
                first = next((table for table in tables if table is not None), None)
                schema = pa.schema([(role, pa.string()) for role in wanted.roles])
                if first is not None:
                    schema = first.schema
                return Opened(_joined(schema, chain([first], tables)))
            if kind == "csv":
                rows = CsvRows(self._stream(), self.name, wanted, on_malformed, partition)
                return Opened(_joined(rows.schema, rows.read()))
            return open_columnar(
                kind, self.filesystem, self.path, self.name, wanted, partition, self.declared
            )

    def _stream(self) -> Readable:
        stream = self.filesystem.open_input_stream(self.path, compression="detect")
        return cast("Readable", io.BufferedReader(cast("io.RawIOBase", stream), _READ_BUFFER_BYTES))

    def _state(self) -> tuple[object, ...]:
        """Values that differ after a change: size, time and, of a local file, its inode."""
        with reading(self.name):
            if isinstance(self.filesystem, LocalFileSystem):
                found = os.stat(self.path)
                return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev
            info = self.filesystem.get_file_info(self.path)
            return info.size, info.mtime_ns

    def is_compressed(self) -> bool:
        """Whether the name says that the whole file is compressed."""
        return self.path.lower().endswith(_COMPRESSIONS)

    def kind(self) -> str:
        """The kind of file, as its name says, or else its first bytes."""
        if self.declared is not None:
            return self.declared.format
        base, extension = os.path.splitext(self.path.lower())
        if extension in _COMPRESSIONS:
            extension = os.path.splitext(base)[1]
        if extension in _KINDS:
            return _KINDS[extension]
        with self.filesystem.open_input_stream(self.path, compression=None) as stream:
            start = stream.read(4)
        for magic, kind in _MAGIC.items():
            if start.startswith(magic):
                return kind
        raise SourceError(
            f"cannot tell what kind of file {self.name} is; "
            "name it .parquet, .orc, .csv or .jsonl; the last two also with .gz, .zst or .bz2"
        )


def _joined(schema: pa.Schema, tables: Iterable[pa.Table | None]) -> pa.RecordBatchReader:
    batches = (batch for table in tables if table is not None for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def find_files(where: str) -> list[File]:
    """The files that a path, glob, directory or URL stands for, in the order of their paths.

    A directory stands for all files below it, except for names that start with "." or "_".

    Raises SourceError when there is no file.
    """
    filesystem, root, path = _resolve(where)
    shown = str(Address(where))
    with reading(shown):
        found = filesystem.get_file_info(path)
        if found.type is not FileType.NotFound:
            matching = [found]
        elif glob := _GLOB.search(path):
            matching = _expand(filesystem, path, glob.start())
        else:
            stdin = "; `upsert -` reads standard input" if where == "-" else ""
            raise SourceError(f"cannot read {shown}: there is no such file or directory{stdin}")
        # Each path once: a glob may match both a directory and a file in it.
        paths = dict.fromkeys(p for info in matching for p in _paths_of(filesystem, info))
    if not paths:
        what = "no file matches" if found.type is FileType.NotFound else "there is no file in"
        raise SourceError(f"{what} {shown}; check the path")
    return [File(filesystem, path, str(Address(root + path))) for path in paths]


def files_of(folder: str, declared: Declared) -> list[File]:
    """The files of a table in a folder; there may be none.

    Characters of the folder's address are not decoded, as Hadoop writes it: file:/day=%2F, hdfs://,
    s3a://. Raises SourceError if the folder cannot be read.
    """
    with reading(folder):
        filesystem, root, path = _resolve_plain(folder)
        found = filesystem.get_file_info(path)
        paths = _paths_of(filesystem, found) if found.type is FileType.Directory else []
    return [File(filesystem, path, root + path, declared) for path in paths]


def is_folder(folder: str) -> bool:
    """Whether there is a folder, by an address as `files_of` takes it. Raises SourceError."""
    with reading(folder):
        filesystem, _, path = _resolve_plain(folder)
        return filesystem.get_file_info(path).type is FileType.Directory


def _resolve_plain(folder: str) -> tuple[FileSystem, str, str]:
    """`_resolve` for an address as Hadoop writes it."""
    scheme, _, place = folder.partition(":")
    if scheme == "file":
        return LocalFileSystem(), "", "/" + place.lstrip("/")
    if Address(folder).is_hdfs:
        return _resolve(folder)
    root = f"{scheme}://"
    bucket, _, below = place.removeprefix("//").partition("/")
    filesystem, base = filesystem_of(root + bucket)
    return filesystem, root, f"{base}/{below}"


def _resolve(where: str) -> tuple[FileSystem, str, str]:
    """The file system, the prefix that makes its paths URLs, and the path in it, globs included.

    In a URL a question mark starts the file system's options, as in `?region=eu-central-1`.
    """
    if "://" not in where:
        return LocalFileSystem(), "", where
    if Address(where).is_hdfs:
        cluster, path = _hdfs.located(where)
        return _hdfs.filesystem(cluster), cluster.root, path
    url, mark, options = where.partition("?")
    glob = _GLOB.search(url)
    cut = url.rindex("/", 0, glob.start()) if glob else len(url)
    with reading(str(Address(where))):
        filesystem, base = filesystem_of(url[:cut] + mark + options)
    root = "" if isinstance(filesystem, LocalFileSystem) else url.partition("://")[0] + "://"
    return filesystem, root, base + url[cut:]


def _expand(filesystem: FileSystem, pattern: str, glob_at: int) -> list[FileInfo]:
    """The entries that a glob matches; `**` is any number of directories, all else one name."""
    base = pattern[: pattern.rfind("/", 0, glob_at) + 1]
    found = [filesystem.get_file_info(base or ".")]
    for name in pattern[len(base) :].split("/"):
        directories = [info.path for info in found if info.type is FileType.Directory]
        if name == "**":
            below = [info for path in directories for info in _below(filesystem, path, True)]
            found += [info for info in below if info.type is FileType.Directory]
        else:
            below = [info for path in directories for info in _below(filesystem, path, False)]
            found = [info for info in below if fnmatchcase(info.base_name, name)]
    return found


def _paths_of(filesystem: FileSystem, found: FileInfo) -> list[str]:
    """A file's path, or those of the files below a directory."""
    below = [found]
    if found.type is FileType.Directory:
        below = _below(filesystem, found.path, True)
    for info in below:
        if info.type is FileType.Unknown:
            raise SourceError(
                f"cannot read {info.path}: it is a pipe or a device; write what it gives to a "
                "file, or stream it to `idmatch upsert STORE TABLE -`"
            )
    return [info.path for info in below if info.type is not FileType.Directory]


def _below(filesystem: FileSystem, directory: str, recursive: bool) -> list[FileInfo]:
    """The entries of a directory, sorted by path, without names that start with "." or "_"."""
    infos = filesystem.get_file_info(FileSelector(directory, recursive=recursive))
    start = len(directory.rstrip("/"))
    shown = [info for info in infos if not _HIDDEN.search(info.path, start)]
    return sorted(shown, key=lambda info: info.path)


def _partition_of(path: str) -> dict[str, str | None]:
    """The columns that Hive's `key=value` directories on a path give."""
    keys = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    return {
        unquote(key): None if value == _NULL_PARTITION else unquote(value)
        for key, value in keys.items()
    }
