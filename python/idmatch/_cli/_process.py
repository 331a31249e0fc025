"""The process of a command: its standard streams, the signals that end it, what it does not import.

Only for a process that runs one command: `main` in another process changes none of these.
"""

import importlib.abc
import os
import signal
import sys
from typing import NoReturn


class Ended(KeyboardInterrupt):
    """Somebody ends the process by a signal; what runs is undone as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def prepare() -> None:
    """Prepares the process for the command it was started for."""
    _open_closed_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Not where somebody ignores them, as nohup does.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    sys.meta_path.insert(0, _WithoutPandas())


def _end(number: int, _frame: object) -> NoReturn:
    raise Ended(number)


def _open_closed_streams() -> None:
    """Gives /dev/null to standard streams that are closed: the next file would get their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


class _WithoutPandas(importlib.abc.MetaPathFinder):
    """Hides pandas from Arrow, which imports it with its first value, in half a second.

    No command needs it.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("no command of idmatch needs pandas", name="pandas")
