"""The check of the live write benchmark finds what is wrong: stores in memory, one right and others
each with a fault.

.venv/bin/pytest bench/live_peers
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from threading import Thread

import pytest

from live_peers.base import Batch, Client, Found
from live_peers.check import Acknowledged, Model, WrongAnswer
from live_peers.grouping import GroupCommit
from live_peers.rows import Rows

_ROWS = Rows(seed=7, fill=20_000)
_WRITTEN = [
    Acknowledged(0, 0, 5000),
    Acknowledged(0, 1, 3000),
    Acknowledged(1, 0, 70),
    Acknowledged(1, 1, 0),
]
_KEYS = 1000


class Dictionary(Client):
    """A right store."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, int]] = defaultdict(dict)
        self._by_partner_id: dict[str, dict[str, int]] = defaultdict(dict)

    def upsert(self, batch: Batch) -> None:
        for row in zip(batch.ids, batch.partner_ids, batch.seen_at, strict=True):
            self._add(*row)

    def _add(self, one: str, other: str, date: int) -> None:
        newest = self._newest(self._by_id[one].get(other, 0), date)
        self._by_id[one][other] = newest
        self._by_partner_id[other][one] = newest

    def _newest(self, before: int, date: int) -> int:
        return max(before, date)

    def partner_ids(self, key: str) -> Found:
        return _newest_first(self._by_id.get(key, {}))

    def ids(self, key: str) -> Found:
        return _newest_first(self._by_partner_id.get(key, {}))


class LastWriteWins(Dictionary):
    """An older date overwrites a newer one."""

    def _newest(self, before: int, date: int) -> int:
        return date


class FirstWriteWins(Dictionary):
    """A newer date is not taken."""

    def _newest(self, before: int, date: int) -> int:
        return before or date


class Lossy(Dictionary):
    """Every hundredth row is acknowledged and not kept."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def _add(self, one: str, other: str, date: int) -> None:
        self._count += 1
        if self._count % 100:
            super()._add(one, other, date)


class OneWay(Dictionary):
    """Every hundredth row is in one direction only."""

    def _add(self, one: str, other: str, date: int) -> None:
        super()._add(one, other, date)
        if other.endswith("00"):
            del self._by_partner_id[other][one]


class OldestFirst(Dictionary):
    """Answers come in the wrong order."""

    def partner_ids(self, key: str) -> Found:
        return super().partner_ids(key)[::-1]


def test_a_right_store_passes() -> None:
    figures = _checked(Dictionary())
    assert figures["ids"] > _KEYS * 0.9
    assert figures["pairs"] > 2 * figures["ids"]


@pytest.mark.parametrize("fault", [LastWriteWins, FirstWriteWins, Lossy, OneWay, OldestFirst])
def test_each_fault_is_found(fault: type[Dictionary]) -> None:
    with pytest.raises(WrongAnswer):
        _checked(fault())


def test_rows_that_were_not_written_are_missed() -> None:
    with pytest.raises(WrongAnswer):
        _checked(Dictionary(), expected=[Acknowledged(0, 0, 6000)])


def test_rows_depend_on_their_number_alone() -> None:
    whole, part = _ROWS.written(0, 3, 0, 100).batch(), _ROWS.written(0, 3, 40, 60).batch()
    assert part == Batch(whole.ids[40:60], whole.partner_ids[40:60], whole.seen_at[40:60])
    assert part != _ROWS.written(0, 4, 40, 60).batch()
    assert {len(text) for text in whole.ids} == {32}
    assert {len(text) for text in whole.partner_ids} == {19}


def test_batches_of_a_group_are_written_once() -> None:
    seen: list[str] = []
    group = GroupCommit(lambda batches: seen.extend(batch.ids[0] for batch in batches))

    def write(writer: int) -> None:
        for number in range(200):
            group.upsert(Batch([f"{writer} {number}"], [""], [0]))

    _together([partial(write, writer) for writer in range(8)])
    assert sorted(seen) == sorted(
        f"{writer} {number}" for writer in range(8) for number in range(200)
    )


def test_every_writer_of_a_group_hears_of_an_error() -> None:
    def fail(batches: list[Batch]) -> None:
        raise OSError("disk full")

    group = GroupCommit(fail)
    heard: list[OSError] = []

    def write() -> None:
        try:
            group.upsert(Batch(["a"], ["b"], [0]))
        except OSError as error:
            heard.append(error)

    _together([write] * 8)
    assert len(heard) == 8


def _checked(client: Client, expected: list[Acknowledged] = _WRITTEN) -> dict[str, int]:
    for chunk in _ROWS.chunks():
        client.upsert(chunk)
    for part in _WRITTEN:
        client.upsert(_ROWS.written(part.phase, part.writer, 0, part.rows).batch())
    model = Model(_ROWS, expected, _KEYS)
    model.write_older(client)
    return model.compare(client)


def _newest_first(dates: dict[str, int]) -> Found:
    return sorted(dates.items(), key=lambda pair: pair[1], reverse=True)


def _together(jobs: list[Callable[[], None]]) -> None:
    threads = [Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
