"""An object store, for the tests that name this as their plugin."""

from collections.abc import Iterator

import pytest
import s3 as servers
from s3 import S3


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with servers.served() as served:
        yield served


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A server with an empty bucket, which the environment names."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    # The user's own profiles stay out of it.
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    server.clear()
    yield server
    server.clear()
