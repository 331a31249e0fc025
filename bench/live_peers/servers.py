"""Starts and ends a server that belongs to the benchmark alone."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_SOCKET_PATH_BYTES = 90
_START_SECONDS = 600
_STOP_SECONDS = 600


class ServerFailed(Exception):
    """A server did not start, or ended; the text says what it wrote last."""


class Server:
    """A child process that ends with this one, however this one ends. It writes to `server.log` in
    the workspace.
    """

    def __init__(
        self, command: Sequence[str], workspace: Path, ready: Callable[[], bool], user: str = ""
    ) -> None:
        self._log = workspace / "server.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*as_user(user), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=workspace,
            )
        until = time.monotonic() + _START_SECONDS
        while not ready():
            if self._process.poll() is not None:
                raise ServerFailed(
                    f"{command[0]} ended with status {self._process.returncode}:"
                    f" {self._last_words()}"
                )
            if time.monotonic() > until:
                self._process.kill()
                raise ServerFailed(
                    f"{command[0]} did not answer in {_START_SECONDS} s: {self._last_words()}"
                )
            time.sleep(0.02)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-300:].strip()

    def stop(self, by: signal.Signals) -> None:
        """Ends it in order, and waits."""
        if self._process.poll() is None:
            self._process.send_signal(by)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def as_user(user: str = "") -> list[str]:
    """What to put before a command so that it runs as `user`, if this is root, and ends when its
    parent does.
    """
    command = ["setpriv", "--pdeathsig", "INT"]
    if user and os.geteuid() == 0:
        command += ["--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--init-groups"]
    return [*command, "--"]


def give_to(user: str, directory: Path) -> None:
    """Makes `directory` for `user` alone, if this is root."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(directory, user)


def check_socket_path(directory: Path) -> None:
    """The path of a socket may have 107 bytes."""
    if len(os.fsencode(directory)) > _SOCKET_PATH_BYTES:
        raise ServerFailed(f"{directory}: too long a path for a socket; choose a shorter one")
