"""Runs the command `idmatch` in forks of one process, which has its packages imported.

Each command is a process of its own, with its own arguments, folder, variables and streams. It does
not import its packages again, which takes most of the time of a short command. What Python reads at
its start is the server's: hash seed, locale, PYTHON variables. The blocks of the documents run
commands as users do.

The fork server of `multiprocessing` is not for this: its children have no standard streams of their
own, and begin with the main module of the tests.
"""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any


class CommandServer:
    """The process that forks. It ends when the process that made it ends.

    `idmatch sample` is not for it: this command needs numpy, which is hidden from pyarrow here.
    """

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            program = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(program, pass_fds=[theirs.fileno()])

    @classmethod
    @functools.cache
    def of_this_process(cls) -> "CommandServer":
        """The server that this process made when it first needed one."""
        return cls()

    def run(
        self, arguments: Sequence[str], folder: Path, stdin: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as `subprocess.run` runs a program. Threads may call it at once.

        Raises TimeoutError after `timeout` seconds, and kills the command.
        """
        # Standard input, output and error, and where the server tells of the process.
        (given, stdin_end), *others = (os.pipe() for _ in range(4))
        theirs = [given, *(end for _, end in others)]
        request = {"arguments": arguments, "folder": str(folder), "environment": {**os.environ}}
        socket.send_fds(self._requests, [json.dumps(request).encode()], theirs)
        for number in theirs:
            os.close(number)
        with ExitStack() as ends:
            streams = [ends.enter_context(open(number)) for number, _ in others]
            threads = ends.enter_context(ThreadPoolExecutor(4))
            if not (pid := streams[2].readline()):
                raise RuntimeError(f"the command server ended with {self._process.wait()}")
            threads.submit(_write, stdin_end, stdin)
            reads = [threads.submit(stream.read) for stream in streams]
            if wait(reads, timeout).not_done:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
                raise TimeoutError(f"{arguments[:1]} ran for more than {timeout} s")
            out, err, status = [read.result() for read in reads]
            return subprocess.CompletedProcess(arguments, int(status), out, err)


def _write(number: int, text: str) -> None:
    """Writes and closes a pipe, whose other end may be closed already."""
    with suppress(BrokenPipeError), open(number, "w") as stream:
        stream.write(text)


def _serve(requests: socket.socket) -> None:
    """Forks for each request."""
    from idmatch._cli._process import prepare

    # Commands hide numpy from pyarrow. Each prepares its own process again.
    prepare()
    for package in ("idmatch._cli", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet"):
        import_module(package)
    # A fork has only the thread that forks. Of others, jemalloc's alone begins again.
    threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert len([name for name in threads if name != "jemalloc_bg_thd"]) == 1
    # Nobody waits for the forks that watch. Ctrl-C is for commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, pipes, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _watch(json.loads(message), pipes)
        for number in pipes:
            os.close(number)


def _watch(request: dict[str, Any], pipes: list[int]) -> None:
    """Runs a command in another fork, and tells its process and its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, report = pipes
    pid = os.fork()
    if pid == 0:
        os.close(report)
        _run(request, streams)
    for number in streams:
        os.close(number)
    os.write(report, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run(request: dict[str, Any], streams: list[int]) -> None:
    from idmatch._cli import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    # As `python -c` has them.
    sys.path[0] = ""
    sys.argv = ["-c", *request["arguments"]]
    run()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
