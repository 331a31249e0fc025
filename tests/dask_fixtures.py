"""Schedulers of Dask, and a table, for the tests that name this as their plugin."""

from collections.abc import Iterator

import dask
import idmatch
import idmatch.dask
import pytest
from dask_jobs import OBSERVED
from distributed import Client, LocalCluster

# Each test of processes starts its own, which import all there is.
SCHEDULERS = ["threads", pytest.param("processes", marks=pytest.mark.slow), "distributed"]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two worker processes, each with a nanny, which starts it again when it dies."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=SCHEDULERS)
def scheduler(request: pytest.FixtureRequest) -> Iterator[None]:
    """All that is computed meanwhile is computed there."""
    if request.param == "distributed":
        with request.getfixturevalue("client").as_current():
            yield
    else:
        with dask.config.set(scheduler=request.param, num_workers=2):
            yield


@pytest.fixture
def on_threads() -> Iterator[None]:
    """Tasks run in this process."""
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture
def observed(store: idmatch.Store) -> idmatch.Table:
    """A table of OBSERVED."""
    made = store.create_table("t")
    made.load(OBSERVED)
    return made
