"""Writes of a table: the tasks stage parts of one session, and the driver commits them."""

import logging
from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from idmatch._errors import Busy
from idmatch._given import wanted_of
from idmatch._places import opened, opened_here, place_of
from idmatch._rejects import MaxRejects
from idmatch._written import written

from ._options import Options
from ._types import outline

_WAIT = "10m"


class Receipt(WriterCommitMessage):
    """The receipt of a task's part, and its counts; without a part if the task had no row."""

    def __init__(self, part: str | None = None, rows: int = 0, rejected: int = 0) -> None:
        self.part = part
        self.rows = rows
        self.rejected = rejected


class Writer(DataSourceArrowWriter):
    """One write. Spark pickles it: the driver makes it and ends it, each in a process of its own,
    and each task calls `write`.

    The constructor begins a session. If the driver is killed, neither `commit` nor `abort` is
    called; then the store removes the session after a day.

    Raises InvalidArgument for a column that is missing or not plain, TableNotFound, Unsupported for
    an overwrite on servers, and what `Table.begin` raises.
    """

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        self._place = place_of(options.store)
        self._strict = options.flag("strict")
        most = options.text("max_rejects")
        self._most = None if most is None else MaxRejects.parse(most)
        self._date_format, self._tz = options.text("date_format"), options.text("tz")
        self._dated = options.text("dated")
        self._wait = options.text("wait") or _WAIT
        self._table, self._key = options.table, options.text("key")
        how = written(self._date_format, self._tz, self._dated)
        # All tasks read the same columns.
        wanted = wanted_of(options.columns, how)
        self._columns = wanted.choose(outline(schema), "the data frame", "arrow")
        with opened_here(self._place, self._wait) as store:
            session = store.table(self._table).begin(replace=overwrite, key=self._key, shared=True)
            # With an outcome, a write with this key was committed already: there is nothing to do.
            self._session = None if session.outcome else session.id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Receipt:
        """Stages the rows of a task as one part; called by each attempt of the task.

        Raises BadInput for a bad row with `strict`, NotAStore where this host does not see the
        store, and what `Session.add` raises.
        """
        first = next(iterator, None)
        if first is None or self._session is None:
            return Receipt()
        session = opened(self._place).resume(self._session)
        report = session.add(
            pa.RecordBatchReader.from_batches(first.schema, chain([first], iterator)),
            columns=self._columns,
            strict=self._strict,
            date_format=self._date_format,
            tz=self._tz,
            dated=self._dated,
            part=TaskContext.get().partitionId(),
        )
        return Receipt(report.part, report.rows, report.rejected)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commits the parts of the attempts that Spark chose: in a directory, all in one step.

        Raises BadInput for more rejected rows than `max_rejects`, Busy while another process writes
        the store for longer than `wait`. Spark aborts the write then.
        """
        if self._session is None:
            return
        receipts = [message for message in messages if isinstance(message, Receipt)]
        rows = sum(receipt.rows for receipt in receipts)
        rejected = sum(receipt.rejected for receipt in receipts)
        if self._most is not None:
            self._most.check(rejected, rows)
        with opened_here(self._place, self._wait) as store:
            if self._place.is_remote:
                # Servers have no sessions: the process that commits records the key.
                session = store.table(self._table).begin(key=self._key, shared=True)
            else:
                session = store.resume(self._session)
            try:
                session.commit(parts=[receipt.part for receipt in receipts if receipt.part])
            except Busy as error:
                # Spark aborts the write: there is no session to commit later.
                raise Busy(
                    "another process writes this store; nothing was written: write again, where it "
                    "takes long with a longer option wait"
                ) from error
        if rejected:
            logging.getLogger("idmatch").warning(
                "%s of %s rows were rejected; files on the workers say which, and why",
                f"{rejected:,}",
                f"{rows:,}",
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Ends the session: in a directory it leaves nothing. On servers, rows stay."""
        if self._session is not None:
            with opened_here(self._place) as store:
                store.resume(self._session).abort()
