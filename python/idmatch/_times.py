"""Instants: turns what users write into milliseconds since 1970 (UTC), in which the core counts."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TypeAlias

from ._core import parse_instant
from ._errors import InvalidArgument

Moment: TypeAlias = datetime | date | timedelta | str
"""An aware datetime, a naive one (UTC), a date (its midnight in UTC), a timedelta before now,
ISO 8601 text, or the text of a period before now ("90d", "13mo")."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DAY_MS = 86_400_000


def to_millis(moment: Moment) -> int:
    """The first whole millisecond that is not before `moment`, and not before 1970.

    Dates of a store are whole milliseconds from 1970 on, so this rounding changes no answer,
    neither of a window's start nor of its end.

    Raises InvalidArgument for text that is neither a date nor a period, and for other types.
    """
    match moment:
        case str():
            return parse_instant(moment)
        case datetime():
            instant = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case date():
            instant = datetime.combine(moment, time(), UTC)
        case timedelta():
            instant = datetime.now(UTC) - moment
        case _:
            raise InvalidArgument(
                f"{moment!r} is no point in time; use a datetime, a date, a timedelta before now, "
                'ISO 8601 text or a period such as "90d"'
            )
    return max(0, -((_EPOCH - instant) // _MILLISECOND))


def to_milliseconds(time: timedelta | str, *, most: timedelta = timedelta(days=1)) -> int:
    """A length of time in milliseconds, from a timedelta or text such as "30s".

    Raises InvalidArgument for other text, and for a time that is negative or over `most`.
    """
    if isinstance(time, str):
        found = re.fullmatch(r"\s*(\d{1,9})\s*(ms|s|m|h|d)\s*", time)
        units = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": _DAY_MS}
        milliseconds = int(found[1]) * units[found[2]] if found else -1
    else:
        milliseconds = time // _MILLISECOND
    if 0 <= milliseconds <= most // _MILLISECOND:
        return milliseconds
    raise InvalidArgument(
        f'{time!r} is no length of time up to {most.days} d; use one such as "500ms", "30s" or "2h"'
    )


def observed_at(moment: datetime | date | str) -> int | str:
    """The date of an observation as the core judges it: text as it is, the rest as milliseconds,
    cut off as in a column of dates.

    Raises InvalidArgument for other types.
    """
    match moment:
        case str():
            return moment
        case datetime():
            instant = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case date():
            instant = datetime.combine(moment, time(), UTC)
        case _:
            kind = type(moment).__name__
            raise InvalidArgument(f"{kind} is no date; use a datetime, a date or ISO 8601 text")
    return (instant - _EPOCH) // _MILLISECOND


def to_datetime(millis: int) -> datetime:
    """An instant of the core as an aware datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=millis)


def millis_or_none(moment: Moment | None) -> int | None:
    """The end of a window; None for no limit."""
    return None if moment is None else to_millis(moment)


def datetime_or_none(millis: int | None) -> datetime | None:
    """An instant of the core, if there is one."""
    return None if millis is None else to_datetime(millis)
