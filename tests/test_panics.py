"""A panic of this library, or of one below it, is an `idmatch.Internal` that says where."""

import ctypes
from datetime import UTC, datetime
from typing import Any

import idmatch
import pyarrow as pa
import pytest
from idmatch import _core

_CALLBACKS = 5
"""Of the C struct ArrowArrayStream: get_schema, get_next, get_last_error, release, private_data."""
_GET_NEXT = 1

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

ROWS = pa.table(
    {"id": ["m4rk"], "partner_id": ["p"], "seen_at": [datetime(2026, 1, 2, tzinfo=UTC)]}
)


class WithoutNext:
    """A stream whose callback for batches is missing, which the Arrow library asserts it is not."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        self.stream = (ctypes.c_void_p * _CALLBACKS)()
        ROWS.to_reader()._export_to_c(ctypes.addressof(self.stream))
        self.stream[_GET_NEXT] = None
        return _new_capsule(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def load(table: _core.Table) -> None:
    session = _core.begin(table, False, None, ["made up"], "locked")
    try:
        session.add(
            [("made up", WithoutNext())], False, lambda _: None, (None, None), lambda: 0, None
        )
    finally:
        session.abort()


def upsert(table: _core.Table) -> None:
    table.upsert([("made up", WithoutNext())], False, lambda _: None, True, True, (None, None))


@pytest.mark.parametrize("write", [load, upsert])
def test_a_panic_is_an_error_that_says_where(
    store: idmatch.Store, write: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    table = store.create_table("t")
    table.load(ROWS)
    with pytest.raises(
        idmatch.Internal, match=r"failed at .*arrow-array.*\.rs:\d+; .*idmatch verify"
    ) as panic:
        write(table._core)
    assert isinstance(panic.value, idmatch.Error)
    assert panic.value.code == "internal"
    assert "m4rk" not in str(panic.value)
    assert capfd.readouterr() == ("", "")
    # Locks are free, and what was acknowledged is stored.
    table.upsert(pa.table(ROWS.to_pydict() | {"id": ["other"]}))
    assert [len(table.lookup(key)) for key in ("m4rk", "other")] == [1, 1]
    assert table.verify() == []


def test_a_panic_is_logged(store: idmatch.Store, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(idmatch.Internal):
        load(store.create_table("t")._core)
    _core.flush_logs()
    # Each thread of the load may meet it.
    panics = {(record.name, record.levelname, record.message) for record in caplog.records}
    [(logger, level, text)] = panics
    assert (logger, level) == ("idmatch.engine", "ERROR")
    assert text.startswith("a panic")
    assert "arrow-array" in text
