"""People and their cookies, the partners' sightings of these cookies, and the donors.

All values follow from a seed and a person's number, so chunks of people can have any size. A
person is a number from 0. The key of a cookie, a pair or an observation contains the key of its
owner (see `numbered`). Times are milliseconds since 1970.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ._draws import Counts, Numbers, ages, chance, draw, heavy_tailed, numbered
from ._ids import PARTNER_KINDS, Ids, MakeIds, email, hex32

REFERENCE_MILLIS = 1_767_225_600_000
"""2026-01-01T00:00:00Z: all dates are earlier."""

_MOST_COOKIES = 1000
_MOST_IDS = 16
_MOST_DATES = 4
_STRANGER = np.uint64(1 << 39)
_NAMELESS_COOKIE = np.uint64(1 << 50)
_SHARED_ID = np.uint64(1 << 60)
_SHARED_IDS = 10


@dataclass(frozen=True)
class People:
    """A range of people: their cookies, in the CRM or not, and the donor population."""

    seed: int
    start: int
    stop: int

    @cached_property
    def persons(self) -> Numbers:
        return np.arange(self.start, self.stop, dtype=np.uint64)

    @cached_property
    def cookie_counts(self) -> Counts:
        """The number of CRM cookies of each person: heavy-tailed, 1.6 on average."""
        return heavy_tailed(self.seed, "cookies", self.persons, power=2, most=_MOST_COOKIES)

    @cached_property
    def cookies(self) -> Numbers:
        """The cookies of all persons, in the order of the persons."""
        return numbered(self.persons, self.cookie_counts, _MOST_COOKIES)[0]

    @cached_property
    def nameless_cookies(self) -> Numbers:
        """Cookies that the CRM does not have: about one for every two persons."""
        return self.persons[chance(self.seed, "nameless", self.persons, 50)] + _NAMELESS_COOKIE

    @cached_property
    def donations(self) -> Counts:
        """How often each person is in the donor population: 0, 1 or, rarely, 2 times."""
        donor = chance(self.seed, "donor", self.persons, 30)
        twice = chance(self.seed, "named twice", self.persons, 1)
        return donor * (1 + twice.astype(np.int64))

    def cookie_donations(self, cookies: Numbers) -> Counts:
        """How often each cookie's owner is in the donor population; 0 for nameless cookies."""
        named = cookies < _NAMELESS_COOKIE
        owners = np.where(named, cookies // np.uint64(_MOST_COOKIES), self.persons[0])
        donations: Counts = self.donations[owners - self.persons[0]] * named
        return donations

    def donors(self) -> pa.Table:
        """The donor population: email. 60 % of it is in the CRM."""
        strangers = self.persons[chance(self.seed, "stranger", self.persons, 20)] + _STRANGER
        named = np.concatenate([np.repeat(self.persons, self.donations), strangers])
        return pa.table({"email": email(self.seed, "email", named)})

    def crm(self) -> pa.Table:
        """The CRM: email, cookie, seen_at."""
        return pa.table(
            {
                "email": email(self.seed, "email", np.repeat(self.persons, self.cookie_counts)),
                "cookie": cookie_ids(self.seed, self.cookies),
                "seen_at": timestamps(_dates(self.seed, "crm", self.cookies)),
            }
        )


@dataclass(frozen=True)
class Partner:
    """An advertising partner: the format of its IDs, and its share of the cookies."""

    seed: int
    number: int

    @property
    def name(self) -> str:
        return f"partner{self.number}"

    @property
    def kind(self) -> str:
        """The format of its IDs: a key of `PARTNER_KINDS`."""
        return list(PARTNER_KINDS)[(self.number - 1) % len(PARTNER_KINDS)]

    @property
    def coverage_percent(self) -> int:
        """Its share of the cookies: 70 %, 55 %, 40 % or 25 %; partners take these in turn."""
        return 70 - 15 * ((self.number - 1) % 4)

    def sightings(self, people: People) -> "Sightings":
        """Its pairs and observations of some people's cookies."""
        cookies = np.concatenate([people.cookies, people.nameless_cookies])
        known = cookies[chance(self.seed, self.name, cookies, self.coverage_percent)]
        counts = heavy_tailed(self.seed, f"{self.name} ids", known, power=3, most=_MOST_IDS)
        pairs, first_pairs = numbered(known, counts, _MOST_IDS)
        counts = heavy_tailed(self.seed, f"{self.name} dates", pairs, power=2, most=_MOST_DATES)
        observations, first_observations = numbered(pairs, counts, _MOST_DATES)
        dates = _dates(self.seed, f"{self.name} date", observations)
        return Sightings(self, known, pairs, first_pairs, observations, first_observations, dates)

    def ids(self, pairs: Numbers) -> Ids:
        """Its ID in each pair. One cookie in 200 has an ID that many other cookies share."""
        make: MakeIds = PARTNER_KINDS[self.kind]
        return make(self.seed, f"{self.name} id", self.id_keys(pairs))

    def id_keys(self, pairs: Numbers) -> Numbers:
        """A number for its ID in each pair: `shared_id(n)` for shared ones."""
        drawn = draw(self.seed, f"{self.name} shared", pairs)
        shared = (pairs % np.uint64(_MOST_IDS) == 0) & (drawn % np.uint64(200) == 0)
        return np.where(shared, shared_id(drawn >> np.uint64(32)), pairs)

    def shared_id_text(self, n: int) -> str:
        """One of the IDs that many cookies share."""
        make: MakeIds = PARTNER_KINDS[self.kind]
        ids = make(self.seed, f"{self.name} id", shared_id(np.array([n], np.uint64)))
        return str(ids[0])


@dataclass(frozen=True)
class Sightings:
    """Pairs of a cookie and a partner ID, each with one or more dates."""

    partner: Partner
    cookies: Numbers
    pairs: Numbers
    first_pairs: Counts
    """The index of each cookie's first pair."""
    observations: Numbers
    first_observations: Counts
    """The index of each pair's first observation."""
    dates: NDArray[np.int64]
    """The date of each observation."""

    @cached_property
    def newest(self) -> NDArray[np.int64]:
        """The newest date of each pair."""
        return np.maximum.reduceat(self.dates, self.first_observations)

    def table(self) -> pa.Table:
        """The match table: cookie, partner_id, seen_at; one row for each observation."""
        pairs = self.observations // np.uint64(_MOST_DATES)
        return pa.table(
            {
                "cookie": cookie_ids(self.partner.seed, pairs // np.uint64(_MOST_IDS)),
                "partner_id": self.partner.ids(pairs),
                "seen_at": timestamps(self.dates),
            }
        )


def cookies_of(pairs: Numbers) -> Numbers:
    """The cookie of each pair."""
    return pairs // np.uint64(_MOST_IDS)


def cookie_ids(seed: int, cookies: Numbers) -> Ids:
    """The company's cookies as text: 32 hexadecimal digits."""
    return hex32(seed, "cookie", cookies)


def shared_id(numbers: Numbers) -> Numbers:
    """The keys of shared partner IDs."""
    return numbers % np.uint64(_SHARED_IDS) + _SHARED_ID


def timestamps(dates: NDArray[np.int64]) -> Any:
    """Milliseconds as an Arrow column."""
    return pa.array(dates).cast(pa.timestamp("ms", "UTC"))


def _dates(seed: int, purpose: str, keys: Numbers) -> NDArray[np.int64]:
    return REFERENCE_MILLIS - ages(seed, f"{purpose}, date", keys).astype(np.int64)
