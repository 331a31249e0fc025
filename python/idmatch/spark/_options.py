"""Options of reads and writes. Spark gives all of them as text."""

from collections.abc import Mapping, Sequence

from idmatch._errors import InvalidArgument


class Options:
    """The options that a user gave, checked.

    Raises InvalidArgument for an option that is not known, and where `store` or `table` is missing.
    """

    def __init__(self, given: Mapping[str, str], known: Sequence[str], kind: str) -> None:
        # Spark keeps names in lower case, and takes them in any.
        self._given = {name.lower(): value for name, value in given.items()}
        there = f"the options of {kind} are {', '.join(known)}"
        if unknown := set(self._given) - set(known):
            raise InvalidArgument(f"there is no option {min(unknown)!r}; {there}")
        for name in ("store", "table"):
            if not self.text(name):
                raise InvalidArgument(f"the option {name!r} is missing; {there}")
        self.store = self._given["store"]
        self.table = self._given["table"]
        columns = self.text("columns")
        self.columns = [] if columns is None else [name.strip() for name in columns.split(",")]
        """Names, given separated by commas. A write guesses the column of an empty name."""

    def text(self, name: str) -> str | None:
        """The value of an option; None if it is missing or empty."""
        return self._given.get(name) or None

    def flag(self, name: str) -> bool:
        """Whether an option is "true"; raises InvalidArgument for other text than "false"."""
        value = self._given.get(name, "false").lower()
        if value not in ("true", "false"):
            raise InvalidArgument(f'option {name} is {value!r}; use "true" or "false"')
        return value == "true"

    def count(self, name: str) -> int | None:
        """The number, from 1, of an option, if it is given; raises InvalidArgument for others."""
        value = self.text(name)
        if value is None:
            return None
        if not value.isdecimal() or int(value) < 1:
            raise InvalidArgument(f"option {name} is {value!r}; use a number from 1")
        return int(value)
