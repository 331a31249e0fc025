"""Write sessions: rows that are staged first and committed once."""

from collections.abc import Iterable
from datetime import date, datetime
from types import TracebackType
from typing import Self

from . import _core, _operations
from ._csv_options import Csv
from ._errors import InvalidArgument
from ._progress import progress_of
from ._rejects import RejectsTo
from ._results import Committed, LoadReport
from ._runs import Recorder, recorded
from ._types import Columns, Path, Source
from ._written import written


class Session:
    """A write that is staged; `Table.begin` gives one. A context manager: it commits at the end,
    and aborts after an exception.

    In a directory no row is visible before the commit, and the commit writes all rows in one step.
    Other writes go on meanwhile, also those of other processes. Staged rows are on disk, as large
    as those of a load. On servers, rows are written and visible as they are added.

    Other processes of the same user can add parts to a shared session (`Table.begin(shared=True)`).
    They open it by its `id` (`Store.resume`), and one process commits. It outlives its processes:
    without a commit or an abort it stays for 24 h after the newest part.

        with table.begin(replace=True, key="crm 2026-11-25") as session:
            for file in files:
                session.add(file)
    """

    __slots__ = ("_core", "_is_repeated", "_is_shared", "_newest", "_recorder", "_table")

    def __init__(
        self,
        core: _core.Session,
        table: _core.Table,
        recorder: Recorder | None,
        *,
        is_shared: bool,
    ) -> None:
        self._core = core
        self._table = table
        self._recorder = recorder
        self._is_shared = is_shared
        self._newest: list[datetime] = []
        self._is_repeated = core.outcome() is not None

    @property
    def id(self) -> str:
        """The id that other processes give to `Store.resume`, if the session is shared."""
        return self._core.id

    @property
    def outcome(self) -> Committed | None:
        """The counts of the session, once it is committed; None before. They are there from the
        start if an earlier session with the same key was committed.
        """
        done = self._core.outcome()
        return None if done is None else Committed(*done)

    def add(
        self,
        source: Source,
        *,
        columns: Columns = (),
        strict: bool = False,
        rejects: Path | None = None,
        date_format: str | None = None,
        tz: str | None = None,
        dated: datetime | date | str | None = None,
        csv: Csv | None = None,
        part: int | None = None,
    ) -> LoadReport:
        """Stages a source; the arguments are those of `Table.load`. Threads may add at once.

        After an exception nothing of this source is staged, and the session goes on. If the key has
        an outcome already, nothing is read, and the report says so (`repeated`). Of several sources
        with the same number `part`, from 0 on, the commit takes the first: number the part of a
        task that may run twice. The report's `part` is the receipt that `commit` takes.

        Raises Expired after the commit or the abort, and what `Table.load` raises.
        """
        if self._is_repeated:
            return LoadReport(0, 0, 0.0, None, {}, [], [], repeated=True)
        if part is not None and not 0 <= part < 1 << 32:
            raise InvalidArgument(f"part is {part}; number parts from 0 on, below 2^32")
        report = _operations.add(
            self._core,
            self._table,
            source,
            columns,
            strict,
            RejectsTo(rejects),
            written(date_format, tz, dated, csv),
            part,
        )
        if report.newest is not None:
            self._newest.append(report.newest)
        return report

    def commit(self, parts: Iterable[str] | None = None) -> Committed:
        """Writes all rows that were added, in a directory in one step. A further commit returns the
        same counts.

        For a shared session, `parts` are receipts: the `part` of each report to commit. Without
        `parts`, the commit takes the parts of all processes in a directory, and those of this
        object on servers. Once a commit has begun, nothing more can be added.

        Raises Busy while another process writes the store. The commit can then be repeated, for
        24 h in any process if the session is shared. Raises Expired if another session or a repair
        has ended this replace, TableNotFound if the table was dropped meanwhile.
        """
        receipts = None if parts is None else list(parts)
        if receipts is None and self._is_shared and not self._table.is_remote:
            receipts = [] if self._is_repeated else self._core.staged()
        # A further commit writes nothing.
        recorder = None if self.outcome is not None else self._recorder
        with recorded(recorder, "load", self._table.name) as run:
            with progress_of(self._table).shown():
                done = Committed(*self._core.commit(receipts))
            run.rows, run.rejected = done.rows + done.rejected, done.rejected
            run.newest = max(self._newest, default=None)
        return done

    def abort(self) -> None:
        """Ends the session for all processes, and leaves nothing of it. On servers, rows that were
        added stay. After a commit it raises InvalidArgument.
        """
        self._core.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.commit()
        elif self.outcome is None:
            self.abort()
