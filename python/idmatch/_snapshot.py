"""Snapshots: the tables of a store at one point."""

from types import TracebackType
from typing import Self

from . import _core
from ._errors import TableNotFound
from ._reads import TableReads
from ._runs import Recorder
from ._suggest import suggesting


class TableSnapshot(TableReads):
    """A table of a snapshot; `Snapshot.table` gives one. It cannot be written.

    It has the methods of `Table` that read. It still shows rows that are erased after the snapshot
    was taken. Retention counts from the moment at which the snapshot was taken.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<idmatch.TableSnapshot {self.name!r} keep={self.keep!r}>"


class Snapshot:
    """All tables of a store at one point; a context manager, which closes it.

    In a directory it shows all rows of a write or none, in all tables, and stays the same while
    others load, upsert, erase and compact. Files that are replaced meanwhile stay on disk until it
    is closed: hold it for minutes, not days (`Store.status` tells their bytes). It costs
    microseconds. On servers, rows are read as they are when each is read.

        with store.snapshot() as snapshot:
            crm, partner = snapshot.table("crm"), snapshot.table("partner")
            partner.match(crm.match("population.parquet"), by="id")
    """

    __slots__ = ("_core", "_recorder")

    def __init__(self, core: _core.Snapshot, recorder: Recorder | None) -> None:
        self._core = core
        self._recorder = recorder

    @property
    def version(self) -> str | None:
        """The version that it shows, for comparison: in one process, snapshots of equal versions
        show the same rows. None on servers.
        """
        return self._core.version

    def tables(self) -> list[str]:
        """The names of all tables, ascending."""
        return self._core.tables()

    def table(self, name: str) -> TableSnapshot:
        """A table; raises TableNotFound for a name that the snapshot does not have."""
        try:
            return TableSnapshot(self._core.table(name), self._recorder)
        except TableNotFound as error:
            raise suggesting(error, [name], self.tables) from None

    def close(self) -> None:
        """Releases the snapshot and the files that only it needs. Any later use of it or of its
        tables raises InvalidArgument; results of matches stay readable.
        """
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<idmatch.Snapshot>"
