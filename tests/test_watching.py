"""What is said about alerts and panels: each alert has its section of the runbook, and each panel
tells what is good and what to do.
"""

import re
from pathlib import Path

import pytest
from idmatch._watch._panels import DASHBOARDS, Panel

ROOT = Path(__file__).parent.parent
ALERTS = (ROOT / "monitoring" / "rules" / "alerts.yml").read_text()
RUNBOOK = (ROOT / "docs" / "how-to" / "runbook.md").read_text()
SEVERITIES = dict(re.findall(r"- alert: (\w+)\n(?:.*\n)*?\s+labels: {severity: (\w+)}", ALERTS))
SECTIONS = dict(re.findall(r"^### (Idmatch\w+)\n\n(.+)$", RUNBOOK, re.MULTILINE))
PANELS = [(board.name, panel) for board in DASHBOARDS for panel in board.panels]


def test_each_alert_has_a_section_in_the_runbook() -> None:
    assert len(SEVERITIES) == ALERTS.count("- alert: ") > 10
    assert sorted(SECTIONS) == sorted(SEVERITIES)


@pytest.mark.parametrize("alert", sorted(SEVERITIES))
def test_a_section_has_severity_cause_and_action(alert: str) -> None:
    form = r"(\w+)\. \*\*Cause\*\*: .+\. \*\*Action\*\*: .+\."
    found = re.fullmatch(form, SECTIONS[alert])
    assert found, SECTIONS[alert]
    assert found[1].lower() == SEVERITIES[alert]


def test_what_the_runbook_names_is_there() -> None:
    titles = {panel.title for _, panel in PANELS}
    named = re.findall(r"(?<!\*)\*([A-Z][^*]+)\*(?!\*)", RUNBOOK)
    assert named
    assert [name for name in named if name not in titles and name not in SEVERITIES] == []


@pytest.mark.parametrize(
    "panel",
    [panel for _, panel in PANELS],
    ids=[f"{board} {panel.title}".replace(" ", "-") for board, panel in PANELS],
)
def test_a_panel_tells_what_is_good_and_what_to_do(panel: Panel) -> None:
    good = re.search(r"\b(is|are) good(\.|:)", panel.about)
    assert good, panel.about
    # Where it is not so: a case, and what it means or what to do.
    otherwise = panel.about[good.end() :]
    assert re.search(r"\S: \S.+\.$", otherwise), panel.about
