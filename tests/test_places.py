"""What the tasks of a job open: each store once in a process."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import idmatch
import pytest
from idmatch import _places

THREADS = 8


def test_threads_open_a_store_once(
    table: idmatch.Table, store: idmatch.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = []
    barrier = threading.Barrier(THREADS)

    def counted(*arguments: Any, **named: Any) -> idmatch.Store:
        opens.append(threading.get_ident())
        # Others would come here meanwhile.
        time.sleep(0.05)
        return idmatch.open(*arguments, **named)

    def ask(place: _places.Place) -> idmatch.Store:
        barrier.wait()
        return _places.opened(place)

    monkeypatch.setattr(_places, "open_store", counted)
    place = _places.place_of(store)
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask, [place] * THREADS))
    assert len(opens) == 1
    assert all(one is found[0] for one in found)
    assert found[0].table("small").latest_partner_id("a") == table.latest_partner_id("a")


def test_another_store_is_not_taken_for_a_version(
    table: idmatch.Table, store: idmatch.Store
) -> None:
    """Also by a process that has the version open."""
    with _places.one_version(store, "24h") as (frozen, place):
        assert _places.opened(place).tables() == frozen.tables()
    other = place._replace(version="0" * 32 + (place.version or "")[32:])
    for wrong in (other, place._replace(address=store.path)):
        with pytest.raises(idmatch.Expired, match="another store is in its place"):
            _places.opened(wrong)
    assert _places.opened(place).tables() == ["small"]
