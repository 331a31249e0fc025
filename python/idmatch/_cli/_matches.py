"""`idmatch match` and `idmatch export`: commands whose rows go to files, and their options."""

import argparse
import csv
import sys
import time
from contextlib import redirect_stdout
from typing import TextIO

from idmatch import _formats, _hive_outputs, _outputs
from idmatch._address import Address
from idmatch._errors import InvalidArgument
from idmatch._hops import side_of
from idmatch._match import MatchResult
from idmatch._rows import NO_FILES_OF_HIVE, Rows
from idmatch._table import Table
from idmatch._timings import timings_of
from idmatch._types import Source

from ._inputs import add_csv, add_hive, csv_of, input_files, size, sources_of
from ._output import detected_as_json, grouped, print_columns, print_json, say_read, warn
from ._stores import open_existing, runs_of

_DONE = 0


def match(options: argparse.Namespace) -> int:
    """`idmatch match`"""
    started = time.perf_counter()
    (population,) = sources_of([options.population], options)
    inputs = input_files([population]) if options.overwrite else []
    _check_outputs(options, options.unmatched, inputs)
    with open_existing(options.store) as store:
        # A table that does not exist has no runs.
        table = store.table(options.table)
        with runs_of(store).run("match", options.table) as run:
            result = _matched(table, population, options)
            run.population, run.matched = result.population, result.matched
            if options.output:
                _write_output(result, options)
            if options.unmatched:
                place, format = options.unmatched, _format(options.unmatched, options)
                result.unmatched().write(place, format=format, overwrite=options.overwrite)
    seconds = round(time.perf_counter() - started, 3)
    if options.json:
        _print_json(result, seconds, options)
    else:
        _print(result, seconds, options)
    return _DONE


def _matched(table: Table, population: Source, options: argparse.Namespace) -> MatchResult:
    return table.match(
        population,
        column=options.column,
        by=side_of(options.by),
        pick=options.pick,
        limit=options.limit,
        since=options.since,
        until=options.until,
        carry=_carry(options.carry),
        how=options.how,
        unmatched=options.unmatched is not None,
        then=options.then,
        with_hops=options.with_hops,
        csv=csv_of(options),
    )


def export(options: argparse.Namespace) -> int:
    """`idmatch export`"""
    started = time.perf_counter()
    _check_outputs(options, None, [])
    with open_existing(options.store) as store:
        rows = store.table(options.table).scan(since=options.since, until=options.until)
        count = _write_output(rows, options)
    seconds = round(time.perf_counter() - started, 3)
    if options.json:
        print_json({"table": options.table, "rows": count, "seconds": seconds})
    else:
        with _beside_rows(options):
            print(f"{options.table}: wrote {count:,} rows in {seconds:,} s")
    return _DONE


def add_match(match: argparse.ArgumentParser, windows: tuple[str, str], files: str) -> None:
    """The options of `idmatch match` after the store."""
    match.add_argument("table", metavar="TABLE")
    match.add_argument("population", metavar="POPULATION", help=files)
    add_csv(match)
    add_hive(match)
    match.add_argument(
        "--column", metavar="COL", help="the column of identifiers; guessed where exactly one fits"
    )
    match.add_argument(
        "--by",
        choices=["id", "partner-id"],
        default="id",
        help="which identifiers the population has",
    )
    match.add_argument(
        "--pick",
        choices=["all", "latest"],
        default="all",
        help="all matches of a row, or its newest one",
    )
    match.add_argument(
        "--limit", metavar="N", type=size, help="at most the N newest matches of a row"
    )
    _add_window(match, windows)
    match.add_argument(
        "--carry",
        metavar="all|COL,COL",
        help="columns of POPULATION that come out beside the match; `C as D` gives another name",
    )
    match.add_argument(
        "--how",
        choices=["inner", "left"],
        default="inner",
        help="left: a row without a match is a row of OUT, with nulls",
    )
    match.add_argument(
        "--then",
        metavar="TABLE[,by=partner-id][,pick=latest][,limit=N][,since=T][,until=T]",
        action="append",
        default=[],
        help="match what comes out with this table, too; may be repeated",
    )
    match.add_argument(
        "--with-hops", action="store_true", help="with --then, write the answers between, too"
    )
    match.add_argument(
        "--unmatched",
        metavar="FILE",
        help="write the rows without a match to this file, with the reason",
    )
    _add_output(match, "the matches")
    match.add_argument(
        "--explain", action="store_true", help="print how the population was read, and why"
    )


def add_export(export: argparse.ArgumentParser, windows: tuple[str, str]) -> None:
    """The options of `idmatch export` after the store."""
    export.add_argument("table", metavar="TABLE")
    _add_window(export, windows)
    _add_output(export, "the observations", required=True)


def _add_window(command: argparse.ArgumentParser, windows: tuple[str, str]) -> None:
    since, until = windows
    command.add_argument("--since", metavar="T", help=since)
    command.add_argument("--until", metavar="T", help=until)


def _add_output(command: argparse.ArgumentParser, what: str, required: bool = False) -> None:
    command.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=required,
        help=f"write {what} to this file, FIFO or object (s3://BUCKET/KEY, gs://, az://), or - for "
        "standard output; its name ends with the "
        f"format: {', '.join(_formats.FORMATS)}",
    )
    command.add_argument(
        "--format", metavar="NAME", help="the format where the name of OUT does not tell it"
    )
    command.add_argument(
        "--partition-by",
        metavar="COL",
        help="make OUT a folder, with a folder COL=VALUE for each value of this column; "
        "seen_at is cut by days",
    )
    command.add_argument(
        "--max-rows-per-file",
        metavar="N",
        type=size,
        help="make OUT a folder, of files with at most N rows",
    )
    command.add_argument(
        "--partition",
        metavar="COL=VALUE",
        type=_partition,
        action="append",
        default=[],
        help="of OUT hive://HOST:10000/DATABASE/TABLE: where the rows go; repeated for each column",
    )
    command.add_argument("--overwrite", action="store_true", help="replace files that exist")


def _partition(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not is_there or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=VALUE")
    return name, value


def _carry(text: str | None) -> list[str] | str:
    """The value of --carry as Python takes it; names are written as values of CSV."""
    if text is None or text == "all":
        return text or []
    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise InvalidArgument(
            "--carry is no list of names; one with a comma or a line break stands in quotes"
        ) from error
    return [column.strip() for column in names if column.strip()]


def _check_outputs(options: argparse.Namespace, unmatched: str | None, inputs: list[str]) -> None:
    """Raises InvalidArgument for an output that cannot be written: before the work, not after."""
    output = options.output
    if _uses_standard_output(options) and options.json:
        raise InvalidArgument("--json and -o - both write to standard output; use one of them")
    if "" in (output, unmatched):
        raise InvalidArgument("the name of an output is empty; name a file")
    if output and unmatched and _outputs.is_same(output, unmatched):
        raise InvalidArgument("two outputs have one name; name two files")
    if _is_folder(options):
        if not output:
            raise InvalidArgument("--partition-by and --max-rows-per-file cut OUT; name it with -o")
        if options.overwrite:
            raise InvalidArgument("a folder is not overwritten; name one that does not exist")
    if options.partition and not Address(output or "").is_hive:
        raise InvalidArgument("--partition is for -o hive://HOST:10000/DATABASE/TABLE")
    for path in (output, unmatched):
        if path and Address(path).is_hive:
            if path == unmatched or options.format or _is_folder(options):
                raise InvalidArgument(NO_FILES_OF_HIVE)
            _hive_outputs.check(path, dict(options.partition), overwrite=options.overwrite)
        elif path:
            is_folder = path == output and _is_folder(options)
            if is_folder:
                _formats.format_of_folder(path, options.format)
            else:
                _formats.format_of(path, _format(path, options))
            _outputs.check(path, overwrite=options.overwrite, inputs=inputs, is_folder=is_folder)


def _uses_standard_output(options: argparse.Namespace) -> bool:
    outputs = (options.output, getattr(options, "unmatched", None))
    return any(_outputs.is_standard_output(path) for path in outputs if path)


def _beside_rows(options: argparse.Namespace) -> redirect_stdout[TextIO]:
    """Prints to standard error where the rows go to standard output."""
    return redirect_stdout(sys.stderr if _uses_standard_output(options) else sys.stdout)


def _is_folder(options: argparse.Namespace) -> bool:
    return options.partition_by is not None or options.max_rows_per_file is not None


def _format(path: str, options: argparse.Namespace) -> str | None:
    """The value of --format, for OUT and for a name that tells no format; else None."""
    if path != options.output and _formats.is_told_by(path):
        return None
    named: str | None = options.format
    return named


def _write_output(rows: Rows, options: argparse.Namespace) -> int:
    """Returns how many rows were written."""
    if _is_folder(options):
        return rows.write(
            options.output,
            format=options.format,
            partition_by=options.partition_by,
            max_rows_per_file=options.max_rows_per_file,
        )
    return rows.write(
        options.output,
        format=options.format,
        overwrite=options.overwrite,
        partition=dict(options.partition),
    )


def _figures(result: MatchResult, seconds: float, how: str) -> dict[str, int | float]:
    figures: dict[str, int | float] = {
        "population": result.population,
        "matched": result.matched,
        "rate": result.rate,
        "rows": result.rows,
        "seconds": seconds,
    }
    if how == "left":
        figures["written"] = len(result)
    return figures


def _print_json(result: MatchResult, seconds: float, options: argparse.Namespace) -> None:
    document: dict[str, object] = {
        **_figures(result, seconds, options.how),
        "columns": result.columns,
    }
    document["hex_columns"] = result.hex_columns
    document["detected"] = detected_as_json(result.detected)
    document["is_guess_unmatched"] = result.is_guess_unmatched
    times = timings_of(result.timings, seconds)._asdict()
    document["timings"] = {part: round(time, 6) for part, time in times.items()}
    document["verdict"] = result.verdict
    if result.requests:
        document["requests"] = result.requests._asdict()
    if options.then:
        document["hops"] = [hop._asdict() for hop in result.hops]
    if options.explain:
        document["plan"] = [step._asdict() for step in result.plan]
    print_json(document)


def _print(result: MatchResult, seconds: float, options: argparse.Namespace) -> None:
    role = side_of(options.by)
    named = [role] if options.column else []
    say_read(result.detected, {role: result.columns}, named, result.hex_columns)
    if result.is_guess_unmatched:
        warn(
            "none of the population's first 10,000 identifiers is in the table, and their column "
            "was guessed; name another with --column, or the other side with --by"
        )
    shown = _figures(result, seconds, options.how) | {"rate": f"{result.rate:.2%}"}
    with _beside_rows(options):
        print_columns(["", ""], [[key, grouped(value)] for key, value in shown.items()])
        if options.then:
            names = [options.table, *(then.partition(",")[0] for then in options.then)]
            hops = zip(names, result.hops, strict=True)
            rows = [[name, *map(grouped, counts)] for name, counts in hops]
            print_columns(["table", "rows in", "matched", "rows"], rows)
        if options.verbose:
            times = timings_of(result.timings, seconds)._asdict()
            print_columns(["", "s"], [[part, f"{time:.3f}"] for part, time in times.items()])
            if result.requests:
                requests = result.requests._asdict()
                print_columns(["", ""], [[k, grouped(int(v))] for k, v in requests.items()])
            print(result.verdict)
        if options.explain:
            steps = [[s.how, grouped(s.requests), grouped(s.keys), s.why] for s in result.plan]
            print_columns(["read", "requests", "keys", "because"], steps)
