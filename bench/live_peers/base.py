"""What the live write benchmark asks of every peer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

Found = list[tuple[str, int]]
CACHE_BYTES = 4 << 30  # what a peer may take for its own cache


class LeftOut(Exception):
    """A peer cannot take part; the text says why."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as a client has them: three columns of the same length, dates in milliseconds since
    1970.
    """

    ids: list[str]
    partner_ids: list[str]
    seen_at: list[int]

    def __len__(self) -> int:
        return len(self.ids)


def joined(batches: Iterable[Batch]) -> Batch:
    """The rows of all batches as one."""
    whole = Batch([], [], [])
    for batch in batches:
        whole.ids.extend(batch.ids)
        whole.partner_ids.extend(batch.partner_ids)
        whole.seen_at.extend(batch.seen_at)
    return whole


class Client(ABC):
    """One connection. Only the thread that opened it uses it."""

    @abstractmethod
    def upsert(self, batch: Batch) -> None:
        """Adds rows in both directions at the same moment; returns when they are on disk. A pair
        keeps its newest date.
        """

    @abstractmethod
    def partner_ids(self, key: str) -> Found:
        """All partner ids of an id with their dates, newest first."""

    @abstractmethod
    def ids(self, key: str) -> Found:
        """All ids of a partner id with their dates, newest first."""

    def close(self) -> None:  # noqa: B027
        """Gives up the connection."""


class LivePeer(ABC):
    """One store in a directory of its own."""

    # Over how many processes the clients are spread: more than one where Python would be the limit,
    # not the store.
    processes: ClassVar[int] = 1
    # Which files below the workspace are its log, which comes back to a small size by itself.
    log_files: ClassVar[str] = ""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace

    @abstractmethod
    def version(self) -> str:
        """The version that is measured."""

    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """What was chosen, for the page."""

    @abstractmethod
    def start(self) -> None:
        """Opens the store, or starts its server; makes an empty one where there is none."""

    @abstractmethod
    def fill(self, chunks: Iterable[Batch]) -> None:
        """Loads rows into the empty store the fastest way that ends durable."""

    @abstractmethod
    def connect(self) -> Client:
        """A new connection; also in a process that did not start the store, where `processes` is
        more than one.
        """

    @abstractmethod
    def stop(self) -> None:
        """Closes the store, or ends its server."""

    def memory_bytes(self) -> int | None:
        """What the store itself says that its data takes in memory, where all of it is there."""
        return None
