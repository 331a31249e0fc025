"""Rules, alerts and panels against a real Prometheus.

It scrapes a store and a cluster under load.
"""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from browser import DARK, chromium
from causes import flush_soon, until
from conftest import NOON, Cli, observations
from idmatch._runs import Recorder
from idmatch._watch._cluster import ClusterFigures
from idmatch._watch._exporter import StoreFigures
from idmatch._watch._panels import DASHBOARDS, Panel
from idmatch._watch._process import ProcessFigures
from idmatch._watch._server import Listen, serving
from prometheus_client.registry import Collector
from prometheus_server import MONITORING, TOOLS, Prometheus
from test_html import data_of

_HERE = Path(__file__).parent
_ANY = Listen("127.0.0.1", 0)
_PICTURES = os.environ.get("IDMATCH_TEST_PICTURES")
# The page shows so much of the past.
_SHOWN_SECONDS = 300
# What a query is asked for in place of Grafana's.
_RATE = "30s"


def promtool(*arguments: object) -> None:
    """Runs it; what it says of an error is the test's error."""
    done = subprocess.run(
        [TOOLS / "promtool", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_is_valid() -> None:
    promtool("check", "config", MONITORING / "prometheus.yml")


def test_each_alert_is_silent_and_fires() -> None:
    promtool("test", "rules", MONITORING / "tests" / "alerts.yml")


def test_each_alert_has_a_test() -> None:
    alerts = re.findall(r"- alert: (\w+)", (MONITORING / "rules" / "alerts.yml").read_text())
    tested = set(re.findall(r"alertname: (\w+)", (MONITORING / "tests" / "alerts.yml").read_text()))
    assert set(alerts) == tested
    assert len(alerts) == len(set(alerts)) > 10


class _Scylla(http.server.BaseHTTPRequestHandler):
    """A node of ScyllaDB, as far as its figures go."""

    def do_GET(self) -> None:
        text = (_HERE / "scylla.txt").read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def work(table: idmatch.Table, number: int) -> None:
    """A bit of each kind of call."""
    rows = observations(*((f"id{n}", f"p{number}-{n}", NOON) for n in range(50)))
    table.upsert(rows)
    table.match(pa.table({"id": [f"id{n}" for n in range(100)]})).to_arrow()
    for n in range(50):
        table.lookup(f"id{n}")
    with pytest.raises(idmatch.InvalidArgument):
        table.lookup("")


@pytest.fixture(scope="module")
def prometheus(node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that scrapes, for a while, a store and a cluster under load."""
    home = tmp_path_factory.mktemp("prometheus")
    # As many copies as there are nodes.
    address = f"cql://{node}/monitored?replication={len(node.split(','))}"
    os.environ["XDG_STATE_HOME"] = str(home / "state")
    with ExitStack() as open_ones:
        store = open_ones.enter_context(idmatch.open(home / "store", record=True))
        table = store.create_table("crm")
        table.load(observations(*((f"id{n}", f"p{n}", NOON) for n in range(1000))))
        servers = open_ones.enter_context(idmatch.open(address))
        remote = servers.create_table("crm", expected_rows=10_000)
        # Caches are asked for what is in SSTables.
        flush_soon(address)
        with Recorder(str(home / "store"), False).run("load", "crm") as run:
            run.rows, run.rejected = 100, 1
        scylla = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Scylla)
        threading.Thread(target=scylla.serve_forever, daemon=True).start()
        open_ones.callback(scylla.shutdown)
        served: dict[str, list[Collector]] = {
            "idmatch": [StoreFigures(str(home / "store"))],
            "idmatch-cluster": [ClusterFigures(address)],
            "idmatch-process": [ProcessFigures(store), ProcessFigures(servers)],
        }
        targets = {
            job: [str(open_ones.enter_context(serving(one, _ANY))) for one in collectors]
            for job, collectors in served.items()
        }
        targets["scylla"] = [f"127.0.0.1:{scylla.server_port}"]
        running = Prometheus(home, targets)
        open_ones.callback(running.close)
        ended = threading.Event()

        def load() -> None:
            number = 0
            while not ended.is_set():
                work(table, number)
                work(remote, number)
                number += 1

        loading = threading.Thread(target=load)
        loading.start()
        open_ones.callback(loading.join)
        open_ones.callback(ended.set)
        running.wait("idmatch:call_p99:seconds > 0")
        yield running


_PANELS = [(board.name, panel) for board in DASHBOARDS for panel in board.panels]


@pytest.mark.parametrize(
    "panel",
    [panel for _, panel in _PANELS],
    ids=[f"{board} {panel.title}".replace(" ", "-") for board, panel in _PANELS],
)
def test_each_panel_shows_something(prometheus: Prometheus, panel: Panel) -> None:
    for query in panel.queries.values():
        assert prometheus.wait(query.replace("$__rate_interval", _RATE))


def test_each_alert_watches_something(prometheus: Prometheus) -> None:
    """Without its comparison, an expression is not empty."""
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/rules?type=alert") as answer:
        groups = json.load(answer)["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 10
    for rule in rules:
        for part in rule["query"].split(" or "):
            watched = re.sub(r" (==|<|>) [\d.* ]+$", "", part)
            assert watched != part, rule["query"]
            assert prometheus.wait(watched), rule["name"]


def test_no_alert_fires_while_all_is_well(prometheus: Prometheus) -> None:
    """Nor does one stay pending, but for the table whose newest date is months ago. For a moment a
    busy machine may answer late.
    """

    def alerts(state: str) -> set[str]:
        found = prometheus.ask(f'ALERTS{{alertstate=~"{state}"}}')
        return {one["metric"]["alertname"] for one in found} - {"IdmatchPartnerStale"}

    assert not alerts("firing")
    both = "firing|pending"
    until(lambda: not alerts(both), lambda: time.sleep(0.5), lambda: alerts(both))


def empty(page: Path) -> list[str]:
    """The panels of a page without values."""
    panels = [panel for board in data_of(page)["boards"] for panel in board["panels"]]
    return [panel["title"] for panel in panels if not panel["series"]]


def test_each_panel_is_drawn(cli: Cli, prometheus: Prometheus, tmp_path: Path) -> None:
    """In Chromium, in light and dark. With IDMATCH_TEST_PICTURES, a folder, it leaves there the
    pictures of the docs.
    """
    if _PICTURES:
        time.sleep(_SHOWN_SECONDS)
    page = cli.home / "page.html"
    draw = ("dashboard", prometheus.url, "-o", page, "--since", f"{_SHOWN_SECONDS}s", "--overwrite")
    assert cli(*draw).code == 0
    # Some figures are of the last seconds.
    until(lambda: not empty(page), lambda: cli(*draw), lambda: empty(page))
    for board in DASHBOARDS:
        address = f"{page.as_uri()}#{board.name}"
        for mode in ([], [DARK]):
            shown = chromium(tmp_path, address, "--dump-dom", *mode)
            main = shown[shown.index("<main") : shown.index("</main>")]
            titles = re.findall("<h2>(.*?)</h2>", main)
            assert titles == [panel.title for panel in board.panels]
            # A canvas, and a table with the same series for those who do not see it.
            assert main.count("<canvas") == len(titles)
            assert 'class="empty"' not in main
            tables = re.findall("<tbody>(.*?)</tbody>", main)
            assert len(tables) == len(titles)
            row = "<tr><th[^>]*>[^<]+</th>(<td>[^<]+</td>){4}</tr>"
            assert all(re.fullmatch(f"({row})+", table) for table in tables)
        if _PICTURES:
            picture = Path(_PICTURES).absolute() / f"{board.name}.png"
            chromium(tmp_path, address, f"--screenshot={picture}")


def test_a_complaint_of_a_script_is_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<script>throw new Error('no')</script>")
    with pytest.raises(AssertionError, match="CONSOLE"):
        chromium(tmp_path, bad.as_uri(), "--dump-dom")


def test_dashboards_are_what_the_panels_say(cli: Cli) -> None:
    script = _HERE.parent.parent / "scripts" / "dashboards.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
