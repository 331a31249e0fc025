"""Loads of data frames: each task stages a partition, and the calling process commits."""

from datetime import date, datetime, timedelta
from functools import partial
from typing import NamedTuple

import dask
import dask.dataframe as dd
import pandas as pd

from idmatch._errors import Busy, Error, Unsupported
from idmatch._given import wanted_of
from idmatch._places import Place, StoreOrAddress, opened, opened_here, place_of
from idmatch._rejects import MaxRejects
from idmatch._session import Session
from idmatch._store import Store
from idmatch._types import Columns
from idmatch._written import written

from ._frames import checked, to_arrow


class Loaded(NamedTuple):
    """What a load did."""

    rows: int
    """Rows written."""
    rejected: int
    """Rows that break the rules and were not taken."""
    rejects: list[str]
    """Files that name the rejected rows, each on the host of the worker that wrote it."""


class _Staged(NamedTuple):
    """What a task of a load did."""

    receipt: str | None
    rows: int
    rejected: int
    rejects: str | None


class _Adding(NamedTuple):
    """How tasks read their rows."""

    columns: dict[str, str]
    strict: bool
    date_format: str | None
    tz: str | None
    dated: datetime | date | str | None


def load(
    frame: dd.DataFrame,
    store: StoreOrAddress,
    table: str,
    *,
    columns: Columns = (),
    replace: bool = False,
    key: str | None = None,
    strict: bool = False,
    max_rejects: int | str | None = None,
    date_format: str | None = None,
    tz: str | None = None,
    dated: datetime | date | str | None = None,
    wait: timedelta | str = "10m",
) -> Loaded:
    """Loads a data frame into a table that exists; blocks until all rows are written.

    Each task stages its partition as a part of one session, and this process commits. In a
    directory no row is visible before the commit, a task that fails or runs again changes nothing,
    and a load that fails leaves nothing. On servers rows are visible as they are written, a load
    that fails leaves the rows that it has written, and repeating it is safe. The arguments are
    those of `Table.load`.

    The commit waits up to `wait` while another process writes a directory, and then raises Busy;
    the staged rows stay for 24 h, and the error says how to commit them.

    Raises what `Table.load` raises, in this process or in a task, InvalidArgument for another kind
    of frame, and Unsupported for `max_rejects` on servers. A task raises NotAStore where its host
    does not see the directory.
    """
    wanted = wanted_of(columns, written(date_format, tz, dated, None))
    chosen = wanted.choose(to_arrow(checked(frame)._meta).schema, "the data frame", "dask")
    partitions = frame[list(dict.fromkeys(chosen.values()))].to_delayed()
    most = None if max_rejects is None else MaxRejects.parse(max_rejects)
    place = place_of(store)
    if most is not None and place.is_remote:
        raise Unsupported(
            "max_rejects is for stores in a directory: on servers each task writes its rows before "
            "all are judged; give the rows to Table.load, or use strict=True"
        )
    if isinstance(store, Store) and store._how[5]:
        raise Unsupported("the store is open for reading only; give its path, or open it to write")
    with opened_here(place, wait) as here:
        session = here.table(table).begin(replace=replace, key=key, shared=True)
        if session.outcome is not None:
            return Loaded(*session.outcome, [])
        adding = _Adding(chosen, strict, date_format, tz, dated)
        stage = dask.delayed(partial(_stage_partition, place, session.id, adding))
        tasks = [
            stage(partition, number, dask_key_name=f"idmatch_load-{session.id}-{number}")
            for number, partition in enumerate(partitions)
        ]
        try:
            staged = dask.compute(*tasks)
            if most is not None:
                most.check(sum(one.rejected for one in staged), sum(one.rows for one in staged))
            done = session.commit([one.receipt for one in staged if one.receipt])
        except Busy:
            raise
        except BaseException:
            _give_up(session)
            raise
    return Loaded(*done, [one.rejects for one in staged if one.rejects])


def _stage_partition(
    place: Place, session_id: str, adding: _Adding, partition: pd.DataFrame, number: int
) -> _Staged:
    session = opened(place).resume(session_id)
    report = session.add(to_arrow(partition), part=number, **adding._asdict())
    return _Staged(report.part, report.rows, report.rejected, report.rejects)


def _give_up(session: Session) -> None:
    try:
        session.abort()
    except Error:
        # The error of the load says more than this one.
        return
