"""`idmatch lab up --with monitoring`: a Prometheus that knows the rules, beside exporters."""

import json
import os
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from causes import until
from conftest import Cli
from idmatch._lab import _prometheus
from idmatch._watch._exporter import StoreFigures
from idmatch._watch._server import Listen, serving
from prometheus_server import TOOLS

_NETWORK = "127.73.78"


@pytest.fixture
def lab(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a lab with Prometheus alone, which is gone when the test ends."""
    monkeypatch.setenv("PATH", f"{TOOLS}:{os.environ['PATH']}")
    folder = cli.home / "lab"
    try:
        yield folder
    finally:
        assert cli("lab", "down", "--delete", "--dir", folder).code == 0
        assert not (folder / "monitoring").exists()


def test_prometheus_is_started_with_the_rules(cli: Cli, lab: Path) -> None:
    up = ("lab", "up", "--nodes", "0", "--with", "monitoring", "--network", _NETWORK)
    shown = cli(*up, "--dir", lab, "--json")
    assert shown.code == 0, shown.err
    (daemon,) = shown.json()["services"]["monitoring"]["daemons"]
    assert (daemon["name"], daemon["state"]) == ("prometheus", "up")
    with urllib.request.urlopen(f"{daemon['address']}/api/v1/rules") as answer:
        groups = json.load(answer)["data"]["groups"]
    assert {"IdmatchNodeDown", "idmatch:match_rate:ratio"} <= {
        rule["name"] for group in groups for rule in group["rules"]
    }
    # It is found again, and what was configured stays.
    config = lab / "monitoring" / "prometheus.yml"
    config.write_text(config.read_text() + "\n# Mine.\n")
    again = cli(*up, "--dir", lab, "--json").json()["services"]["monitoring"]["daemons"]
    assert again[0]["pid"] == daemon["pid"]
    assert config.read_text().endswith("# Mine.\n")


def test_only_exporters_that_answer_are_scraped(
    loaded: Cli, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(_prometheus, "PORTS", {})
    prometheus = _prometheus.Prometheus(lab / "monitoring", told.append, _NETWORK)

    def targets() -> list[tuple[str, str, str]]:
        with urllib.request.urlopen(f"{prometheus.address}/api/v1/targets") as answer:
            active = json.load(answer)["data"]["activeTargets"]
        return [(one["labels"]["job"], one["scrapeUrl"], one["health"]) for one in active]

    try:
        prometheus.start()
        assert "no exporter answers" in told[0]
        assert targets() == []
        figures = StoreFigures(str(loaded.home / "store"))
        with serving(figures, Listen("127.0.0.1", 0)) as place, socket.socket() as nobody:
            # Bound, and not listening.
            nobody.bind(("127.0.0.1", 0))
            ports = {"idmatch": place.port, "idmatch-cluster": nobody.getsockname()[1]}
            monkeypatch.setattr(_prometheus, "PORTS", ports)
            # A running one finds it.
            prometheus.start()
            expected = [("idmatch", f"http://{place}/metrics", "up")]
            until(lambda: targets() == expected, lambda: time.sleep(0.5), targets)
    finally:
        prometheus.stop()


def test_without_prometheus_it_says_what_to_install(
    cli: Cli, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    refused = cli("lab", "up", "--nodes", "0", "--with", "monitoring", "--dir", lab)
    assert refused.code == 1
    assert "apt-get install prometheus" in refused.err
