"""`idmatch lab up --with monitoring`: a Prometheus that knows the rules, beside exporters."""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Cli
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


def test_without_prometheus_it_says_what_to_install(
    cli: Cli, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    refused = cli("lab", "up", "--nodes", "0", "--with", "monitoring", "--dir", lab)
    assert refused.code == 1
    assert "apt-get install prometheus" in refused.err
