"""A Cassandra node for the tests of one file: the one that all tests share, or one started here."""

import os
import re
from collections.abc import Iterator

import pytest
from hidden import HIDDEN

NETWORK = "127.73.22"
ADDRESS = f"{NETWORK}.1"
HEAP = 1 << 29
OPTIONS = "replication=1&metadata_ttl=50ms"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running node: the one that all tests share, or one started here."""
    if shared := os.environ.get("IDMATCH_TEST_CQL"):
        yield shared
        return
    if "psutil" in HIDDEN:
        pytest.skip("a node of its own needs psutil, which is hidden")
    from idmatch._lab import Lab
    from with_lab import FOR_TESTS

    lab = Lab(tmp_path_factory.mktemp("lab"), jvm_options=FOR_TESTS)
    try:
        lab.up(1, HEAP, NETWORK)
        yield ADDRESS
    finally:
        lab.down(delete=True)


@pytest.fixture
def address(node: str, request: pytest.FixtureRequest) -> str:
    """The address of a store in a keyspace of the test's own."""
    keyspace = re.sub(r"\W+", "_", request.node.name.lower())[:48].rstrip("_")
    return f"cql://{node}/{keyspace}?{OPTIONS}"
