"""An output at an address: a place for bytes, written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from ._errors import InvalidArgument


class Target(Protocol):
    """A place for bytes. Each method raises IoError where the service refuses."""

    shown: str
    """Its address, as messages may have it."""

    def exists(self) -> bool:
        """Whether something is there."""

    def has_files(self) -> bool:
        """Whether there is something at the place of a folder."""

    def below(self, name: str) -> Target:
        """The place of a file of this folder."""

    def filled(self, *, overwrite: bool) -> AbstractContextManager[Target]:
        """Gives the place for the files of this folder, which has its name after the block.

        Raises InvalidArgument for `overwrite` if folders cannot be renamed there.
        """

    def put(self, chunks: Iterator[bytes], *, overwrite: bool) -> None:
        """Writes all chunks. The name appears when all are written; an exception leaves no output.

        Raises InvalidArgument if it exists, unless `overwrite` is set.
        """

    def remove(self) -> None:
        """Removes the output of `put`."""


def exists(shown: str) -> InvalidArgument:
    """The error of an output that exists."""
    return InvalidArgument(
        f"{shown} exists; name another file, or replace it with --overwrite "
        "(in Python overwrite=True)"
    )


def not_replaced(target: Target, overwrite: bool) -> Target:
    """The target. Raises InvalidArgument for `overwrite`: folders are not replaced there."""
    if overwrite:
        raise InvalidArgument(
            f"{target.shown} is not on HDFS, and no other folder is replaced; remove it first"
        )
    return target
