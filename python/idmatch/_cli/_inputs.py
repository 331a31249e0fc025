"""Options that say which inputs are read, how they are written, and where rejected rows go."""

import argparse
from collections.abc import Sequence
from typing import get_args

from idmatch import _core
from idmatch._address import Address
from idmatch._csv_options import Csv
from idmatch._errors import InvalidArgument
from idmatch._hive_query import Hive, Via


def add_csv(command: argparse.ArgumentParser) -> None:
    """Adds the options that say how CSV is written."""
    command.add_argument(
        "--delimiter", metavar="CHAR", help="between values of CSV, or `tab` (default: detected)"
    )
    command.add_argument(
        "--quote", metavar="CHAR", default='"', help="around values of CSV; empty: none is quoted"
    )
    command.add_argument(
        "--encoding",
        metavar="NAME",
        default="utf-8",
        help="of CSV: latin-1, cp1252, utf-16 (default: utf-8)",
    )
    command.add_argument(
        "--no-header", action="store_true", help="columns of CSV are called 1, 2 and so on"
    )
    command.add_argument(
        "--null",
        metavar="TEXT",
        action="append",
        default=[],
        help="a value of CSV that is missing, such as NULL; may be repeated",
    )
    command.add_argument("--comment", metavar="START", help="lines of CSV that are no rows: #")


def add_hive(command: argparse.ArgumentParser) -> None:
    """Adds the options that say which rows of Hive are read, and how."""
    command.add_argument(
        "--query", metavar="SQL", help="of hive://HOST/DATABASE: the rows of this SELECT"
    )
    command.add_argument(
        "--via",
        choices=get_args(Via),
        help="how rows of Hive come: from the table's files, by an unload of the server, or over "
        "the connection (default: auto, the first that is possible)",
    )


def sources_of(paths: Sequence[str], options: argparse.Namespace) -> list[str | Hive]:
    """The sources that these paths and addresses, --query and --via name.

    Raises InvalidArgument for options of Hive without an address of Hive.
    """
    if options.query is None and options.via is None:
        return list(paths)
    if not all(Address(path).is_hive for path in paths):
        raise InvalidArgument("--query and --via are for Hive: name hive://HOST:10000/DATABASE")
    if options.query is not None and len(paths) > 1:
        raise InvalidArgument("--query is for one hive://HOST:10000/DATABASE; name no other source")
    return [Hive(path, options.query, options.via) for path in paths]


def csv_of(options: argparse.Namespace) -> Csv:
    """The options of CSV on the command line."""
    delimiter = "\t" if options.delimiter in ("tab", "\\t") else options.delimiter
    return Csv(
        delimiter=delimiter,
        quote=options.quote or None,
        encoding=options.encoding,
        header=not options.no_header,
        null=tuple(options.null),
        comment=options.comment,
    )


def add_rejects(command: argparse.ArgumentParser) -> None:
    """Adds the options that say where rejected rows go."""
    command.add_argument("--strict", action="store_true", help="stop at the first bad row")
    command.add_argument(
        "--rejects",
        metavar="FILE",
        help="CSV file for bad rows, or - (default: one in STORE.rejects/)",
    )
    command.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def input_files(sources: Sequence[str | Hive]) -> list[str]:
    """The places of all files that these sources stand for: paths on this machine, else addresses.

    Raises SourceError if there is no file.
    """
    from idmatch._sources import find

    return [source.local_path or source.name for source in find(list(sources))]


def add_dates(command: argparse.ArgumentParser) -> None:
    """Adds the options that say how dates are written."""
    command.add_argument(
        "--date-format",
        metavar="FORMAT",
        help="how dates are written: fields of strptime such as %%d/%%m/%%Y, or s, ms, us, ns "
        "since 1970 (default: ISO 8601)",
    )
    command.add_argument(
        "--tz", metavar="ZONE", help="of local times, such as Europe/Paris (default: UTC)"
    )
    command.add_argument("--dated", metavar="DATE", help="of all rows, in place of a column")


def size(text: str) -> int:
    """A number such as 400M; for argparse."""
    try:
        return _core.parse_size(text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error
