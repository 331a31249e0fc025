"""A cluster by Hadoop's own protocol, through hdfs-native, which needs no Java."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from idmatch._errors import InvalidArgument
from idmatch._lazy import LazyModule

from ._calls import Refused, answered
from ._cluster import Entry, Reader, Writer

if TYPE_CHECKING:
    import hdfs_native
else:
    hdfs_native = LazyModule("hdfs_native")

_DEFAULT_PORT = 8020
# Seven pauses of 0.5 s to 5 s: half a minute, in which namenodes fail over.
_CONFIG = {
    "dfs.client.failover.max.attempts": "8",
    "dfs.client.failover.sleep.base.millis": "500",
    "dfs.client.failover.sleep.max.millis": "5000",
}
# The time limit of a call counts for this many bytes at a time.
_PIECE_BYTES = 8 << 20


class NativeCluster:
    """A name service or a namenode. The Hadoop configuration is that of HADOOP_CONF_DIR."""

    def __init__(self, place: str, port: int | None) -> None:
        """Sends no request. Raises InvalidArgument if no configuration names a namenode."""
        self.root = f"hdfs://{place}"
        self._made_of = (place, port)
        self._client = _client(place, port)

    def __reduce__(self) -> tuple[type[NativeCluster], tuple[str, int | None]]:
        # A worker process makes its own connection, by its own configuration.
        return NativeCluster, self._made_of

    def info(self, path: str) -> Entry | None:
        """See `Cluster`."""
        try:
            return _entry(answered(lambda: self._client.get_file_info(_plain(path)), "namenode"))
        except FileNotFoundError:
            return None

    def entries(self, path: str) -> list[Entry]:
        """See `Cluster`."""
        try:
            found = answered(lambda: list(self._client.list_status(_plain(path))), "namenode")
        except FileNotFoundError:
            raise Refused("there is no such directory; check the path") from None
        return [_entry(status) for status in found]

    def reader(self, path: str) -> Reader:
        """See `Cluster`."""
        return _NativeReader(self._client, path)

    def writer(self, path: str) -> Writer:
        """See `Cluster`."""
        options = hdfs_native.WriteOptions(overwrite=False)
        return _NativeWriter(answered(lambda: self._client.create(path, options), "namenode"))

    def make_folder(self, path: str) -> None:
        """See `Cluster`."""
        answered(lambda: self._client.mkdirs(path, create_parent=True), "namenode")

    def rename(self, path: str, to: str, *, overwrite: bool) -> None:
        """See `Cluster`. It is one operation of the namenode, so a file is there at any moment."""
        answered(
            lambda: self._client.rename(path, to, overwrite), "namenode", waits_after_interrupt=True
        )

    def remove(self, path: str) -> None:
        """See `Cluster`."""
        with suppress(FileNotFoundError):
            answered(lambda: self._client.delete(path, True), "namenode")


class _NativeReader:
    """Reads consecutive ranges through one stream, and each other range through its own stream."""

    def __init__(self, client: hdfs_native.Client, path: str) -> None:
        self._client = client
        self._path = path
        self._file = self._opened()
        self.size = len(self._file)
        self._stream: Iterator[bytes] = iter(())
        # Bytes of the stream that are not read yet, their offset, and the end of the stream.
        self._left = b""
        self._at = 0
        self._end = 0

    def _opened(self) -> hdfs_native.FileReader:
        try:
            return answered(lambda: self._client.read(self._path), "namenode")
        except FileNotFoundError:
            raise Refused("there is no such file; check the path") from None

    def read(self, offset: int, length: int) -> bytes:
        length = max(0, min(length, self.size - offset))
        pieces = list[bytes]()
        while length:
            piece = self._piece(offset, min(length, _PIECE_BYTES), offset + length)
            pieces.append(piece)
            offset += len(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, offset: int, length: int, end: int) -> bytes:
        if offset != self._at or self._end < offset + length:
            self._begin(offset, self.size if offset == self._at else end)
        try:
            piece = answered(partial(self._take, length), "datanode")
        except Refused:
            # Its blocks may be on other datanodes by now.
            self._file = self._opened()
            if len(self._file) != self.size:
                raise Refused("it has changed while it was read; try again") from None
            self._begin(offset, end)
            piece = answered(partial(self._take, length), "datanode")
        self._at = offset + length
        return piece

    def _begin(self, offset: int, end: int) -> None:
        self._stream = iter(self._file.read_range_stream(offset, end - offset))
        self._left, self._end = b"", end

    def _take(self, length: int) -> bytes:
        parts, size = [self._left], len(self._left)
        while size < length:
            part = next(self._stream, b"")
            if not part:
                raise Refused("its bytes end early; check it with `hdfs fsck`")
            parts.append(part)
            size += len(part)
        taken = b"".join(parts)
        self._left = taken[length:]
        return taken[:length]


class _NativeWriter:
    def __init__(self, file: hdfs_native.FileWriter) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        answered(lambda: self._file.write(data), "datanode")

    def close(self) -> None:
        answered(self._file.close, "datanode")

    def abandon(self) -> None:
        """Does nothing: a file that is dropped sends nothing."""


def _client(place: str, port: int | None) -> hdfs_native.Client:
    url = f"hdfs://{place}"
    try:
        # Without a place, the client connects to fs.defaultFS.
        return hdfs_native.Client(url if place else None, _CONFIG)
    except RuntimeError as error:
        if place and port is None and "No NameNode hosts" in str(error):
            return hdfs_native.Client(f"{url}:{_DEFAULT_PORT}", _CONFIG)
        what = "is no address of HDFS" if place else "needs fs.defaultFS of core-site.xml"
        raise InvalidArgument(
            f"{url}/ {what}; write it like hdfs://namenode:8020/path, and let HADOOP_CONF_DIR name "
            "the folder of the Hadoop configuration"
        ) from None


def _plain(path: str) -> str:
    return path.rstrip("/") or "/"


def _entry(status: hdfs_native.FileStatus) -> Entry:
    return Entry(status.path, status.isdir, status.length, status.modification_time)
