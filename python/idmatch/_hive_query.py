"""Sources in Hive that an address alone does not name. Imports no pyarrow."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ._address import Address
from ._errors import InvalidArgument

Via: TypeAlias = Literal["auto", "files", "unload", "rows"]
"""How rows come from Hive: from the table's files, from files that the server writes for this, or
over the connection; "auto" takes the first of these that is possible."""


@dataclass(frozen=True)
class Hive:
    """The rows of a Hive table or query, for `load`, `match`, `upsert` and `erase_from`.

    `address` is `hive://[USER[:PASSWORD]@]HOST[:10000]/DATABASE[/TABLE]?auth=none`; `query` is one
    SELECT of HiveQL, in place of a table. `via` says how rows come: from the "files" of the table,
    by an "unload" of the server into files, or as "rows" over the connection. "auto" takes the
    first of these that is possible, and a report's `detected` says which. No request is sent before
    the rows are read; the connection is closed before they are loaded.

    Raises InvalidArgument for an address without a table and a query, and for one with both.
    """

    address: str
    query: str | None = None
    via: Via | None = None

    def __post_init__(self) -> None:
        """Raises InvalidArgument."""
        if not Address(self.address).is_hive:
            raise InvalidArgument(
                f"{Address(self.address)} is no address of Hive; write hive://HOST:10000/DATABASE"
            )
        if self.via is not None and self.via not in get_args(Via):
            raise InvalidArgument(f"via is {self.via!r}; use one of {', '.join(get_args(Via))}")

    def __repr__(self) -> str:
        return f"Hive({str(Address(self.address))!r})"
