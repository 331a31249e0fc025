"""A cluster of HDFS for tests: two namenodes, three datanodes, two copies of each file.

Test modules name it in `pytest_plugins`. What is there is looked at by WebHDFS, without idmatch.
"""

import re
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
from idmatch._lab import Hdfs

NETWORK = "127.73.70"


class Folder:
    """A folder of the cluster, for one test."""

    def __init__(self, cluster: Hdfs, path: str) -> None:
        self.cluster = cluster
        self.path = path
        self.files.makedirs(path)

    def url(self, name: str = "", place: str = "") -> str:
        """The address of a file of it, at the name service or at another place."""
        return f"{place or self.cluster.address}{self.path}/{name}".rstrip("/")

    @property
    def web(self) -> str:
        """The active namenode's address for WebHDFS."""
        return self.cluster.web_address(self.cluster.active or 1)

    @property
    def files(self) -> Any:
        """The cluster as fsspec shows it."""
        host, port = self.web.removeprefix("webhdfs://").split(":")
        return fsspec.filesystem(
            "webhdfs", host=host, port=int(port), user="root", skip_instance_cache=True
        )

    def put(self, name: str, data: bytes) -> None:
        """Makes a file."""
        with self.files.open(f"{self.path}/{name}", "wb") as file:
            file.write(data)

    def get(self, name: str) -> bytes:
        """What is in a file."""
        return bytes(self.files.cat(f"{self.path}/{name}"))

    def names(self) -> list[str]:
        """All files below, whoever made them."""
        return [name.removeprefix(f"{self.path}/") for name in self.files.find(self.path)]


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """The cluster, which HADOOP_CONF_DIR names."""
    cluster = Hdfs(tmp_path_factory.mktemp("hdfs"), network=NETWORK)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        patch.delenv("HADOOP_USER_NAME", raising=False)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture
def folder(hdfs: Hdfs, request: pytest.FixtureRequest) -> Folder:
    """A new folder."""
    return Folder(hdfs, "/tests/" + re.sub(r"\W+", "-", request.node.nodeid))
