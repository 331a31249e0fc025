"""A cluster as a read-only file system of pyarrow."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem

from idmatch._errors import SourceError

from ._calls import Refused
from ._cluster import Cluster, Entry, Reader


def filesystem(cluster: Cluster) -> PyFileSystem:
    """A file system that reads, and refuses to write. Its errors are SourceError."""
    return PyFileSystem(_Handler(cluster))


@contextmanager
def _reading(shown: str) -> Iterator[None]:
    try:
        yield
    except Refused as error:
        raise SourceError(f"cannot read {shown}: {error}") from None


class _Handler(FileSystemHandler):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other._cluster.root == self._cluster.root

    def __hash__(self) -> int:
        return hash(self._cluster.root)

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: str | list[str]) -> list[FileInfo]:
        return [self._info(path) for path in ([paths] if isinstance(paths, str) else paths)]

    def _info(self, path: str) -> FileInfo:
        with _reading(self._cluster.root + path):
            found = self._cluster.info(path)
        return _as_info(found) if found else FileInfo(path, FileType.NotFound)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        return list(self._below(selector.base_dir, selector.recursive))

    def _below(self, folder: str, recursive: bool) -> Iterator[FileInfo]:
        with _reading(self._cluster.root + folder):
            found = self._cluster.entries(folder)
        for entry in found:
            yield _as_info(entry)
            if recursive and entry.is_folder:
                yield from self._below(entry.path, recursive)

    def open_input_file(self, path: str) -> pa.PythonFile:
        shown = self._cluster.root + path
        with _reading(shown):
            return pa.PythonFile(_File(self._cluster.reader(path), shown), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise io.UnsupportedOperation("this file system is only read")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


class _File(io.RawIOBase):
    """A file for pyarrow, which calls it under a lock."""

    def __init__(self, reader: Reader, shown: str) -> None:
        self._reader = reader
        self._shown = shown
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        before = (0, self._at, self._reader.size)[whence]
        self._at = before + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = self._reader.size - self._at
        with _reading(self._shown):
            data = self._reader.read(self._at, size)
        self._at += len(data)
        return data


def _as_info(entry: Entry) -> FileInfo:
    if entry.is_folder:
        return FileInfo(entry.path, FileType.Directory)
    return FileInfo(
        entry.path, FileType.File, size=entry.size, mtime_ns=entry.modified_ms * 1_000_000
    )
