"""The command-line parser: commands, options and their help."""

import argparse
from collections.abc import Callable, Mapping
from typing import NoReturn

from idmatch import __version__

from ._checkpoints import add_checkpoint
from ._inputs import add_csv, add_dates, add_hive, add_rejects, size
from ._log import add_log
from ._matches import add_export, add_match
from ._output import printable
from ._trials import add_lab, add_sample
from ._watch import add_dashboard, add_exporter, add_metrics

_SINCE = "start of the window, inside it: ISO 8601, or a period before now such as 90d or 13mo"
_UNTIL = "end of the window, outside it: like --since"
_FILES = (
    "Parquet, ORC, CSV or JSON lines (.jsonl, .ndjson, .json), also as .gz, .zst, .bz2 or .lz4: "
    "files, globs, directories or URLs; or a table "
    "of Hive: hive://HOST:10000/DATABASE/TABLE"
)

EXAMPLES: Mapping[str, str] = {
    "create": "./store appnexus --retention 13mo",
    "load": "./store appnexus 'matches/*.parquet' --columns cookie --retention 13mo",
    "upsert": "./store appnexus --id 9f86d081 --partner-id 4821",
    "erase": "./store appnexus --id 9f86d081",
    "match": "./store appnexus population.parquet --pick latest -o matched.parquet",
    "export": "./store appnexus --since 90d -o appnexus.csv.gz",
    "lookup": "./store appnexus --id 9f86d081 --since 90d",
    "tables": "./store --json",
    "alter": "./store appnexus --retention 13mo",
    "rename": "./store --swap appnexus appnexus.new",
    "drop": "./store appnexus.new --dry-run",
    "verify": "./store appnexus --repair",
    "compact": "./store appnexus",
    "copy": "./store cql://10.0.0.1,10.0.0.2/matches appnexus",
    "backup": "./store /backups/monday",
    "checkpoint": "./store --keep 6h",
    "restore": "/backups/monday ./restored",
    "exporter": "./store --listen 127.0.0.1:7301",
    "cql-exporter": "cql://10.0.0.1,10.0.0.2/matches --listen 127.0.0.1:7302",
    "dashboard": "http://127.0.0.1:9090 --since 24h -o dashboards.html",
    "lab": "up --nodes 3",
    "sample": "./sample --people 100k",
}
"""An example of each command, without `idmatch` and the command's name."""

Command = Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """A parser whose errors show no secrets of misplaced addresses."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """A parser whose result has `run`: the function of the chosen command, or None."""
    root = _Parser(
        prog="idmatch",
        description="Match tables: which id goes with which partner ID, and since when.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done with rejected rows, "
        "75 another process writes the store.",
    )
    root.add_argument("--version", action="version", version=f"idmatch {__version__}")
    root.set_defaults(run=None)
    subparsers = root.add_subparsers(metavar="COMMAND")
    common = _Parser(add_help=False)
    common.add_argument(
        "--json", action="store_true", help="print one JSON document on stdout and nothing else"
    )
    add_log(common)

    def command(name: str, description: str) -> argparse.ArgumentParser:
        added = subparsers.add_parser(
            name,
            parents=[common],
            help=description,
            description=description,
            epilog=f"Example: idmatch {name} {EXAMPLES[name]}",
        )
        added.set_defaults(run=commands[name])
        return added

    create = command("create", "Make an empty table.")
    _add_store(create, writes=True)
    create.add_argument("table", metavar="TABLE")
    _add_table_options(create)
    create.set_defaults(keep="last")
    _add_load(
        command("load", "Load files into a table, all or nothing. A missing table is created.")
    )
    _add_upsert(
        command(
            "upsert",
            "Add observations that are visible at once: one, a file, or a stream on stdin.",
        )
    )
    _add_erase(
        command(
            "erase",
            "Erase an identifier or a pair: hide its observations for good, in both directions.",
        )
    )
    match = command("match", "Match a population: find the matches of every identifier in a file.")
    _add_store(match)
    add_match(match, (_SINCE, _UNTIL), _FILES)
    export = command("export", "Export a table: write its observations to a file.")
    _add_store(export)
    add_export(export, (_SINCE, _UNTIL))
    _add_lookup(command("lookup", "Look up the matches of one identifier, newest first."))

    tables = command("tables", "Show the tables of a store.")
    _add_store(tables)
    tables.add_argument(
        "--explain",
        action="store_true",
        help="show every setting of a cql:// address and its value, instead of tables",
    )
    tables.add_argument(
        "--count",
        action="store_true",
        help="count identifiers and pairs, which reads all tables, instead of estimating them",
    )
    alter = command("alter", "Change the retention of a table.")
    _add_store(alter, writes=True)
    alter.add_argument("table", metavar="TABLE")
    alter.add_argument(
        "--retention",
        metavar="PERIOD",
        required=True,
        help="such as 13mo or 90d, at least a day; `none` keeps observations for ever",
    )
    _add_confirmation(alter, "how many observations it would hide")
    rename = command("rename", "Rename a table, or exchange the names of two.")
    _add_store(rename, writes=True)
    rename.add_argument("old", metavar="OLD", help="a table")
    rename.add_argument("new", metavar="NEW", help="its new name; with --swap, another table")
    rename.add_argument("--swap", action="store_true", help="exchange the names of both, at once")
    drop = command("drop", "Drop a table: remove it for good. Its erasures stay for its name.")
    _add_store(drop, writes=True)
    drop.add_argument("table", metavar="TABLE")
    _add_confirmation(drop, "how many observations it would remove")
    verify = command("verify", "Read and check everything that is stored.")
    _add_store(verify, writes=True)
    verify.add_argument("table", metavar="TABLE", nargs="?", help="check this table only")
    verify.add_argument(
        "--repair",
        action="store_true",
        help="repair what is wrong: rebuild each direction from the other",
    )
    verify.add_argument(
        "--accept-loss", action="store_true", help="with --repair, also where rows would be lost"
    )
    verify.add_argument(
        "--accept-older",
        action="store_true",
        help="with --repair, go on with a MANIFEST that is older than the last one",
    )
    compact = command(
        "compact",
        "Compact tables: rewrite them as few large segments, without expired and erased rows.",
    )
    _add_store(compact, writes=True)
    compact.add_argument("table", metavar="TABLE", nargs="?", help="compact this table only")
    _add_copy(command("copy", "Copy tables to another store, in a directory or on servers."))
    backup = command("backup", "Back up a store: copy a consistent snapshot of it.")
    _add_store(backup, place="a directory")
    backup.add_argument("destination", metavar="DEST", help="a directory that does not exist yet")
    checkpoint = command(
        "checkpoint", "Make a version of a store readable for other processes, for a while."
    )
    _add_store(checkpoint, place="a directory")
    add_checkpoint(checkpoint)
    restore = command("restore", "Verify a backup, and restore it to a new directory.")
    restore.add_argument("source", metavar="SRC", help="the backup's directory")
    restore.add_argument("store", metavar="STORE", help="a directory that does not exist yet")
    restore.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="do not read every file of the backup first; opens its files' headers only",
    )
    exporter = command(
        "exporter", "Expose the metrics of a store for Prometheus, beside any writer."
    )
    _add_store(exporter)
    add_exporter(exporter, "127.0.0.1:7301")
    cluster = command(
        "cql-exporter", "Expose the metrics of the Cassandra nodes of an address for Prometheus."
    )
    _add_store(cluster, place="cql://HOST,HOST/KEYSPACE")
    add_exporter(cluster, "127.0.0.1:7302")
    add_dashboard(command("dashboard", "Draw the dashboards of a Prometheus as one HTML page."))
    add_lab(
        command("lab", "Run Cassandra, HDFS, Hive, Spark or Prometheus on this machine, for tests.")
    )
    add_sample(command("sample", "Make sample data: a population, a CRM and match tables."))
    return root


def _add_load(load: argparse.ArgumentParser) -> None:
    _add_store(load, writes=True)
    load.add_argument("table", metavar="TABLE")
    load.add_argument("files", metavar="FILES", nargs="+", help=_FILES)
    _add_columns(load, "FILES")
    add_dates(load)
    add_csv(load)
    add_hive(load)
    _add_table_options(load)
    load.add_argument(
        "--replace", action="store_true", help="the rows take the place of those of the table"
    )
    load.add_argument(
        "--force", action="store_true", help="--replace also where most rows of the table would go"
    )
    add_rejects(load)
    load.add_argument(
        "--max-rejects",
        metavar="N|P%",
        help="load nothing where more rows are bad: a number, or a share such as 1%%",
    )
    load.add_argument(
        "--dry-run",
        action="store_true",
        help="store nothing; read all, and show columns, first rows, bad rows and the disk needed",
    )


def _add_upsert(upsert: argparse.ArgumentParser) -> None:
    _add_store(upsert, writes=True)
    upsert.add_argument("table", metavar="TABLE")
    upsert.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="files as for load, or - for JSON lines, CSV or an Arrow IPC stream on "
        "stdin, which is upserted as it arrives",
    )
    upsert.add_argument("--id", metavar="X", help="one observation: its id")
    upsert.add_argument("--partner-id", metavar="Y", help="its partner ID")
    upsert.add_argument("--seen-at", metavar="T", help="its date, ISO 8601 (default: now)")
    upsert.add_argument(
        "--durability",
        choices=["always", "interval"],
        default="always",
        help="each batch on disk before the next is read, or within 100 ms",
    )
    upsert.add_argument(
        "--ack",
        action="store_true",
        help="with -, print {rows, through} after each durable batch: all rows of the stream up to "
        "number `through` are stored, or in the file of rejects",
    )
    upsert.add_argument(
        "--create",
        action="store_true",
        help="make a missing table, without a retention and with the newest date of each pair",
    )
    add_metrics(upsert)
    _add_columns(upsert, "FILE")
    add_dates(upsert)
    add_csv(upsert)
    add_hive(upsert)
    add_rejects(upsert)


def _add_erase(erase: argparse.ArgumentParser) -> None:
    _add_store(erase, writes=True)
    erase.add_argument("table", metavar="TABLE")
    erase.add_argument("file", metavar="FILE", nargs="?", help=f"{_FILES}; needs --columns")
    add_csv(erase)
    add_hive(erase)
    erase.add_argument("--id", metavar="X", help="all of an id; with --partner-id, the pair")
    erase.add_argument("--partner-id", metavar="Y", help="all of a partner ID")
    erase.add_argument(
        "--at",
        metavar="T",
        help="hide what was seen up to then, that instant included, also when it arrives later: "
        "ISO 8601, or a period before now (default: now)",
    )
    erase.add_argument(
        "--columns",
        metavar="ID,PARTNER_ID",
        help="the columns of FILE; either may be left out: `email` or `,uid`",
    )
    erase.add_argument(
        "--drop-checkpoints",
        action="store_true",
        help="remove the checkpoints of the store that still show the rows",
    )
    add_rejects(erase)


def _add_lookup(lookup: argparse.ArgumentParser) -> None:
    _add_store(lookup)
    lookup.add_argument("table", metavar="TABLE")
    lookup.add_argument("--id", metavar="X", help="show its partner IDs")
    lookup.add_argument("--partner-id", metavar="Y", help="show its ids; with --id, the last date")
    lookup.add_argument("--since", metavar="T", help=_SINCE)
    lookup.add_argument("--limit", metavar="N", type=size, help="show only the newest N")


def _add_copy(copy: argparse.ArgumentParser) -> None:
    place = "a directory, or cql://HOST,HOST/KEYSPACE"
    copy.add_argument("source", metavar="SRC", help=place)
    copy.add_argument("destination", metavar="DST", help=f"{place}; created if missing")
    _add_wait(copy)
    copy.add_argument("tables", metavar="TABLE", nargs="*", help="copy these (default: all)")
    copy.add_argument("--as", dest="name", metavar="NAME", help="copy one TABLE to this name")
    copy.add_argument(
        "--merge",
        action="store_true",
        help="also into a table that has rows of its own: of each pair the newest date stays",
    )
    copy.add_argument(
        "--accept-lost-erasures",
        action="store_true",
        help="also where the destination cannot remember what was erased",
    )
    copy.add_argument(
        "--batch-rows",
        metavar="ROWS",
        type=size,
        default="20M",
        help="rows of one load; a crash loses at most one of them (default: 20M)",
    )


def _add_columns(command: argparse.ArgumentParser, files: str) -> None:
    command.add_argument(
        "--columns",
        metavar="ID,PARTNER_ID,SEEN_AT",
        help=f"the columns of {files}; those left out or empty are guessed where just one fits",
    )


def _add_table_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--keep", choices=["last", "all"], help="newest date of a pair (default), or all dates"
    )
    command.add_argument("--retention", metavar="PERIOD", help="never show older dates: 13mo, 90d")
    command.add_argument(
        "--expected-rows",
        metavar="N",
        type=size,
        help="on servers: the rows that a new table is made for, such as 400M",
    )


def _add_confirmation(command: argparse.ArgumentParser, effect: str) -> None:
    command.add_argument("--yes", action="store_true", help="do it without a question")
    command.add_argument(
        "--dry-run", action="store_true", help=f"change nothing; read the table and say {effect}"
    )


def _add_store(
    command: argparse.ArgumentParser,
    writes: bool = False,
    place: str = "a directory, or cql://HOST,HOST/KEYSPACE",
) -> None:
    command.add_argument("store", metavar="STORE", help=place)
    if writes:
        _add_wait(command)


def _add_wait(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--wait",
        metavar="TIME",
        help="how long to wait while another process writes the store, such as 30s (default: 2s)",
    )
