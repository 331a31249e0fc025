"""`idmatch dashboard`: one page with what a Prometheus knows."""

import http.server
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli
from idmatch._watch._panels import DASHBOARDS


class _Told(http.server.BaseHTTPRequestHandler):
    """A Prometheus that gives the same three series to each question."""

    asked: list[dict[str, list[str]]] = []  # noqa: RUF012 - of the class, as the server makes handlers

    def do_GET(self) -> None:
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        self.asked.append(asked)
        times = range(int(asked["start"][0]), int(asked["end"][0]) + 1, int(asked["step"][0]))
        labels = {"table": "</script><b>crm", "instance": "a", "node": "n", "call": "lookup"}
        result = [
            {"metric": labels, "values": [[at, str(n)] for n, at in enumerate(times)]},
            {"metric": {**labels, "table": "none"}, "values": [[times[0], "NaN"]]},
            {"metric": {**labels, "table": "quiet"}, "values": [[at, "0"] for at in times]},
        ]
        body = json.dumps({"status": "success", "data": {"result": result}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    """Where one answers."""
    _Told.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Told)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def data_of(file: Path) -> Any:
    """What the page shows."""
    text = file.read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_a_page_has_all_values(cli: Cli, url: str) -> None:
    done = cli("dashboard", url, "-o", "page.html", "--since", "2h", "--json")
    assert done.json() == {"page": "page.html"}
    data = data_of(cli.home / "page.html")
    times = data["times"]
    assert times[-1] - times[0] == 7200
    assert time.time() - times[-1] < 600
    assert [board["name"] for board in data["boards"]] == [board.name for board in DASHBOARDS]
    for board, shown in zip(DASHBOARDS, data["boards"], strict=True):
        assert [panel["title"] for panel in shown["panels"]] == [p.title for p in board.panels]
        for panel, of_page in zip(board.panels, shown["panels"], strict=True):
            # NaN is no value, and 0 hides others.
            assert len(of_page["series"]) == len(panel.queries)
            assert of_page["series"][0]["values"] == list(range(len(times)))
    asked = [one["query"][0] for one in _Told.asked]
    assert not any("$" in query for query in asked)


def test_labels_are_text(cli: Cli, url: str) -> None:
    assert cli("dashboard", url, "-o", "page.html").code == 0
    assert "</script><b>" not in (cli.home / "page.html").read_text()
    legends = {
        one["legend"]
        for board in data_of(cli.home / "page.html")["boards"]
        for panel in board["panels"]
        for one in panel["series"]
    }
    assert "</script><b>crm" in legends


def test_a_page_asks_nobody(cli: Cli, url: str) -> None:
    assert cli("dashboard", url, "-o", "page.html").code == 0
    text = (cli.home / "page.html").read_text()
    assert "default-src 'none'" in text
    assert re.findall(r"<(?:link|img|script src|iframe)", text) == []


def test_wrong_arguments(cli: Cli, url: str) -> None:
    assert cli("dashboard", url, "-o", "page.html").code == 0
    assert cli("dashboard", url, "-o", "page.html").code == 2
    assert cli("dashboard", url, "-o", "page.html", "--overwrite").code == 0
    assert cli("dashboard", "here", "-o", "other.html").code == 2
    assert cli("dashboard", url, "-o", "other.html", "--since", "1s").code == 2
    refused = cli("dashboard", "http://127.0.0.1:1", "-o", "other.html")
    assert refused.code == 1
    assert "does not answer" in refused.err
    assert not (cli.home / "other.html").exists()
