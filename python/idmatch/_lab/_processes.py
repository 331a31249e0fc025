"""Processes that outlive who started them: told apart from later ones with the same number."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_STATE = 0
_STARTED = 19
_RESIDENT = 21


@dataclass(frozen=True)
class Process:
    """A process by number and the moment it was started, in ticks since the system's."""

    pid: int
    started: int

    def state(self) -> str | None:
        """What /proc shows: R, S, D, T (stopped) ...; None when it has ended."""
        fields = _fields(self.pid)
        if fields is None or int(fields[_STARTED]) != self.started or fields[_STATE] in "ZX":
            return None
        return fields[_STATE]

    def resident_bytes(self) -> int:
        """The memory it has."""
        fields = _fields(self.pid)
        return int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE") if fields else 0

    def send(self, number: signal.Signals) -> bool:
        """Sends a signal; False when it had ended."""
        if self.state() is None:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, seconds: float, is_so: Callable[[str | None], bool]) -> bool:
        """Whether its state is so within this time. A signal is only noted when it is sent."""
        until = time.monotonic() + seconds
        while not is_so(self.state()):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True


def has_ended(state: str | None) -> bool:
    """Of a process with this state."""
    return state is None


def is_stopped(state: str | None) -> bool:
    """By SIGSTOP."""
    return state == "T"


def start(command: Sequence[str], output: Path, environment: Mapping[str, str]) -> Process:
    """Starts a process that goes on when this one ends; what it prints goes to a file."""
    with output.open("ab") as log:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(environment),
        )
    fields = _fields(started.pid)
    # The handle is not kept; whether it runs is asked of the system, as any later command does.
    started.returncode = 0
    return Process(started.pid, int(fields[_STARTED]) if fields else -1)


def _fields(pid: int) -> list[str] | None:
    """What follows the name in /proc/<pid>/stat."""
    try:
        _reap(pid)
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _reap(pid: int) -> None:
    """Takes note of the end of a child of this process; others are none of its children."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
