"""A program of a lab: it outlives the process that starts it, and a later one finds it."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from idmatch._errors import Error

from . import _jars

_STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Daemon:
    """A program by its name, with a folder for its pid and its log."""

    name: str
    folder: Path
    address: str = ""
    """Where it answers, as users name it."""
    mark: str = ""
    """An argument that no other program has. If empty, `start` adds one to a Java program."""

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.folder / f"{self.name}.log"

    @property
    def process(self) -> psutil.Process | None:
        """Its process while that runs."""
        try:
            process = psutil.Process(int(self._pid_file.read_text()))
            # A later process with the same pid has another command.
            if self._mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                return process
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
            pass
        return None

    def start(
        self,
        options: Sequence[str],
        jars: Path,
        program: Sequence[str],
        environment: Mapping[str, str] | None = None,
        java: str | None = None,
    ) -> None:
        """Runs a main class of Java with arguments, unless it runs already.

        The class path has `jars` and the folder `conf` in its folder. `environment` is added to the
        environment of this process. Without `java`, it uses the Java that runs Cassandra. Raises
        Error without Java.
        """
        if self.process is None:
            path = f"{self.folder}/conf:{jars}/*"
            command = [java or _jars.java(), self._mark, *options, "-cp", path, *program]
            self.run(command, environment)

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Runs a command. One of its arguments must be the mark."""
        with self.log.open("wb") as log:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        self._pid_file.write_text(str(started.pid))
        # The handle is dropped: `process` asks the system, as any later command does.
        started.returncode = 0

    def wait_until(self, is_up: Callable[[], bool], seconds: float) -> None:
        """Waits for a condition. Raises Error if the time is over, or the program ends first, with
        its last error.
        """
        until = time.monotonic() + seconds
        while not is_up():
            # Wait first: a new process has no command line for a moment.
            time.sleep(0.1)
            if self.process is None:
                raise Error(f"{self.name} ended while it started: {self.last_error()}")
            if time.monotonic() > until:
                raise Error(f"{self.name} was not ready within {seconds:.0f} s; see {self.log}")

    def last_error(self) -> str:
        """The last error in its log, or the last line of the log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        errors = [line for line in lines if re.search("ERROR|FATAL|Exception", line)]
        return f"{(errors or lines or ['nothing'])[-1].strip()} (see {self.log})"

    def stop(self) -> None:
        """Ends the program by SIGTERM, also if it is frozen, and after 30 s by SIGKILL."""
        if process := self.process:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
                process.resume()
            _, left = psutil.wait_procs([process], _STOP_SECONDS)
            if left:
                self.kill()

    def kill(self) -> None:
        """Ends the program as a crash does."""
        if process := self.process:
            with suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(_STOP_SECONDS)

    @property
    def _pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    @property
    def _mark(self) -> str:
        return self.mark or f"-Didmatch.lab={self.folder}/{self.name}"
