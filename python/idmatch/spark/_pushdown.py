"""Filters on `seen_at` that a read takes over from Spark, as its window."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from idmatch._times import to_millis

from ._reader import Reader

# Spark's times are in microseconds, those of a store in milliseconds.
_MICROSECOND = timedelta(microseconds=1)


class PushingReader(Reader):
    """A reader that narrows its window by filters. Spark's setting for filters must be on."""

    def pushFilters(self, filters: Sequence[Filter]) -> Iterable[Filter]:
        """Takes equality and ranges of `seen_at`, and returns the other filters to Spark."""
        for filter in filters:
            if not self._takes(filter):
                yield filter

    def _takes(self, filter: Filter) -> bool:
        if isinstance(filter, IsNotNull):
            # No column has nulls.
            return True
        if getattr(filter, "attribute", None) != ("seen_at",):
            return False
        value = getattr(filter, "value", None)
        if not isinstance(value, datetime) or value.tzinfo is None:
            return False
        # The first millisecond that is not before the value, and the first one after it.
        try:
            at, after = to_millis(value), to_millis(value + _MICROSECOND)
        except OverflowError:
            return False
        match filter:
            case EqualTo():
                self._narrow(at, after)
            case GreaterThanOrEqual():
                self._narrow(at, None)
            case GreaterThan():
                self._narrow(after, None)
            case LessThan():
                self._narrow(None, at)
            case LessThanOrEqual():
                self._narrow(None, after)
            case _:
                return False
        return True

    def _narrow(self, since: int | None, until: int | None) -> None:
        self._since = max(_given(self._since, since), default=None)
        self._until = min(_given(self._until, until), default=None)


def _given(*ends: int | None) -> Iterator[int]:
    return (end for end in ends if end is not None)
