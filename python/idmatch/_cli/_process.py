"""The process of a command: its standard streams, the signals that end it, the packages it hides.

Only for a process that runs one command: `main` in another process changes none of these.
"""

import importlib.abc
import os
import signal
import sys
from typing import NoReturn


class Ended(KeyboardInterrupt):
    """A signal ends the process; running work is undone as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def prepare() -> None:
    """Prepares the process for the command it was started for."""
    _open_closed_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A signal that is ignored stays ignored, such as under nohup.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    sys.meta_path.insert(0, _HIDDEN)


def _end(number: int, _frame: object) -> NoReturn:
    raise Ended(number)


def _open_closed_streams() -> None:
    """Opens /dev/null for closed standard streams: else the next file would get their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


class _Hidden(importlib.abc.MetaPathFinder):
    """Hides packages from Arrow, which imports them if installed: pandas takes half a second."""

    def __init__(self, *packages: str) -> None:
        self.packages = {*packages}

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname in self.packages:
            raise ModuleNotFoundError(f"no module named {fullname!r}", name=fullname)


# No command needs pandas, and `idmatch sample` alone needs numpy.
_HIDDEN = _Hidden("numpy", "pandas")


def show(package: str) -> None:
    """Lets a command import a hidden package. Call it before anything imports pyarrow."""
    _HIDDEN.packages.discard(package)
