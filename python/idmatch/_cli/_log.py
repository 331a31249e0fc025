"""The log on stderr: what the command and the library log, as lines of text or of JSON."""

import json
import logging
import sys
import time
from argparse import ArgumentParser, Namespace
from typing import TextIO

from ._output import LOGGER, printable

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def add_log(command: ArgumentParser) -> None:
    """Adds the options of the log."""
    command.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="log what is done, too; of a match also where the time went; -vv logs each step",
    )
    command.add_argument(
        "--log-format",
        choices=("text", "json"),
        help="log each event as a line of text (default) or as a JSON document",
    )


def show_log(options: Namespace) -> None:
    """Prints the log on stderr from now on: warnings, with -v also info, with -vv also debug.

    The command's own messages are always in the log.
    """
    handler = _Stderr()
    if options.log_format == "json":
        handler.setFormatter(_Json())
    else:
        handler.setFormatter(_Text())
        # A command reports rejected rows itself.
        handler.addFilter(lambda record: record.name != "idmatch.load" or options.verbose > 0)
    logger = logging.getLogger("idmatch")
    logger.handlers[:] = [handler]
    logger.setLevel(_LEVELS[min(options.verbose, len(_LEVELS) - 1)])
    logger.propagate = False
    LOGGER.setLevel(logging.INFO)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes each line to the current `sys.stderr`: while bars are drawn, lines go above them."""

    def emit(self, record: logging.LogRecord) -> None:
        self.setStream(sys.stderr)
        super().emit(record)


class _Text(logging.Formatter):
    """Lines such as `2026-11-01T12:00:00.000Z info idmatch.engine: rows were committed rows=7`.

    The command's own lines look like any program's: `idmatch: error: ...`.
    """

    def format(self, record: logging.LogRecord) -> str:
        text = printable(record.getMessage())
        if record.name == LOGGER.name:
            return f"idmatch: {'error: ' if record.levelno == logging.ERROR else ''}{text}"
        return f"{_instant(record)} {record.levelname.lower()} {record.name}: {text}"


class _Json(logging.Formatter):
    """Documents with time, level, logger, event, and the event's values."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": printable(getattr(record, "event", record.getMessage())),
        }
        for name, value in getattr(record, "fields", {}).items():
            document[name] = printable(value) if isinstance(value, str) else value
        return json.dumps(document, ensure_ascii=False, default=lambda value: printable(str(value)))


def _instant(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.created % 1 * 1000):03}Z"
