"""One session with HiveServer2, through impyla, for one statement or a few.

Must not know what rows are for. Invariants: A call ends when the server is silent for the timeout
of the `Place`. No statement is sent twice, since after a disconnect the session is gone. No message
has rows, or more than the start of the server's text.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from idmatch._errors import Error, IoError, SourceError
from idmatch._lazy import LazyModule

from ._place import Place, quoted
from ._values import Column, batch_of, no_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from impala import error, hiveserver2
    from thrift.transport import TSocket, TSSLSocket, TTransport
else:
    error = LazyModule("impala.error")
    hiveserver2 = LazyModule("impala.hiveserver2")
    TSocket = LazyModule("thrift.transport.TSocket")
    TSSLSocket = LazyModule("thrift.transport.TSSLSocket")
    TTransport = LazyModule("thrift.transport.TTransport")

_FETCHED_ROWS = 50_000
_SHOWN_CHARACTERS = 300
# These detect a peer that is gone, also while a query runs and nothing is sent.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)
# "Error while compiling statement: FAILED: SemanticException [Error 10001]: Line 1:14 ..."
_SERVERS_PREFIX = re.compile(r"^(Error while \w+ statement: )?(FAILED: )?")
# The start of rows or of a stack trace.
_NOT_SHOWN = re.compile(r"[{\n]|Failed command|:\d+:\d+$|\tat ")


class StatementError(Exception):
    """Why a statement failed, as the server says it: the end of a sentence."""


class Server:
    """A session, which ends with the block."""

    def __init__(self, place: Place, *, writes: bool = False) -> None:
        """Connects and logs in. Raises SourceError, also where there is no such database; with
        `writes` it raises IoError in place of SourceError, here and below.
        """
        self._place = place
        self._broken: type[Error] = IoError if writes else SourceError
        self._cannot = f"cannot {'write' if writes else 'read'} {place.shown}"
        # impyla and thrift log statements, passwords and stack traces.
        for name in ("impala", "thrift"):
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.CRITICAL)
        try:
            self._open()
        except StatementError as error:
            raise self._broken(f"{self._cannot}: {error}; check the address") from None

    def _open(self) -> None:
        with self._talking():
            self._service = self._connected()
            try:
                connection = hiveserver2.HiveServer2Connection(
                    self._service, default_db=quoted(self._place.database)
                )
                self._cursor = connection.cursor(
                    user=self._place.user,
                    convert_types=False,
                    convert_strings_to_unicode=False,
                )
            except BaseException:
                self._service.close()
                raise
        self._cursor.arraysize = _FETCHED_ROWS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Closing the cursor cancels a running statement. A broken connection cannot close it.
        if not isinstance(error, self._broken):
            with suppress(Exception):
                self._cursor.close()
        self._cursor._closed = True
        self._service.close()

    def run(self, statement: str) -> None:
        """Runs a statement to its end. Raises StatementError; SourceError where it is cut off."""
        with self._talking():
            self._cursor.execute(statement)

    def ask(self, statement: str) -> list[tuple[str, ...]]:
        """All rows of a short answer, null as empty text. Raises as `run` does."""
        rows = list[tuple[str, ...]]()
        for batch in self.batches(statement):
            for row in batch.to_pylist():
                rows.append(tuple("" if value is None else str(value) for value in row.values()))
        return rows

    def columns(self, statement: str) -> list[Column]:
        """The columns of a query, which is run up to its first row. Raises as `run` does."""
        self.run(statement)
        with self._talking():
            return [
                Column(name, f"{kind}({precision},{scale})" if kind == "DECIMAL" else kind)
                for name, kind, _, _, precision, scale, *_ in self._cursor.description
            ]

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        """The rows of a query as the server sends them, at least one batch. Raises as `run` does.

        Cost: one round trip for each batch; the server chooses its size, at most 50,000 rows.
        """
        columns = self.columns(statement)
        yield no_rows(columns)
        while True:
            with self._talking():
                batch = self._cursor.fetchcbatch()
            if batch is None:
                return
            yield batch_of(columns, batch)

    def _connected(self) -> hiveserver2.HS2Service:
        place = self._place
        at = _socket(place)
        at.setTimeout(place.timeout * 1000)
        transport = hiveserver2.get_transport(
            at,
            place.kerberos_host,
            place.kerberos_service,
            place.mechanism,
            place.user,
            place.password,
        )
        transport.open()
        protocol = hiveserver2.TBinaryProtocolAccelerated(transport)
        # With more retries it would connect again, to a server that does not know the session.
        return hiveserver2.HS2Service(hiveserver2.ThriftClient(protocol), retries=1)

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Turns errors into StatementError if the server gives the reason, else into SourceError or
        IoError.
        """
        try:
            yield
        except (error.HiveServer2Error, error.OperationalError, error.RPCError) as said:
            raise StatementError(_shown(str(said))) from None
        except (OSError, EOFError, TTransport.TTransportException) as broken:
            raise self._broken(f"{self._cannot}: {self._reason(broken)}") from None

    def _reason(self, broken: Exception) -> str:
        inner: Exception = getattr(broken, "inner", None) or broken
        kind = getattr(broken, "type", None)
        kinds = TTransport.TTransportException
        place = f"{self._place.host}:{self._place.port}"
        if kind == kinds.NOT_OPEN and isinstance(inner, OSError):
            why = inner.strerror or str(inner)
            return f"no connection to {place} ({_shown(why)}); check host, port and network"
        if kind == kinds.NOT_OPEN:
            return (
                f"{place} refuses the login ({_shown(str(broken))}); check user, password and "
                "?auth=, which is none, ldap, kerberos or nosasl"
            )
        if kind == kinds.TIMED_OUT or isinstance(inner, TimeoutError):
            return (
                f"{place} has sent nothing for {self._place.timeout:g} s: a load balancer or a "
                "firewall may have dropped the connection without a word, or the server is busy; "
                "try again, or allow it more time with ?timeout=5m"
            )
        if kind == kinds.END_OF_FILE or isinstance(inner, EOFError):
            return (
                f"{place} has closed the connection in the middle of an answer: the server was "
                "stopped, or a load balancer ends connections that wait, then raise its idle "
                "timeout; or it speaks another ?auth= or TLS; try again"
            )
        if isinstance(inner, (ConnectionResetError, BrokenPipeError)):
            return (
                f"the connection to {place} was reset: the server was stopped, or a load balancer "
                "ends connections that wait, such as after 300 s; raise its idle timeout, or use "
                "?via=unload for queries that take long, and try again"
            )
        if isinstance(inner, ssl.SSLError):
            return f"no TLS with {place} ({_shown(str(inner))}); check ?tls= and ?tls_ca="
        return f"the connection to {place} is broken ({_shown(str(inner))}); try again"


def _socket(place: Place) -> TSocket.TSocket:
    """A socket that is opened once, and kept alive."""
    base = TSSLSocket.TSSLSocket if place.tls else TSocket.TSocket
    options = {"ssl_context": ssl.create_default_context(cafile=place.tls_ca)} if place.tls else {}

    class Kept(base):  # type: ignore[misc, valid-type]
        def open(self) -> None:
            super().open()
            for level, name, value in _KEEPALIVE:
                self.handle.setsockopt(level, name, value)
            silent = int(place.timeout * 1000)
            self.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silent)

        def isOpen(self) -> bool:
            return self.handle is not None

    return Kept(place.host, place.port, **options)


def _shown(said: str) -> str:
    """The start of a server's message, without rows and stack traces."""
    said = _SERVERS_PREFIX.sub("", said.strip())
    return _NOT_SHOWN.split(said, maxsplit=1)[0].strip(" .,:;")[:_SHOWN_CHARACTERS]
