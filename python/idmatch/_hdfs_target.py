"""Outputs on HDFS: each is written under a temporary name, and renamed when it is complete.

Must not know where the bytes come from.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ._errors import InvalidArgument, IoError, UnknownOutcome
from ._lazy import LazyModule
from ._target import Target, exists

if TYPE_CHECKING:
    from . import _hdfs
else:
    _hdfs = LazyModule("idmatch._hdfs")


_LOG = logging.getLogger("idmatch.outputs")


def hdfs_file_of(url: str, shown: str) -> Target:
    """The file of an address. Needs no network. Raises InvalidArgument and MissingExtra."""
    cluster, path = _hdfs.located(url)
    if {"", ".", ".."}.intersection(path.split("/")[1:]):
        raise InvalidArgument(f"{shown} names no file; write it like hdfs://namenode/path/name.csv")
    return _HdfsFile(cluster, path)


class _HdfsFile:
    """A file on HDFS. It is written under a temporary name, and renamed when it is complete."""

    def __init__(self, cluster: _hdfs.Cluster, path: str) -> None:
        self._cluster = cluster
        self._path = path
        self.shown = cluster.root + path

    def exists(self) -> bool:
        with self._asking():
            return self._cluster.info(self._path) is not None

    def has_files(self) -> bool:
        return self.exists()

    def below(self, name: str) -> Target:
        return _HdfsFile(self._cluster, f"{self._path}/{name}")

    @contextmanager
    def filled(self, *, overwrite: bool) -> Iterator[Target]:
        with self._asking(), self._beside() as beside:
            self._cluster.make_folder(beside)
            yield _HdfsFile(self._cluster, beside)
            if not overwrite or self._cluster.info(self._path) is None:
                self._give_name(beside, overwrite=False)
                return
            before = f"{beside}.before"
            try:
                self._cluster.rename(self._path, before, overwrite=False)
                self._give_name(beside, overwrite=False)
            except BaseException as error:
                self._put_back(before, error)
                raise
            try:
                self._cluster.remove(before)
            except _hdfs.Refused as error:
                # The new folder is complete: the caller must not see a failure.
                place = self._cluster.root + before
                _LOG.warning("what %s had is still at %s: %s; remove it", self.shown, place, error)

    def put(self, chunks: Iterator[bytes], *, overwrite: bool) -> None:
        with self._asking(), self._beside() as beside:
            self._cluster.make_folder(self._path.rpartition("/")[0] or "/")
            writer = self._cluster.writer(beside)
            try:
                for chunk in chunks:
                    writer.write(chunk)
            except BaseException:
                writer.abandon()
                raise
            writer.close()
            self._give_name(beside, overwrite=overwrite)

    def remove(self) -> None:
        with self._asking():
            self._cluster.remove(self._path)

    def _give_name(self, beside: str, *, overwrite: bool) -> None:
        try:
            self._cluster.rename(beside, self._path, overwrite=overwrite)
        except _hdfs.TimedOut as error:
            raise UnknownOutcome(f"{self.shown} may be complete all the same: {error}") from None

    def _put_back(self, before: str, error: BaseException) -> None:
        """Gives the old folder its name again. Raises UnknownOutcome if it may still have another
        name.
        """
        with suppress(_hdfs.Refused, FileExistsError, FileNotFoundError):
            if self._cluster.info(before) is not None:
                self._cluster.rename(before, self._path, overwrite=False)
            # A call without an answer may still take effect.
            may_change = isinstance(error, _hdfs.TimedOut)
            # Another process may have removed the old folder meanwhile.
            is_gone = isinstance(error, FileNotFoundError)
            if not may_change and (is_gone or self._cluster.info(self._path) is not None):
                return
        raise UnknownOutcome(
            f"what {self.shown} had may be at {self._cluster.root}{before} now: "
            f"{str(error) or 'interrupted'}; look, and give it its name again"
        ) from None

    @contextmanager
    def _beside(self) -> Iterator[str]:
        """A path with a unique name. After an exception it is removed."""
        path = f"{self._path.rpartition('/')[0]}/.idmatch-{secrets.token_hex(8)}.tmp"
        try:
            yield path
        except BaseException:
            with suppress(_hdfs.Refused):
                self._cluster.remove(path)
            raise

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise exists(self.shown) from None
        except (_hdfs.Refused, FileNotFoundError) as error:
            reason = "a folder of its path is gone" if isinstance(error, OSError) else error
            raise IoError(f"cannot write {self.shown}: {reason}") from None
