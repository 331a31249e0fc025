"""The calls to a cluster, the same for both protocols."""

from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """A file or a folder."""

    path: str
    is_folder: bool
    size: int
    """In bytes; 0 of a folder."""
    modified_ms: int
    """In milliseconds since 1970."""


class Reader(Protocol):
    """A file that is open to be read."""

    size: int
    """In bytes, as it was when it was opened."""

    def read(self, offset: int, length: int) -> bytes:
        """The bytes from an offset on: fewer than `length` only at the end. Raises Refused."""


class Writer(Protocol):
    """A file that is being made. Each method raises Refused."""

    def write(self, data: bytes) -> None:
        """Appends all bytes of `data`."""

    def close(self) -> None:
        """Completes the file."""

    def abandon(self) -> None:
        """Sends nothing more. Bytes that were sent stay until the file is removed."""


class Cluster(Protocol):
    """The files of a cluster. Paths begin with a slash. Each method raises Refused."""

    root: str
    """Its address without a path, such as "hdfs://lab"."""

    def info(self, path: str) -> Entry | None:
        """The file or folder at a path; None if there is none."""

    def entries(self, path: str) -> list[Entry]:
        """The files and folders directly in a folder."""

    def reader(self, path: str) -> Reader:
        """Opens a file."""

    def writer(self, path: str) -> Writer:
        """Makes a file that does not exist."""

    def make_folder(self, path: str) -> None:
        """Makes a folder, and missing folders above it."""

    def rename(self, path: str, to: str, *, overwrite: bool) -> None:
        """Gives another name. Raises FileExistsError for a name in use, without `overwrite`."""

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with all below it. It may be gone already."""
