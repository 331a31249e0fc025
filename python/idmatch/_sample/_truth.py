"""The exact answers about a sample, computed from the numbers that it is made of.

Must not read the files or use a store. The answers are for tables with `keep="last"`: a window
tests the newest date of a pair.
"""

from collections import Counter
from typing import Any

import numpy as np

from idmatch._core import format_instant

from ._draws import DAY_MILLIS, Numbers
from ._world import (
    REFERENCE_MILLIS,
    Partner,
    People,
    Sightings,
    cookie_ids,
    cookies_of,
    shared_id,
)

WINDOWS: dict[str, tuple[int | None, int | None]] = {
    "all": (None, None),
    "last 30 days": (REFERENCE_MILLIS - 30 * DAY_MILLIS, None),
    "last 90 days": (REFERENCE_MILLIS - 90 * DAY_MILLIS, None),
    "90 to 180 days ago": (
        REFERENCE_MILLIS - 180 * DAY_MILLIS,
        REFERENCE_MILLIS - 90 * DAY_MILLIS,
    ),
}
"""The windows with exact answers: since (inclusive) and until (exclusive)."""

_NEWEST_SHOWN = 10


def windows_as_text() -> dict[str, dict[str, str | None]]:
    """The windows as ISO 8601."""
    return {
        name: {"since": _text_or_none(since), "until": _text_or_none(until)}
        for name, (since, until) in WINDOWS.items()
    }


class CrmTruth:
    """Counts of matching the donors with the CRM, which gives their cookies."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, people: People, population: int) -> None:
        """Adds a chunk of people with `population` donor rows."""
        self._counts["population"] += population
        self._counts["matched"] += int(people.donations.sum())
        self._counts["rows"] += int((people.donations * people.cookie_counts).sum())

    def answers(self) -> dict[str, int]:
        """population, matched and rows."""
        return {name: self._counts[name] for name in ("population", "matched", "rows")}


class PartnerTruth:
    """Counts of matching the donors' cookies with a partner's table, and answers of two lookups."""

    def __init__(self, partner: Partner) -> None:
        self._partner = partner
        self._pairs = self._observations = self._population = 0
        self._matched: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._busiest: dict[str, Any] | None = None
        self._shared_count = 0
        self._shared_newest: list[tuple[int, str]] = []

    def add(self, people: People, seen: Sightings) -> None:
        """Adds a chunk of people and the partner's sightings of them."""
        self._pairs += len(seen.pairs)
        self._observations += len(seen.observations)
        self._population += int((people.donations * people.cookie_counts).sum())
        weights = people.cookie_donations(seen.cookies)
        pair_weights = people.cookie_donations(cookies_of(seen.pairs))
        for name, (since, until) in WINDOWS.items():
            inside = np.ones(len(seen.pairs), bool)
            if since is not None:
                inside &= seen.newest >= since
            if until is not None:
                inside &= seen.newest < until
            self._rows[name] += int((pair_weights * inside).sum())
            any_inside = np.logical_or.reduceat(inside, seen.first_pairs)
            self._matched[name] += int((weights * any_inside).sum())
        self._note_lookups(seen)

    def answers(self) -> dict[str, Any]:
        """All counts and lookups, for `truth.json`."""
        newest = [
            {"id": cookie, "seen_at": format_instant(-age)} for age, cookie in self._shared_newest
        ]
        return {
            "kind": self._partner.kind,
            "observations": self._observations,
            "pairs": self._pairs,
            "windows": {
                name: {
                    "population": self._population,
                    "matched": self._matched[name],
                    "rows": self._rows[name],
                }
                for name in WINDOWS
            },
            "lookups": {
                "id": self._busiest,
                "partner_id": {
                    "partner_id": self._partner.shared_id_text(0),
                    "count": self._shared_count,
                    "newest_ids": newest,
                },
            },
        }

    def _note_lookups(self, seen: Sightings) -> None:
        if self._busiest is None and len(seen.pairs):
            counts = np.diff(seen.first_pairs, append=len(seen.pairs))
            at = int(counts.argmax())
            start = int(seen.first_pairs[at])
            pairs = slice(start, start + int(counts[at]))
            ids: list[Any] = self._partner.ids(seen.pairs[pairs]).to_pylist()
            dated = sorted(zip((-seen.newest[pairs]).tolist(), ids, strict=True))
            self._busiest = {
                "id": self._cookies(seen.cookies[at : at + 1])[0],
                "partner_ids": [
                    {"partner_id": value, "seen_at": format_instant(-age)} for age, value in dated
                ],
            }
        first_shared = shared_id(np.zeros(1, np.uint64))[0]
        sharing = np.flatnonzero(self._partner.id_keys(seen.pairs) == first_shared)
        self._shared_count += len(sharing)
        cookies = self._cookies(cookies_of(seen.pairs[sharing]))
        dated = sorted(zip((-seen.newest[sharing]).tolist(), cookies, strict=True))
        self._shared_newest = sorted(self._shared_newest + dated)[:_NEWEST_SHOWN]

    def _cookies(self, cookies: Numbers) -> list[Any]:
        return list(cookie_ids(self._partner.seed, cookies).to_pylist())


def _text_or_none(millis: int | None) -> str | None:
    return None if millis is None else format_instant(millis)
