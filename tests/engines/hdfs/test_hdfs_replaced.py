"""A folder of HDFS is replaced, as for a partition of Hive: what it had is never lost.

Hive's outputs are the only ones that replace folders.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import idmatch
import pytest
from hdfs_cluster import Folder
from idmatch import _remote_outputs
from idmatch._hdfs import Refused, TimedOut, _native

pytest_plugins = ["hdfs_cluster"]

OLD, NEW = ["part/old.csv"], ["part/_SUCCESS", "part/new.csv"]

Rename = Callable[..., None]


@pytest.fixture
def part(folder: Folder) -> Folder:
    """A folder with a folder "part", which has a file."""
    folder.put("part/old.csv", b"old")
    return folder


def replace(folder: Folder) -> None:
    """Replaces "part"."""
    with _remote_outputs.new_folder(folder.url("part"), overwrite=True) as here:
        (Path(here) / "new.csv").write_text("new")


def test_it_has_the_new_files_alone(part: Folder) -> None:
    replace(part)
    assert part.names() == NEW


def with_renames(monkeypatch: pytest.MonkeyPatch, rename: Callable[..., None]) -> None:
    """Replaces renames of clusters: the function gets the real one first."""
    real = _native.NativeCluster.rename

    def other(cluster: Any, path: str, to: str, *, overwrite: bool) -> None:
        rename(lambda: real(cluster, path, to, overwrite=overwrite), path, to)

    monkeypatch.setattr(_native.NativeCluster, "rename", other)


def puts_in_place(path: str, to: str) -> bool:
    """Whether a rename gives the new folder its name."""
    return path.endswith(".tmp") and to.endswith("/part")


def test_a_refusal_leaves_what_was_there(part: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(real: Rename, path: str, to: str) -> None:
        if puts_in_place(path, to):
            raise Refused("the quota is used up")
        real()

    with_renames(monkeypatch, rename)
    with pytest.raises(idmatch.IoError, match="the quota is used up"):
        replace(part)
    assert part.names() == OLD


def test_an_answer_that_is_lost(part: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was done: it is undone, and the error says where to look."""

    def rename(real: Rename, _: str, to: str) -> None:
        real()
        if to.endswith(".before"):
            raise TimedOut("no namenode has answered for 60 s")

    with_renames(monkeypatch, rename)
    with pytest.raises(idmatch.UnknownOutcome, match=r"part had may be at hdfs://.*\.before now"):
        replace(part)
    assert part.names() == OLD


def test_what_is_done_later(part: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[Rename] = []

    def rename(real: Rename, _: str, to: str) -> None:
        if to.endswith(".before"):
            later.append(real)
            raise TimedOut("no namenode has answered for 60 s")
        real()

    with_renames(monkeypatch, rename)
    with pytest.raises(idmatch.UnknownOutcome) as told:
        replace(part)
    assert part.names() == OLD
    later[0]()
    (name,) = part.names()
    assert part.url(name.rpartition("/")[0]) in str(told.value)


def test_an_answer_about_the_new_files_is_lost(
    part: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in place: what was there stays beside them, and the error says where."""

    def rename(real: Rename, path: str, to: str) -> None:
        real()
        if puts_in_place(path, to):
            raise TimedOut("no namenode has answered for 60 s")

    with_renames(monkeypatch, rename)
    with pytest.raises(idmatch.UnknownOutcome) as told:
        replace(part)
    before, *there = part.names()
    assert there == NEW
    assert part.url(before.rpartition("/")[0]) in str(told.value)


def test_ctrl_c_waits_for_what_was_asked(part: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing is renamed after it was put back."""
    made, is_renamed = _native._client, threading.Event()

    class Slow:
        """Asks to rename what is there half a second after Ctrl-C has come."""

        def __init__(self, client: Any) -> None:
            self._client = client

        def __getattr__(self, name: str) -> Any:
            return getattr(self._client, name)

        def rename(self, path: str, to: str, overwrite: bool) -> None:
            is_first = to.endswith(".before")
            if is_first:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.5)
            self._client.rename(path, to, overwrite)
            if is_first:
                is_renamed.set()

    monkeypatch.setattr(_native, "_client", lambda *place: Slow(made(*place)))
    with pytest.raises(KeyboardInterrupt):
        replace(part)
    assert is_renamed.is_set()
    assert part.names() == OLD
