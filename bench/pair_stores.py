"""Where the paired benchmark puts stores: in a directory, or on a Cassandra node of its own.

Each system gets a new, empty place; the place of the one before is removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from pair_builds import Build

_HERE = Path(__file__).parent


class Failed(Exception):
    """A step gave no figures; the text says why."""


class Stores(ABC):
    """Places for stores, one at a time, in a `with` block."""

    @abstractmethod
    def begin(self) -> str:
        """A new place, as `idmatch.open` takes it; the one before is removed."""

    @abstractmethod
    def settle(self) -> None:
        """Finishes what a load left to the background, so that no other step waits for it."""

    @abstractmethod
    def clear(self) -> None:
        """Removes the store."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()


class Directory(Stores):
    """A store in a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self) -> str:
        self.clear()
        self._folder.mkdir(parents=True)
        return str(self._folder / "store")

    def settle(self) -> None:
        os.sync()

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Servers(Stores):
    """A keyspace of a node that the lab of one of the commits starts."""

    def __init__(self, folder: Path, rows: int, build: Build, network: str, heap: int) -> None:
        self._rows, self._python = rows, build.python
        self._options = ["--folder", str(folder), "--network", network, "--heap", str(heap)]
        self._keyspaces = 0

    def __enter__(self) -> Self:
        self._node = subprocess.Popen(
            [str(self._python), "cql_node.py", *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_HERE,
        )
        self._address = self._line()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._node.communicate()

    def begin(self) -> str:
        self.clear()
        self._keyspaces += 1
        return f"cql://{self._address}/{self._keyspace}?replication=1&expected_rows={self._rows}"

    def settle(self) -> None:
        assert self._node.stdin
        self._node.stdin.write(f"{self._keyspace}\n")
        self._node.stdin.flush()
        self._line()

    def clear(self) -> None:
        from cassandra.cluster import Cluster

        with Cluster([self._address]) as cluster, cluster.connect() as session:
            session.execute(f"DROP KEYSPACE IF EXISTS {self._keyspace}", timeout=60)

    @property
    def _keyspace(self) -> str:
        return f"pair_{self._keyspaces}"

    def _line(self) -> str:
        assert self._node.stdout
        if line := self._node.stdout.readline().strip():
            return line
        raise Failed(f"the Cassandra node ended with status {self._node.wait()}")
