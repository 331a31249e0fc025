"""A match as the tasks of a job run it: one batch of the population after another.

Must not know Dask or Spark. Invariant: the answer to a batch does not depend on when it is asked,
nor on the batches beside it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Self, TypeAlias

import pyarrow as pa

from ._errors import BadInput
from ._hops import Hop, Then, hops_of, side_of
from ._match import MatchResult
from ._reads import TableReads
from ._times import Moment, datetime_or_none, millis_or_none
from ._types import ArrowStream, By, How, Pick

Carried: TypeAlias = Sequence[str] | Literal["all"]

# A column that marks the row which is added to a batch without an identifier.
_BESIDE = "__idmatch_beside"


class JobMatch(NamedTuple):
    """The arguments of `Table.match`, all times absolute. It can be pickled."""

    by: By
    pick: Pick
    limit: int | None
    since: datetime | None
    until: datetime | None
    how: How
    then: Sequence[dict[str, object]]
    with_hops: bool

    @classmethod
    def of_now(
        cls,
        by: By,
        pick: Pick,
        limit: int | None,
        since: Moment | None,
        until: Moment | None,
        how: How,
        then: Then,
        with_hops: bool,
    ) -> Self:
        """Counts times before now from this moment. Raises InvalidArgument for a wrong argument."""
        window = datetime_or_none(millis_or_none(since)), datetime_or_none(millis_or_none(until))
        hops = [_absolute(hop) for hop in hops_of(then)]
        return cls(side_of(by), pick, limit, *window, how, hops, with_hops)

    def ask(
        self, table: TableReads, population: pa.Table, column: str | None, carry: Carried
    ) -> MatchResult:
        """`Table.match` of a population; raises what `Table.match` raises."""
        return table.match(population, column=column, carry=carry, **self._asdict())

    def ask_batch(
        self, table: TableReads, batch: pa.Table, column: str, carry: Carried
    ) -> ArrowStream:
        """`ask` for one batch. A batch of only malformed rows has no matches, and is no error."""
        try:
            return self.ask(table, batch, column, carry)
        except BadInput:
            beside = _beside_one(batch, column)
            marked = carry if carry == "all" else [*carry, _BESIDE]
            rows = self.ask(table, beside, column, marked).to_arrow()
            return rows.filter(rows.column(_BESIDE).is_null()).drop_columns(_BESIDE)


def _absolute(hop: Hop) -> dict[str, object]:
    return {
        "table": hop.table,
        "by": hop.by,
        "limit": hop.most,
        "since": datetime_or_none(hop.since),
        "until": datetime_or_none(hop.until),
    }


def _beside_one(batch: pa.Table, column: str) -> pa.Table:
    """The rows and one marked row, which has an identifier."""
    kind = batch.schema.field(column).type
    one = pa.array([["0"]]) if pa.types.is_list(kind) else pa.array(["0"])
    marked = pa.table({column: one.cast(kind), _BESIDE: [True]})
    return pa.concat_tables([batch, marked], promote_options="default")
