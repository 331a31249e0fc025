"""Makes Grafana's dashboards, `monitoring/dashboards/*.json`, of the panels of the package.

python scripts/dashboards.py            writes them
python scripts/dashboards.py --check    fails if they are not what the panels say
"""

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from idmatch._watch._panels import DASHBOARDS, Dashboard, Panel

_FOLDER = Path(__file__).parent.parent / "monitoring" / "dashboards"
# Of 24 columns; rows are 8 high.
_WIDTH, _HEIGHT = 12, 8
_UNITS = {"rowsps": "suffix: rows/s"}
_UNTRIED = " (Untried: no such server was there.)"


def main() -> int:
    """Writes, or checks."""
    is_check = "--check" in sys.argv[1:]
    wrong = []
    for one in DASHBOARDS:
        path, text = _FOLDER / f"{one.name}.json", made(one)
        if is_check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            wrong.append(path.name)
        elif not is_check:
            _FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if wrong:
        print(f"run scripts/dashboards.py: {', '.join(wrong)} are not what the panels say")
    return bool(wrong)


def made(one: Dashboard) -> str:
    """The JSON of a dashboard."""
    source = dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    built = (
        dashboard.Dashboard(one.title)
        .uid(f"idmatch-{one.name}")
        .tags(["idmatch"])
        .time("now-6h", "now")
        .refresh("30s")
        .timezone("browser")
        .with_variable(source)
    )
    for panel in one.panels:
        built.with_panel(_panel(panel))
    return json.dumps(built.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _panel(panel: Panel) -> timeseries.Panel:
    source = DataSourceRef(type_val="prometheus", uid="${datasource}")
    made = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.about + _UNTRIED * panel.is_untried)
        .unit(_UNITS.get(panel.unit, panel.unit))
        .datasource(source)
        .min(0)
        .span(_WIDTH)
        .height(_HEIGHT)
    )
    for legend, query in panel.queries.items():
        made.with_target(prometheus.Dataquery().expr(query).legend_format(legend).range())
    return made


if __name__ == "__main__":
    sys.exit(main())
