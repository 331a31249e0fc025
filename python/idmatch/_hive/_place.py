"""Addresses of tables and databases of Hive: `hive://[USER[:PASSWORD]@]HOST[:PORT]/DB[/TABLE]`."""

import os
from dataclasses import dataclass, field
from typing import cast, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from idmatch._address import Address
from idmatch._errors import InvalidArgument
from idmatch._hive_query import Via
from idmatch._times import to_milliseconds

_PORT = 10000
_MECHANISMS = {"none": "PLAIN", "ldap": "LDAP", "kerberos": "GSSAPI", "nosasl": "NOSASL"}
_TRUTH = {"true": True, "false": False}
_FORM = "write hive://HOST:10000/DATABASE/TABLE, with options such as ?auth=ldap behind it"


@dataclass(frozen=True)
class Place:
    """A database of a server or a table in it, and how to get there."""

    shown: str
    """Its address without user, password and options."""
    host: str
    port: int
    database: str
    table: str | None
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    mechanism: str
    """The way to log in, as impyla names it."""
    via: Via
    staging: str | None
    """The folder for unloaded rows, as the server names it."""
    timeout: float
    """How long the server may be silent, in seconds."""
    tls: bool
    tls_ca: str | None
    kerberos_service: str
    kerberos_host: str

    @property
    def quoted(self) -> str:
        """The table as HiveQL names it."""
        return f"{quoted(self.database)}.{quoted(self.table or '')}"


def quoted(name: str) -> str:
    """A name of a table or a column in HiveQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text in HiveQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def place_of(address: Address) -> Place:
    """Parses an address. User and password may be in IDMATCH_HIVE_USER and
    IDMATCH_HIVE_PASSWORD instead.

    Raises InvalidArgument, whose text has neither of them.
    """
    try:
        parts = urlsplit(address.whole.strip())
        host, port = parts.hostname, parts.port
        pairs = parse_qsl(parts.query, strict_parsing=True) if parts.query else []
    except ValueError:
        raise InvalidArgument(f"{address} is no address of Hive; {_FORM}") from None
    names = [unquote(part) for part in parts.path.strip("/").split("/")]
    if not host or len(names) > 2 or not all(names):
        raise InvalidArgument(f"{address} names no database and table of Hive; {_FORM}")
    options = _Options(address, dict(pairs))
    place = Place(
        shown=str(address),
        host=host,
        port=port or _PORT,
        database=names[0],
        table=names[1] if len(names) > 1 else None,
        user=_first(parts.username, "IDMATCH_HIVE_USER"),
        password=_first(parts.password, "IDMATCH_HIVE_PASSWORD"),
        mechanism=_MECHANISMS[options.one_of("auth", tuple(_MECHANISMS), "none")],
        via=cast("Via", options.one_of("via", get_args(Via), "auto")),
        staging=options.take("staging"),
        timeout=options.seconds("timeout", "60s"),
        tls=_TRUTH[options.one_of("tls", tuple(_TRUTH), "false")],
        tls_ca=options.take("tls_ca"),
        kerberos_service=options.take("kerberos_service") or "hive",
        kerberos_host=options.take("kerberos_host") or host,
    )
    options.check_all_taken()
    return place


def _first(said: str | None, variable: str) -> str | None:
    return unquote(said) if said is not None else os.environ.get(variable)


class _Options:
    """The options after the question mark.

    Each method raises InvalidArgument. Its text has no value of an option: that may be a part of a
    password.
    """

    def __init__(self, address: Address, options: dict[str, str]) -> None:
        self._address = address
        self._options = options
        self._known = list[str]()

    def take(self, name: str) -> str | None:
        self._known.append(name)
        return self._options.pop(name, None) or None

    def one_of(self, name: str, values: tuple[str, ...], otherwise: str) -> str:
        value = self.take(name) or otherwise
        if value not in values:
            raise InvalidArgument(f"{self._address}: {name} is none of {', '.join(values)}")
        return value

    def seconds(self, name: str, otherwise: str) -> float:
        try:
            return (to_milliseconds(self.take(name) or otherwise) or 1) / 1000
        except InvalidArgument:
            raise InvalidArgument(
                f"{self._address}: {name} is no length of time, such as 30s or 5m"
            ) from None

    def check_all_taken(self) -> None:
        if self._options:
            raise InvalidArgument(
                f"{self._address} has an option that is none of {', '.join(self._known)}"
            )
