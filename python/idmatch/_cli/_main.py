"""From the command line to an exit code."""

import os
import sys
from collections.abc import Sequence

from .._errors import Error, InvalidArgument
from . import _commands
from ._parser import parser

_DONE = 0
_FAILED = 1
_WRONG_USAGE = 2
_INTERRUPTED = 130
_READER_GONE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command: 0 done, 1 failed, 2 wrong usage, 3 done with rejected rows.

    After Ctrl-C 130, after the reader of a pipe has gone 141, as shells show the signals.
    """
    typed = parser(_commands.COMMANDS)
    options = typed.parse_args(arguments)
    if options.run is None:
        typed.print_help()
        return _DONE
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python flushes stdout once more at its end; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)
    except InvalidArgument as error:
        return _fail(error, _WRONG_USAGE)
    except (Error, OSError, UnicodeError) as error:
        return _fail(error, _FAILED)


def _fail(reason: object, code: int) -> int:
    print(f"idmatch: error: {' '.join(str(reason).split())}", file=sys.stderr)
    return code
