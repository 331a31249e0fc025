"""Repair from Python and from the command line."""

from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import Cli


def harm(store: Path, side: int) -> None:
    """Flips a bit of the newest segment of a side, near the end of its file."""
    segments = [
        file for file in sorted(store.glob("segments/*.seg")) if file.read_bytes()[12] == side
    ]
    whole = bytearray(segments[-1].read_bytes())
    whole[-3] ^= 0x10
    segments[-1].write_bytes(whole)


def test_one_direction_is_rebuilt_from_the_other(loaded: Cli) -> None:
    before = loaded("lookup", "store", "small", "--id", "a", "--json").json()
    harm(loaded.home / "store", side=0)
    assert loaded("verify", "store").code == 1
    (table,) = loaded("verify", "store", "--repair", "--json").json()["tables"]
    assert (table["name"], len(table["problems"]), table["lost"]) == ("small", 1, 0)
    assert loaded("verify", "store").code == 0
    assert loaded("lookup", "store", "small", "--id", "a", "--json").json() == before
    assert loaded("verify", "store", "--repair").out == "small: all is well\n"
    assert loaded("verify", "store", "--accept-loss").code == 2


def test_a_loss_has_to_be_accepted(loaded: Cli) -> None:
    for side in (0, 1):
        harm(loaded.home / "store", side)
    refused = loaded("verify", "store", "--repair")
    assert refused.code == 1
    assert "would be lost; nothing was changed" in refused.err
    accepted = loaded("verify", "store", "--repair", "--accept-loss")
    assert "rows lost" in accepted.out
    with idmatch.open(loaded.home / "store") as store:
        assert store.table("small").verify() == []
        assert store.table("small").repair() == ([], 0)


def test_a_store_that_does_not_open_is_recovered(loaded: Cli) -> None:
    before = loaded("lookup", "store", "small", "--id", "a", "--json").json()
    segment = min((loaded.home / "store").glob("segments/*.seg"))
    segment.unlink()
    assert loaded("tables", "store").code == 1
    with pytest.raises(idmatch.Error):
        idmatch.open(loaded.home / "store")
    recovered = loaded("verify", "store", "--repair", "--json").json()
    assert [found["problem"] for found in recovered["store"]] == ["the file is gone"]
    assert recovered["tables"][0]["problems"] == []
    assert loaded("lookup", "store", "small", "--id", "a", "--json").json() == before
    assert idmatch.recover(loaded.home / "store") == []


def test_damage_in_the_middle_of_the_journal(loaded: Cli) -> None:
    store = loaded.home / "store"
    for number in range(3):
        loaded("upsert", "store", "small", "--id", f"new-{number}", "--partner-id", "z")
    journals = sorted(store.glob("journal/*.log"))
    whole = bytearray(journals[0].read_bytes())
    whole[-20] ^= 1
    journals[0].write_bytes(whole)
    refused = loaded("verify", "store")
    assert refused.code == 1
    assert "journal" in refused.err
    assert "offset 88" in refused.err
    refused = loaded("verify", "store", "--repair")
    assert refused.code == 1
    assert "bytes of upserts would be lost; nothing was changed" in refused.err
    accepted = loaded("verify", "store", "--repair", "--accept-loss")
    assert (accepted.code, "could not be opened: 1 problems repaired" in accepted.out) == (0, True)
    found = [
        loaded("lookup", "store", "small", "--id", f"new-{number}", "--json").json()
        for number in range(3)
    ]
    assert [len(answer["matches"]) for answer in found] == [0, 1, 1]


def test_a_writer_elsewhere_is_respected(loaded: Cli) -> None:
    harm(loaded.home / "store", side=1)
    with idmatch.open(loaded.home / "store") as store:
        store.create_table("other").upsert(_row())
        refused = loaded("verify", "store", "--repair")
        assert (refused.code, "is writing" in refused.err) == (75, True)


def _row() -> pa.Table:
    return pa.table({"id": ["a"], "partner_id": ["x"], "seen_at": ["2026-01-01"]})
