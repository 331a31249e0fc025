"""What the harness asks of every system."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import data
from data import DataSet

Codec = Literal["snappy", "none"]


@dataclass(frozen=True)
class Setting:
    """What a system is given: the data, a directory of its own, and its share of the
    machine.
    """

    data: DataSet
    workspace: Path
    threads: int
    memory_bytes: int


class Peer(ABC):
    """One system. All methods run in one process that no other system shares.

    The question is `SELECT count(m.partner_id) FROM population p JOIN matches m ON p.id = m.id`.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.data = setting.data

    @abstractmethod
    def version(self) -> str:
        """The version that is measured."""

    def prepare(self) -> None:  # noqa: B027
        """Builds what the system keeps on disk, durably. Nothing where it reads the Parquet
        files.
        """

    @abstractmethod
    def open(self) -> None:
        """Gets ready to answer; a cold run times this too."""

    @abstractmethod
    def count(self) -> int:
        """Answers the question, from the Parquet population to the number."""

    @abstractmethod
    def write(self, path: str, compression: Codec) -> None:
        """Writes the join's rows (id, partner_id, seen_at) as one Parquet file; compression is
        "snappy" or "none".
        """

    def inputs(self) -> list[str]:
        """Files that a count reads: they are read once before it is called hot."""
        return [str(file) for file in (*self.data.files, self.data.population)]

    def opened_bytes(self) -> int:
        """Bytes of the files that a count opens."""
        return sum(Path(file).stat().st_size for file in self.inputs())

    def typed(self) -> list[str]:
        """The command of a shell that answers the question and prints the number; none where it is
        not measured.
        """
        return []

    def rehearse(self, directory: str, rows: int) -> None:
        """Does all of it with small data, so that a cold run does not time the reading of the
        libraries' own files.
        """
        small = data.prepare(Path(directory), rows)
        workspace = self.setting.workspace / "rehearsal"
        shutil.rmtree(workspace, ignore_errors=True)
        workspace.mkdir()
        other = type(self)(replace(self.setting, data=small, workspace=workspace))
        other.prepare()
        other.open_and_count()

    def open_and_count(self) -> int:
        """What a cold run times, in a process that has its libraries in memory, but nothing of the
        data.
        """
        self.open()
        return self.count()
