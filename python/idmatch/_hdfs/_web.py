"""A cluster by WebHDFS, through fsspec: where only HTTP passes. Slower than `_native.py`."""

from __future__ import annotations

import getpass
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from idmatch._errors import InvalidArgument
from idmatch._lazy import LazyModule

from ._calls import Refused, answered
from ._cluster import Entry, Reader, Writer

if TYPE_CHECKING:
    from fsspec.implementations import webhdfs
else:
    webhdfs = LazyModule("fsspec.implementations.webhdfs")

_DEFAULT_PORT = 9870
# WebHDFS takes each block of a written file as one request.
_BLOCK_BYTES = 8 << 20


class WebCluster:
    """A namenode by its HTTP address, as HADOOP_USER_NAME or the user of this process."""

    def __init__(self, place: str, port: int | None) -> None:
        """Sends no request. Raises InvalidArgument for an address without a host."""
        host = place.rpartition(":")[0] if port else place
        if not host:
            raise InvalidArgument(
                f"webhdfs://{place}/ names no host; write it like webhdfs://namenode:9870/path"
            )
        self.root = f"webhdfs://{place}"
        user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._files = webhdfs.WebHDFS(
            host, port=port or _DEFAULT_PORT, user=user, skip_instance_cache=True
        )

    def info(self, path: str) -> Entry | None:
        """See `Cluster`."""
        try:
            return _entry(path, answered(lambda: self._files.info(path), "namenode"))
        except FileNotFoundError:
            return None

    def entries(self, path: str) -> list[Entry]:
        """See `Cluster`."""
        try:
            found = answered(lambda: self._files.ls(path, detail=True), "namenode")
        except FileNotFoundError:
            raise Refused("there is no such directory; check the path") from None
        return [_entry(str(each["name"]), each) for each in found]

    def reader(self, path: str) -> Reader:
        """See `Cluster`."""
        return _WebReader(self._files, path)

    def writer(self, path: str) -> Writer:
        """See `Cluster`."""
        return _WebWriter(self._files, path)

    def make_folder(self, path: str) -> None:
        """See `Cluster`."""
        answered(lambda: self._files.makedirs(path, exist_ok=True), "namenode")

    def rename(self, path: str, to: str, *, overwrite: bool) -> None:
        """See `Cluster`. Removes the old file first: WebHDFS does not rename to a name in use."""
        if self.info(to) is not None:
            if not overwrite:
                raise FileExistsError(to)
            self.remove(to)
        answered(lambda: self._files.mv(path, to), "namenode", waits_after_interrupt=True)
        if self.info(path) is not None:
            # fsspec drops the answer of WebHDFS: a file that kept its name was not renamed.
            raise FileExistsError(to)

    def remove(self, path: str) -> None:
        """See `Cluster`."""
        with suppress(FileNotFoundError):
            answered(lambda: self._files.rm(path, recursive=True), "namenode")


class _WebReader:
    def __init__(self, files: webhdfs.WebHDFS, path: str) -> None:
        try:
            self._file = answered(
                lambda: files.open(path, "rb", cache_type="readahead", block_size=_BLOCK_BYTES),
                "namenode",
            )
        except FileNotFoundError:
            raise Refused("there is no such file; check the path") from None
        self.size = int(self._file.size)

    def read(self, offset: int, length: int) -> bytes:
        def ask() -> bytes:
            self._file.seek(offset)
            return bytes(self._file.read(length))

        return answered(ask, "datanode") if 0 <= offset < self.size else b""


class _WebWriter:
    def __init__(self, files: webhdfs.WebHDFS, path: str) -> None:
        self._file = answered(lambda: files.open(path, "wb", block_size=_BLOCK_BYTES), "namenode")

    def write(self, data: bytes) -> None:
        answered(lambda: self._file.write(data), "datanode")

    def close(self) -> None:
        answered(self._file.close, "datanode")

    def abandon(self) -> None:
        # A file that is not closed would send the rest when it is dropped.
        self._file.closed = True


def _entry(path: str, found: dict[str, object]) -> Entry:
    size, modified = found["size"], found["modificationTime"]
    assert isinstance(size, int)
    assert isinstance(modified, int)
    return Entry(path.rstrip("/") or "/", found["type"] == "directory", size, modified)
