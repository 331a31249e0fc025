"""Sizes as people write them."""

import idmatch
import pytest
from idmatch._core import parse_size
from idmatch._sizes import show_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("200000", 200_000),
        ("1M", 10**6),
        ("1.5G", 1_500_000_000),
        ("2Gi", 2**31),
        ("3 k", 3000),
        ("1e6", 10**6),
    ],
)
def test_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1X", "M", "1.5.0M", "20E", "99999999999999999999"])
def test_refused(text: str) -> None:
    with pytest.raises(idmatch.InvalidArgument, match=r"1\.5G"):
        parse_size(text)


@pytest.mark.parametrize("text", ["1.5", "1.2B", "0.1Ki", "5e-1"])
def test_a_fraction_of_a_byte_is_refused(text: str) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="a size is a whole number of bytes"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (999, "999"), (1000, "1k"), (1_234_567, "1.23M"), (22 * 10**9, "22G")],
)
def test_shown(size: int, text: str) -> None:
    assert show_size(size) == text
