"""Matches of a data frame: each task matches a partition."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Literal

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa

from idmatch._carry import Carry
from idmatch._errors import InvalidArgument
from idmatch._hops import Then
from idmatch._job_match import Carried, JobMatch
from idmatch._places import Place, StoreOrAddress, one_version, opened
from idmatch._times import Moment
from idmatch._types import By, How, Pick

from ._frames import checked, task_name, to_arrow, to_pandas, with_types_of

_PART = "__idmatch_part"


def match(
    population: dd.DataFrame,
    store: StoreOrAddress,
    table: str,
    *,
    column: str | None = None,
    by: By = "id",
    pick: Pick = "all",
    limit: int | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    carry: Sequence[str] | Literal["all"] = (),
    how: How = "inner",
    then: Then = (),
    with_hops: bool = False,
    keep: timedelta | str = "24h",
    repartition: bool | None = None,
) -> dd.DataFrame:
    """Finds the matches of every identifier of a population, as `Table.match` does.

    Lazy: a data frame with the columns of `Table.match`, text as `string[pyarrow]`, carried columns
    as in the population. Only the needed columns of the population are read, and never its index. A
    window that is relative to now counts from the moment of this call. In a directory all tasks see
    the version of this call: a checkpoint, which stays for `keep`. The result can be computed for
    that long.

    On servers the population is first shuffled by `Table.partition_of`, unless it has one
    partition. No two tasks then ask for the same partition of the servers, and a task asks each
    for many identifiers. `repartition` overrides this.

    Raises what `Table.match` and `Store.checkpoint` raise, InvalidArgument for another kind of
    population. A task raises Expired when the checkpoint is gone, NotAStore where its host does not
    see the directory.
    """
    checked(population)
    question = JobMatch.of_now(by, pick, limit, since, until, how, then, with_hops)
    carry = carry if carry == "all" else list(carry)
    with one_version(store, keep) as (here, place):
        # A match of no rows has all columns, and checks every argument.
        none = question.ask(here.table(table), to_arrow(population._meta), column, carry)
        [chosen] = none.columns
        meta = to_pandas(none.to_arrow())
    carried = Carry(carry).choose(list(population.columns), {by: chosen}, "the population")
    needed = {chosen, *carried.values()}
    frame = population[[name for name in population.columns if name in needed]]
    if place.is_remote if repartition is None else repartition:
        frame = _shuffled(frame, place, table, chosen)
    meta = with_types_of(meta, population._meta, carried)
    match_partition = partial(_match_partition, place, table, question, chosen, carry, carried)
    # The index of the result is a new one.
    return frame.map_partitions(
        match_partition, meta=meta, clear_divisions=True, token=task_name("match", place)
    )


def _match_partition(
    place: Place,
    table: str,
    question: JobMatch,
    column: str,
    carry: Carried,
    carried: dict[str, str],
    partition: pd.DataFrame,
) -> pd.DataFrame:
    found = question.ask_batch(opened(place).table(table), to_arrow(partition), column, carry)
    return with_types_of(to_pandas(pa.table(found)), partition, carried)


def _shuffled(frame: dd.DataFrame, place: Place, table: str, column: str) -> dd.DataFrame:
    """The same rows; all identifiers of one scan range of the table are in one partition."""
    if frame.npartitions == 1:
        return frame
    meta = frame._meta.assign(**{_PART: pd.Series([], dtype="int32")})
    placed = frame.map_partitions(
        partial(_place_partition, place, table, column), meta=meta, token=task_name("place", place)
    )
    return placed.shuffle(_PART, npartitions=frame.npartitions).drop(columns=_PART)


def _place_partition(
    place: Place, table: str, column: str, partition: pd.DataFrame
) -> pd.DataFrame:
    ids = to_arrow(partition[[column]]).column(0).combine_chunks()
    # Rows without an identifier go to part 0. So do all rows if the column's type is another one,
    # such as lists.
    parts = pd.Series(0, index=partition.index, dtype="int32")
    with suppress(InvalidArgument):
        parts[:] = opened(place).table(table).partition_of(ids).fill_null(0).to_numpy()
    return partition.assign(**{_PART: parts})
