"""Which columns of a population come out beside its matches. Imports no pyarrow."""

import re
from collections.abc import Mapping, Sequence

from ._errors import InvalidArgument
from ._text import shown, shown_column

ALL = "all"
_RENAMED = re.compile("(.+) as (.*)", re.DOTALL | re.IGNORECASE)


class Carry:
    """Columns by name, each with its name in the result; or all columns without a role."""

    def __init__(self, columns: Sequence[str] | str = ()) -> None:
        """Takes "all", or names, each "C" or "C as D".

        Raises InvalidArgument for another text, and for a name that is given twice.
        """
        self._are_all = columns == ALL
        self._names: dict[str, str] | None = {}
        if self._are_all:
            self._names = None
            return
        if isinstance(columns, str | Mapping):
            raise InvalidArgument(
                f'carry is {columns!r}; use "all", or a list of columns, each "C" or "C as D"'
            )
        for column in columns:
            if not isinstance(column, str):
                raise InvalidArgument(f"a column to carry is no text: {type(column).__name__}")
            renamed = _RENAMED.fullmatch(column)
            name, alias = map(str.strip, renamed.groups()) if renamed else (column, column)
            if not name or not alias:
                raise InvalidArgument(f"a column to carry has no name: {column!r}")
            if alias in self._names:
                raise InvalidArgument(
                    f'two columns are carried as {shown(alias)!r}; name one of them "C as D"'
                )
            self._names[alias] = name

    def choose(
        self, columns: Sequence[str], chosen: Mapping[str, str], source: str
    ) -> dict[str, str]:
        """The columns of a source to carry, by their names in the result. The columns in `chosen`
        have a role.

        With "all", every source must have the columns of the first one. Raises InvalidArgument for
        a column that is missing or there twice, or whose name in the result is that of a role.
        """
        if self._names is None:
            self._names = {name: name for name in columns if name not in chosen.values()}
        carried = self._names
        for alias, name in carried.items():
            if columns.count(name) != 1:
                count = columns.count(name) or "no"
                there = ", ".join(map(shown_column, columns))
                alone = '; "all" stands alone, without other columns' if name == ALL else ""
                raise InvalidArgument(
                    f"{source} has {count} column(s) {shown(name)!r} to carry{alone}; its columns: "
                    f"{there}"
                )
            if alias in chosen:
                raise InvalidArgument(
                    f"the result has a column {alias!r} of its own; carry the population's under "
                    f'another name: "{shown(name)} as NAME"'
                )
        if self._are_all and (more := {*columns} - {*carried.values()} - {*chosen.values()}):
            column = shown(min(more))
            raise InvalidArgument(
                f"{source} has a column {column!r} that the sources before it do not have; name "
                "the columns to carry"
            )
        return dict(carried)
