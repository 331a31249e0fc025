"""What an output at an address is: a place for bytes, written whole or not at all."""

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
        """Whether something is there as a folder."""

    def below(self, name: str) -> Target:
        """The place of a file of this folder."""

    def filled(self, *, overwrite: bool) -> AbstractContextManager[Target]:
        """Gives the place for the files of this folder, which has its name after the block.

        Raises InvalidArgument for a folder to overwrite where folders cannot be renamed.
        """

    def put(self, chunks: Iterator[bytes], *, overwrite: bool) -> None:
        """Writes all chunks. The name appears when they are there; an exception leaves none.

        Raises InvalidArgument where it exists and is not to be overwritten.
        """

    def remove(self) -> None:
        """Removes what `put` has written."""


def exists(shown: str) -> InvalidArgument:
    """The error of an output that is there."""
    return InvalidArgument(
        f"{shown} exists; name another file, or replace it with --overwrite "
        "(in Python overwrite=True)"
    )


def not_replaced(target: Target, overwrite: bool) -> Target:
    """The target, where no folder is to be replaced. Raises InvalidArgument."""
    if overwrite:
        raise InvalidArgument(
            f"{target.shown} is not on HDFS, and no other folder is replaced; remove it first"
        )
    return target
