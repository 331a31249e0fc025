"""Hops: the tables of a chain, and which of its matches each population row gets."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ._errors import InvalidArgument
from ._times import Moment, millis_or_none
from ._types import By

Then: TypeAlias = "Sequence[str | Mapping[str, object]]"
"""Further tables, each "TABLE,by=partner-id,pick=latest,since=90d", or a dict with the keys table,
by, pick, limit, since, until. All but the table may be left out."""

_KEYS = ("by", "pick", "limit", "since", "until")
_USE = f'name a table and, if wanted, {", ".join(_KEYS)}: "TABLE,by=partner-id,since=90d"'


class Hop(NamedTuple):
    """A table of a match, with the side, limit and window, as the core takes it."""

    table: str | None
    """Its name; None for the first table."""
    by: By
    most: int | None
    """At most this many matches of each row, the newest; None for all."""
    since: int | None
    until: int | None


def hop_of(
    table: str | None,
    by: str,
    pick: str,
    limit: int | None,
    since: Moment | None,
    until: Moment | None,
) -> Hop:
    """Raises InvalidArgument for an unknown value."""
    if pick not in ("all", "latest"):
        raise InvalidArgument(f'pick is {pick!r}; use "all" or "latest"')
    if limit is not None and not 1 <= limit < 1 << 32:
        raise InvalidArgument(f"limit is {limit}; use 1 or more, or leave it out")
    most = 1 if pick == "latest" else limit
    return Hop(table, side_of(by), most, millis_or_none(since), millis_or_none(until))


def side_of(by: str) -> By:
    """The side that a text names. Raises InvalidArgument for any other text."""
    match by.replace("-", "_"):
        case "id":
            return "id"
        case "partner_id":
            return "partner_id"
    raise InvalidArgument(f'by is {by!r}; use "id" or "partner_id"')


def hops_of(then: Then) -> list[Hop]:
    """Raises InvalidArgument for an unknown key or value."""
    if isinstance(then, (str, Mapping)):
        raise InvalidArgument(f"then is {then!r}; give a list, of one table or more")
    return [_hop(question) for question in then]


def _hop(question: str | Mapping[str, object]) -> Hop:
    given = dict(_split(question) if isinstance(question, str) else question)
    table = given.pop("table", None)
    if not isinstance(table, str) or not table:
        raise InvalidArgument(f"a table of the chain has no name; {_USE}")
    if unknown := set(given) - set(_KEYS):
        raise InvalidArgument(f"the chain's {table} has the key {min(unknown)!r}; {_USE}")
    by, pick = str(given.get("by", "id")), str(given.get("pick", "all"))
    return hop_of(table, by, pick, _limit(given), given.get("since"), given.get("until"))  # type: ignore[arg-type]


def _limit(given: Mapping[str, object]) -> int | None:
    limit = given.get("limit")
    if limit is None or isinstance(limit, int):
        return limit
    if not (isinstance(limit, str) and limit.isdecimal()):
        raise InvalidArgument(f"limit is {limit!r}; use 1 or more, or leave it out")
    return int(limit)


def _split(text: str) -> dict[str, str]:
    table, *rest = text.split(",")
    given = {"table": table.strip()}
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or key.strip() in given:
            raise InvalidArgument(f"{part!r} is no question of a chain; {_USE}")
        given[key.strip()] = value.strip()
    return given
