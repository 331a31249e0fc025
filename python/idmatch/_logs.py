"""The log events of the core, as records of Python's `logging`.

The loggers are `idmatch.engine`, `idmatch.cql` and `idmatch.cql.driver`; Python's own code logs to
`idmatch.load`. Nothing is printed unless the program configures `logging`. A record has the values
of its event in `record.fields`, a dictionary, and also in its text. A thread of the core calls
`_tell`: no thread that works for a store waits for a handler. Must not know the events.
"""

import atexit
import contextlib
import logging
from collections.abc import Mapping

from . import _core
from ._types import LogEvent

LOAD = logging.getLogger("idmatch.load")

_ROOT = logging.getLogger("idmatch")
_ROOT.addHandler(logging.NullHandler())
_CORE = tuple(map(logging.getLogger, ("idmatch.engine", "idmatch.cql", "idmatch.cql.driver")))
# The levels of the core, whose numbers begin at 1.
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, logging.DEBUG // 2)

_Fields = Mapping[str, object]


def follow() -> None:
    """Sets the levels of the core's log to the current levels of the loggers.

    Each `idmatch.open` calls it, so a level that is set later counts from the next `open` on.
    """
    engine, cql, driver = (sum(map(logger.isEnabledFor, _LEVELS)) for logger in _CORE)
    _core.log_to(_tell, engine, cql, driver)


def log(logger: logging.Logger, level: int, text: str, fields: _Fields) -> None:
    """Logs a text with values; none may be an identifier or a secret."""
    if logger.isEnabledFor(level):
        logger.handle(_record(logger, level, text, fields))


def _tell(events: list[LogEvent], dropped: int) -> None:
    for seconds, number, name, text, fields in events:
        logger, level = logging.getLogger(name), _LEVELS[number - 1]
        if logger.isEnabledFor(level):
            record = _record(logger, level, text, dict(fields))
            record.created, record.msecs = seconds, seconds % 1 * 1000
            # A handler that raises must not end the others.
            with contextlib.suppress(Exception):
                logger.handle(record)
    if dropped:
        log(_ROOT, logging.WARNING, "log events were dropped", {"events": dropped})


def _record(logger: logging.Logger, level: int, text: str, fields: _Fields) -> logging.LogRecord:
    message = " ".join([text, *(f"{name}={value}" for name, value in fields.items())])
    extra = {"event": text, "fields": fields}
    # Without arguments, "%" stays as it is.
    return logger.makeRecord(logger.name, level, "idmatch", 0, message, (), None, None, extra)


atexit.register(_core.flush_logs)
