"""Runs one system in its own process, measures each call's peak memory, and stops it when it
goes too far.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from heat import disk_bytes_read
from machine import free_bytes
from peers.base import Setting
from sampling import Peak, Sampler, private_bytes

_SAMPLE_SECONDS = 0.005
_REASON_CHARACTERS = 300
_BLOCK_BYTES = 512  # of `ru_inblock`
_HERE = Path(__file__).parent


class ContestantFailed(Exception):
    """A system gave no answer; the text says why."""


@dataclass(frozen=True)
class Call:
    """What came of one call: its result, its time inside the system, its peak memory,
    and what it read from disk.
    """

    value: Any
    seconds: float
    private_bytes: int
    read_bytes: int


@dataclass(frozen=True)
class Limits:
    """A system that passes one of these is ended, and the page says so."""

    seconds: float
    private_bytes: int
    free_bytes: int  # that must stay free on the disk


class Contestant:
    """A system's process; use it in a `with` block."""

    def __init__(self, name: str, setting: Setting, limits: Limits) -> None:
        self.name = name
        self._limits = limits
        self._ended_because = ""
        self._workspace = setting.workspace
        self._workspace.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "peers.worker", name, json.dumps(asdict(setting), default=str)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_HERE,
            env=os.environ | {"POLARS_MAX_THREADS": str(setting.threads), "PYTHONUNBUFFERED": "1"},
        )

    def call(self, method: str, **arguments: Any) -> Call:
        """Makes the system run one of its methods and waits for the answer."""
        began = time.perf_counter()
        peak = Peak()

        def watch() -> None:
            now = private_bytes(self._process.pid)
            peak.see(now)
            if now > self._limits.private_bytes:
                self._end(
                    f"ended after its memory passed {self._limits.private_bytes / 1e9:.0f} GB"
                )
            elif time.perf_counter() - began > self._limits.seconds:
                self._end(f"ended after {self._limits.seconds:.0f} s without an answer")
            elif free_bytes(self._workspace) < self._limits.free_bytes:
                self._end("ended because it had nearly filled the disk")

        read_before = disk_bytes_read(self._process.pid)
        with Sampler(watch, _SAMPLE_SECONDS):
            answer = self._ask({"call": method, "arguments": arguments})
        if "error" in answer:
            raise ContestantFailed(answer["error"].splitlines()[0][:_REASON_CHARACTERS])
        read = disk_bytes_read(self._process.pid) - read_before
        return Call(answer["value"], answer["seconds"], peak.value, read)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait()
            return {"error": self._ended_because or f"its process ended with status {status}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self, reason: str) -> None:
        if not self._ended_because:
            self._ended_because = reason
            self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def run_command(command: list[str], threads: int) -> Call:
    """Runs a command with its share of the processors; it prints a number, or JSON with `rows`."""
    processors = sorted(os.sched_getaffinity(0))[:threads]
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, processors),
    )
    assert process.stdout
    peak = Peak()
    with Sampler(lambda: peak.see(private_bytes(process.pid)), _SAMPLE_SECONDS):
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ContestantFailed(f"{command[0]} ended with status {process.returncode}")
    answer = json.loads(printed)
    rows = answer["rows"] if isinstance(answer, dict) else answer
    return Call(rows, seconds, peak.value, usage.ru_inblock * _BLOCK_BYTES)
