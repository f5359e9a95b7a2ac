"""The dashboard and the rules: every metric that they name is served, and Prometheus takes its
own.
"""

import json
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from console.scheduling.leader import leader_renew
from console.scheduling.recovery import restart_count
from support import factories
from tinkerscript.wire.sessions import SessionState

FOLDER = Path(__file__).resolve().parents[2] / "docker" / "monitoring"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = json.loads((FOLDER / "grafana.json").read_text())["panels"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in PANELS for target in panel["targets"]
]
ADAPTED = yaml.safe_load((FOLDER / "adapter.yaml").read_text())["rules"]["custom"]
EXPRESSIONS += [rule["seriesQuery"] for rule in ADAPTED]


@pytest.fixture
def served(client: Client, project) -> dict[str, set[str]]:
    """The names of what a server with some of everything serves, each with its labels."""
    factories.session_make(project, state=SessionState.FAILED, failure={"code": "x", "cause": "y"})
    restart_count(cause="exited")
    leader_renew(holder="a", now=timezone.now() - timedelta(seconds=1))
    text = client.get("/metrics").content.decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.smoke
def test_every_metric_that_is_drawn_or_watched_is_served(served) -> None:
    named = {
        name
        for expression in EXPRESSIONS
        for name in re.findall(r"tinkerscript_[a-z_]+", expression)
    }
    assert len(named) > 15
    known = (
        served.keys() | {f"{name}_total" for name in served} | {f"{name}_bucket" for name in served}
    )
    assert named <= known, named - known


def test_every_rule_says_what_it_means_and_how_bad_it_is() -> None:
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert (
            rule["labels"]["severity"] in ("warning", "critical")
            and rule["annotations"]["summary"].strip()
        )
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_prometheus_takes_the_rules_and_how_web_servers_are_read(tmp_path: Path) -> None:
    """Debian's build knows no Kubernetes: of that it is told a file."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool (apt: prometheus)")
    settings = yaml.safe_load((FOLDER / "scrape.yaml").read_text())
    assert [
        next(iter(found)) for found in settings["scrape_configs"][0].pop("kubernetes_sd_configs")
    ] == ["role"]
    settings["scrape_configs"][0]["file_sd_configs"] = [{"files": ["pods.json"]}]
    read = tmp_path / "scrape.yaml"
    read.write_text(yaml.safe_dump(settings))
    for kind in (["rules", FOLDER / "alerts.yaml"], ["config", "--syntax-only", read]):
        done = subprocess.run(
            [promtool, "check", *kind], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stdout + done.stderr
