"""Names of tables that a user may have meant."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from ._errors import TableNotFound

_MOST_NAMES = 3


def suggesting(
    error: TableNotFound, names: Sequence[str], tables: Callable[[], list[str]]
) -> TableNotFound:
    """An error that suggests tables for the first missing name in `names`. It is `error` itself if
    no table's name is within one edit of the missing one.
    """
    there = tables()
    missing = next((name for name in names if name not in there), None)
    if missing is None:
        return error
    close = [name for name in there if _is_one_edit(missing, name)][:_MOST_NAMES]
    if not close:
        return error
    shown = " or ".join(f"`{name}`" for name in close)
    return TableNotFound(f"no table `{missing}`; did you mean {shown}?")


def _is_one_edit(one: str, other: str) -> bool:
    """Whether one character was inserted, deleted or replaced, or two neighbours exchanged."""
    start = _same_at_start(one, other)
    one, other = one[start:], other[start:]
    end = _same_at_start(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    return max(len(one), len(other)) == 1 or (len(one) == 2 and one == other[::-1])


def _same_at_start(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
