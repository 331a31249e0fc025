"""The entry point: parses arguments, runs a command and turns errors into exit codes."""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from idmatch import _core
from idmatch._errors import Busy, Error, InvalidArgument, IoError, Unsupported
from idmatch._outputs import is_standard_output

from . import _commands
from ._log import show_log
from ._output import fail, hide_secrets_of, print_json, printable
from ._parser import parser
from ._process import Ended, prepare

_DONE = 0
_FAILED = 1
_WRONG_USAGE = 2
# Shells add the number of a signal to this.
_SIGNALLED = 128
_BROKEN_PIPE = _SIGNALLED + signal.SIGPIPE
# EX_TEMPFAIL of sysexits.h: the same command may succeed later.
_BUSY = 75


def run() -> NoReturn:
    """Runs the command that the process was started for, and ends the process with its exit code.

    Threads of Arrow may still read ahead. A usual exit destroys objects that they use, and this
    sometimes aborts the process: a command that succeeded would have another exit code.
    """
    prepare()
    code = main()
    _core.flush_logs()
    for stream in sys.stdout, sys.stderr:
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0 done, 1 failed, 2 wrong usage, 3 done with rejected rows, 75 where
    another process writes the store.

    Returns 130 after Ctrl-C, 143 and 129 after SIGTERM and SIGHUP, and 141 after a broken pipe, as
    shells show these signals.
    """
    typed = parser(_commands.COMMANDS)
    given = sys.argv[1:] if arguments is None else arguments
    # A URL may also be in the word of an option, as in --output=URL.
    hide_secrets_of([part for word in given for part in (word, word.partition("=")[2])])
    options = typed.parse_args(given)
    if options.run is None:
        typed.print_help()
        return _DONE
    _core.name_process(f"idmatch {options.run.__name__}")
    show_log(options)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python flushes stdout again at exit; send that to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Ended) else signal.SIGINT
        return _fail(error, _SIGNALLED + number, "interrupted")
    except (Error, OSError, UnicodeError) as error:
        outputs = [getattr(options, name, None) for name in ("output", "unmatched", "rejects")]
        is_piped = any(is_standard_output(path) for path in outputs if path)
        if is_piped and isinstance(error, IoError) and _lost_reader():
            return _BROKEN_PIPE
        if getattr(options, "json", False):
            print_json({"error": _as_json(error)})
        return _fail(error, _code(error))


def _lost_reader() -> bool:
    """Whether standard output is a pipe without a reader."""
    output = select.poll()
    output.register(1, 0)
    return any(event & select.POLLERR for _, event in output.poll(0))


def _code(error: Exception) -> int:
    match error:
        case InvalidArgument() | Unsupported():
            return _WRONG_USAGE
        case Busy():
            return _BUSY
        case _:
            return _FAILED


def _as_json(error: Exception) -> dict[str, object]:
    """The kind of an error, its text and its values."""
    kind = error.code if isinstance(error, Error) else "io-error"
    values = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    since = values.pop("since_millis", None)
    if isinstance(since, int):
        values["since"] = _core.format_instant(since)
    return {"type": kind, "message": printable(str(error)), **values}


def _fail(error: BaseException, code: int, reason: str | None = None) -> int:
    # After a write to servers, a note says which rows have an unknown outcome.
    notes = [note.removeprefix("interrupted: ") for note in getattr(error, "__notes__", [])]
    told = "; ".join(dict.fromkeys(notes))
    fail((": " if reason else "; ").join(filter(None, [reason or str(error), told])))
    return code
