"""Tables and queries of Hive: the files of a table if they are exactly its rows, else a result."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa

from idmatch._address import Address
from idmatch._carry import Carry
from idmatch._errors import Error, InvalidArgument, SourceError
from idmatch._hive_query import Hive, Via
from idmatch._lazy import LazyModule
from idmatch._spool import Spool

from ._columns import Wanted, project
from ._declared import Declared
from ._files import File, files_of, is_folder
from ._source import OnMalformed, Opened, reading

if TYPE_CHECKING:
    from idmatch import _hive
else:
    _hive = LazyModule("idmatch._hive")


def find_hive(hive: Hive) -> Sequence[File | HiveResult]:
    """The files of a table, if they can be read as its rows, or else one result.

    Asks the server for a table's files. Raises SourceError, InvalidArgument and MissingExtra.
    """
    place = _hive.place_of(Address(hive.address))
    via = hive.via or place.via
    if hive.query is not None:
        if place.table is not None:
            raise InvalidArgument(f"{place.shown} names a table beside a query; name one of them")
        if via == "files":
            raise InvalidArgument("a query has no files; use via=unload or via=rows")
        return [HiveResult(place, hive.query.strip().rstrip("; \n"), via, None)]
    if place.table is None:
        raise InvalidArgument(
            f"{place.shown} names no table: write hive://HOST:10000/DATABASE/TABLE, or name a "
            "query too, by --query or idmatch.Hive"
        )
    why = None
    with reading(place.shown):
        if via in ("auto", "files"):
            try:
                return _files_of(place)
            except _hive.Unfit as error:
                if via == "files":
                    raise SourceError(
                        f"cannot read the files of {place.shown}: {error}; use via=unload or rows"
                    ) from None
                why = f"not its files: {error}"
    return [HiveResult(place, f"SELECT * FROM {place.quoted}", via, why)]


def _files_of(place: _hive.Place) -> list[File]:
    """The files of a table. Raises Unfit if they are not its rows, or cannot be read from here."""
    with _hive.Server(place) as server:
        try:
            table = _hive.table_of(server, place)
        except _hive.StatementError as error:
            raise SourceError(f"cannot read {place.shown}: {error}; check the name") from None
        columns = {column.name: column.type for column in table.columns}
        folders = list(_hive.folders(server, place, table))
    files = list[File]()
    for folder in folders:
        try:
            declared = Declared(folder.format, columns, folder.partition)
            files += files_of(folder.location, declared)
        except Error as error:
            raise _hive.Unfit(f"a folder of it is out of reach: {error}") from None
    if not files:
        raise _hive.Unfit("it has no files")
    return files


class Fetched:
    """Rows that were fetched into a temporary file."""

    local_path = None

    def __init__(self, name: str, spool: Spool, chosen: Mapping[str, str]) -> None:
        self.name = name
        self._spool = spool
        self._chosen = chosen

    def open(self, wanted: Wanted, on_malformed: OnMalformed | None) -> Opened:  # noqa: ARG002
        """See `Source`; there are no malformed lines."""
        (_, rows), *_ = self._spool.reading()
        numbers = wanted.numbers[self.name]
        return Opened(project(rows, rows.schema, self._chosen, {}, numbers, len(wanted.roles)))


class HiveResult:
    """The result of a query. The connection is closed before the first row is given."""

    local_path = None

    def __init__(self, place: _hive.Place, query: str, via: Via, why: str | None) -> None:
        self._place = place
        self._query = query
        self._via = via
        self._why = why
        self.name = place.shown

    def open(self, wanted: Wanted, on_malformed: OnMalformed | None) -> Opened:
        """See `Source`."""
        return self.fetch(wanted).open(wanted, on_malformed)

    def fetch(self, wanted: Wanted) -> Fetched:
        """Runs the query, which may take long. Ctrl-C ends it on the main thread."""
        with reading(self.name), ExitStack() as afterwards:
            with _hive.Server(self._place) as server:
                columns = self._columns(server)
                schema = _hive.schema_of(columns)
                chosen = wanted.columns_of(schema, self.name)
                names = list(dict.fromkeys(chosen.values()))
                selected = ", ".join(map(_hive.quoted, names))
                query = f"SELECT {selected} FROM ({self._query}\n) q"
                folder, why = self._unloaded(server, query, afterwards)
                if folder is None:
                    self._check_flat(column for column in columns if column.name in names)
                    spool = self._rows(server, query)
            if folder is not None:
                spool = self._collected(folder, pa.schema([schema.field(name) for name in names]))
            wanted.note(schema, chosen, "hive unload" if folder else "hive rows", why=why)
            return Fetched(self.name, spool, chosen)

    def _columns(self, server: _hive.Server) -> Sequence[_hive.Column]:
        try:
            found = server.columns(f"SELECT * FROM ({self._query}\n) q LIMIT 0")
        except _hive.StatementError as error:
            raise SourceError(f"cannot read {self.name}: {error}; check the query") from None
        # Hive puts the name of the table before that of the column.
        return [column._replace(name=column.name.removeprefix("q.")) for column in found]

    def _check_flat(self, columns: Iterable[_hive.Column]) -> None:
        for column in columns:
            if column.is_nested:
                raise SourceError(
                    f"cannot read {self.name}: values of {column.name!r} ({column.type.lower()}) "
                    "come as text over the connection; use via=files or unload, or a query with "
                    "LATERAL VIEW explode"
                )

    def _unloaded(
        self, server: _hive.Server, query: str, afterwards: ExitStack
    ) -> tuple[str | None, str | None]:
        """The folder of the result, or None; and why rows did not come by a faster way."""
        why = self._why
        if self._via == "rows":
            return None, why
        try:
            folder = self._staging(server)
            self._check_removal(server, folder)
            afterwards.callback(self._remove, folder)
            server.run(
                f"INSERT OVERWRITE DIRECTORY {_hive.literal(folder)} STORED AS PARQUET {query}"
            )
        except (_hive.StatementError, _hive.Unfit) as error:
            if self._via == "unload":
                raise SourceError(
                    f"cannot unload {self.name}: {error}; name a folder that the server may write "
                    "and this process read, by ?staging=, or use via=rows"
                ) from None
            return None, "; ".join(filter(None, [why, f"no unload: {error}"]))
        return folder, why

    def _staging(self, server: _hive.Server) -> str:
        """A new folder's address. Raises Unfit where this process cannot read it."""
        base = self._place.staging
        if base is None:
            # Hive answers NAME=VALUE, and others in two columns.
            (said,) = server.ask("SET fs.defaultFS")
            base = said[-1].removeprefix("fs.defaultFS=").rstrip("/") + "/tmp"
            if ":" not in base:
                raise _hive.Unfit("the server does not name its file system; name ?staging=")
        try:
            is_there = is_folder(base)
        except Error as error:
            raise _hive.Unfit(str(error)) from None
        if not is_there:
            raise _hive.Unfit(f"there is no folder {base}")
        return f"{base.rstrip('/')}/idmatch-{secrets.token_hex(8)}"

    def _check_removal(self, server: _hive.Server, folder: str) -> None:
        """Raises Unfit if a server cannot remove the folder that it would make."""
        try:
            server.run(_removal(folder))
        except _hive.StatementError:
            raise _hive.Unfit("the server runs no dfs, which removes what is unloaded") from None

    def _rows(self, server: _hive.Server, query: str) -> Spool:
        batches = server.batches(query)
        try:
            return _kept(self.name, next(batches).schema, batches)
        except _hive.StatementError as error:
            raise SourceError(f"cannot read {self.name}: {error}; check the query") from None

    def _collected(self, folder: str, schema: pa.Schema) -> Spool:
        """Reads the unloaded files."""
        declared = Declared("parquet", dict.fromkeys(schema.names, ""), {})
        wanted = Wanted({}, carry=Carry(schema.names))
        files = files_of(folder, declared)

        def batches() -> Iterator[pa.RecordBatch]:
            # One after the other: each reads ahead.
            for file in files:
                opened = file.open(wanted, None)
                yield from opened.reader
                opened.check()

        if files:
            schema = files[0].open(wanted, None).reader.schema
        return _kept(self.name, schema, batches())

    def _remove(self, folder: str) -> None:
        """Removes the unloaded files, also after an unload that was cancelled."""
        try:
            with _hive.Server(self._place) as server:
                server.run(_removal(folder))
        except (_hive.StatementError, SourceError) as error:
            warnings.warn(f"{folder} may be left: {error}; remove it", stacklevel=2)


def _removal(folder: str) -> str:
    """The statement that removes a folder, which may be missing."""
    return f"dfs -rm -r -f -skipTrash {folder}"


def _kept(name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Spool:
    spool = Spool([])
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    for _, stream in spool.writing([(name, reader)]):
        for _ in stream:
            pass
    return spool
