"""Where the time of a match went, and what limits it. Imports nothing of idmatch."""

from collections.abc import Sequence
from typing import NamedTuple

# Requests that a match has in flight unless the address says fewer.
_IN_FLIGHT = 64
# Above this share of repeated requests, servers have more work than they can do.
_MANY_REPEATED = 0.05


class Timings(NamedTuple):
    """Seconds of each part of a match, and of reading its rows, so far.

    Threads work in parallel: these are their shares, which add up to the time that callers waited.
    """

    population: float
    """Reading the population."""
    waiting: float
    """Waiting for the disk, or for servers. Below 1,000 population rows, waiting for the disk
    counts as decoding or probing."""
    decoding: float
    """Decoding stored bytes, or the answers of servers, into rows."""
    probing: float
    """Sorting identifiers and searching them."""
    carrying: float
    """Storing carried columns and joining them with their matches; the work of a chain between its
    tables."""
    writing: float
    """Writing the rows: encoding and compressing them, waiting for their reader, and syncing or
    sending their file."""


class Requests(NamedTuple):
    """Requests of a match to servers. A request without an answer is an error of the match."""

    asked: int
    """Pages of rows that were asked for, each by one request."""
    answered: int
    """Pages that were answered."""
    repeated: int
    """Further attempts for these pages: retries and speculative executions."""
    partitions_asked: int
    """Partitions that were asked; a partition counts each time."""
    partitions_answered: int
    """Partitions that answered; a partition counts each time."""
    in_flight: int
    """Most requests in flight."""
    is_rate_limited: bool
    """Whether the address limits requests per second."""


def timings_of(times: Sequence[float], seconds: float, single_threaded: float = 0.0) -> Timings:
    """Splits `seconds` by the thread times. In `single_threaded` of them one thread wrote alone."""
    total = sum(times) or 1.0
    shares = Timings(*(time * (seconds - single_threaded) / total for time in times))
    return shares._replace(writing=shares.writing + single_threaded)


def verdict(timings: Timings, requests: Requests | None) -> str:
    """One sentence: which part limits the match, and what would make it faster."""
    working = {
        "decoding rows": timings.decoding,
        "probing": timings.probing,
        "carrying columns": timings.carrying,
    }
    parts = {
        "population": timings.population,
        "waiting": timings.waiting,
        "processors": sum(working.values()),
        "writing": timings.writing,
    }
    total = sum(parts.values())
    if not total:
        return "Nothing took any time."
    largest = max(parts, key=parts.__getitem__)
    share = f"{parts[largest] / total:.0%} of the time"
    if largest == "population":
        return (
            f"Reading the population takes {share}: Parquet, with larger row groups or on a faster "
            "disk, is read faster."
        )
    if largest == "processors":
        most = max(working, key=working.__getitem__)
        return (
            f"This machine's processors take {share}, most of it for {most}: more of them would "
            "make it faster."
        )
    if largest == "writing":
        return (
            f"Writing the rows takes {share}: Parquet without compression, or a faster disk or "
            "reader, would make it faster."
        )
    if requests is None:
        return (
            f"The disk takes {share}: more memory for the page cache, or a faster disk, would make "
            "it faster."
        )
    return f"Waiting for servers takes {share}: {_of_servers(requests)}."


def _of_servers(requests: Requests) -> str:
    if requests.repeated > requests.asked * _MANY_REPEATED:
        return "they repeat many requests, so more nodes or fewer clients would make it faster"
    if requests.is_rate_limited:
        return "a higher max_requests_per_second would make it faster, if they have room"
    if requests.in_flight < _IN_FLIGHT:
        return (
            f"at most {requests.in_flight} requests are in flight, so a higher in_flight would "
            "make it faster"
        )
    return "more nodes, or more processors for them, would make it faster"
