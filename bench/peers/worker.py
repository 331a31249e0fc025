"""The process of one system: reads calls as JSON lines, makes them one at a time, answers with
JSON lines.

Started by `contestant.Contestant` as `python -m peers.worker NAME SETTING`, where SETTING is the
JSON of `peers.base.Setting`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from data import DataSet

from peers import peer_class
from peers.base import Peer, Setting


def read_setting(text: str) -> Setting:
    """The setting that `contestant.Contestant` wrote."""
    fields = json.loads(text)
    data = fields["data"]
    return Setting(
        data=DataSet(
            directory=Path(data["directory"]),
            seed=data["seed"],
            rows=data["rows"],
            rows_per_file=data["rows_per_file"],
            files=tuple(Path(file) for file in data["files"]),
            population=Path(data["population"]),
            population_rows=data["population_rows"],
        ),
        workspace=Path(fields["workspace"]),
        threads=fields["threads"],
        memory_bytes=fields["memory_bytes"],
    )


def _answer(peer: Peer, call: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        value = getattr(peer, call["call"])(**call["arguments"])
    except Exception as error:  # a system may fail in any way; the harness reports it and goes on
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
    return {"value": value, "seconds": time.perf_counter() - began}


def main() -> None:
    """Answers calls until the input ends."""
    name, setting_text = sys.argv[1:]
    answers = _keep_stdout_for_answers()
    setting = read_setting(setting_text)
    # The same processors for everyone: a system cannot use more than its share by starting more
    # threads.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: setting.threads])
    peer: Peer | None = None
    for line in sys.stdin:
        call = json.loads(line)
        try:
            peer = peer or peer_class(name)(setting)
        except Exception as error:
            answer = {"error": f"cannot be started: {type(error).__name__}: {error}"}
        else:
            answer = _answer(peer, call)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _keep_stdout_for_answers() -> TextIO:
    """Moves standard output aside, so that what a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
