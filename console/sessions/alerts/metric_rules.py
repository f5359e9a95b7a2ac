"""Rules of alerts that people make: a measure that is above or below a bound for so many steps in a
row.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from console.errors import Conflict, NotFound
from console.sessions.alerts.models import MetricRule
from console.sessions.alerts.rules import Step
from console.sessions.models import Alert, Session
from console.users.models import Project
from tinkerscript.wire.events import OWN
from tinkerscript.wire.reading.alerts import AlertRule, MetricRuleCreate
from tinkerscript.wire.reading.points import measure_of

MAX_RULES = 50  # of a project: each is compared with each step of each of its runs


def metric_rule_create(*, project: Project, body: MetricRuleCreate) -> MetricRule:
    """A new rule; it is compared with the steps that are recorded from now on. Raises Conflict for
    one too many.
    """
    with transaction.atomic():
        # requests at the same time count one another
        Project.objects.select_for_update(no_key=True).get(id=project.id)
        if MetricRule.objects.filter(project=project).count() >= MAX_RULES:
            raise Conflict(
                f"The project has {MAX_RULES} rules.", hint="Delete one that is no longer needed."
            )
        return MetricRule.objects.create(project=project, **body.model_dump())


def metric_rule_list(*, project: Project) -> QuerySet[MetricRule]:
    """The rules of a project, the oldest first."""
    return MetricRule.objects.filter(project=project).order_by("created_at", "id")


def metric_rule_get(*, project: Project, rule_id: str) -> MetricRule:
    """One of them. Raises NotFound."""
    rule = MetricRule.objects.filter(project=project, id=rule_id).first()
    if rule is None:
        raise NotFound("There is no such rule in this project.")
    return rule


def metric_rule_update(*, project: Project, rule_id: str, fields: dict[str, Any]) -> MetricRule:
    """The rule with these fields changed. What it had found is over: it was another bound's. Raises
    NotFound.
    """
    with transaction.atomic():
        rule = _locked(project, rule_id)
        for name, value in fields.items():
            setattr(rule, name, value)
        rule.save()
        _alerts_part(rule)
    return rule


def metric_rule_delete(*, project: Project, rule_id: str) -> None:
    """Remove a rule. What it had found is over, and stays in the list of alerts. Raises
    NotFound.
    """
    with transaction.atomic():
        rule = _locked(project, rule_id)
        _alerts_part(rule)
        rule.delete()


def metric_rules_of(session: Session) -> list[MetricRule]:
    """The rules that the session's steps are compared with."""
    said = f"{session.name}\n{session.id}".lower()
    return [
        rule
        for rule in MetricRule.objects.filter(project=session.project_id)
        if rule.runs.lower() in said
    ]


def rule_text(
    rule: MetricRule, steps: Sequence[Step], earlier: Callable[[str, int], list[float]]
) -> str | None:
    """What was measured where the rule holds after the last of ``steps``; a step without the
    measure does not count.

    ``earlier`` returns so many values of a measure from before ``steps``, or all where there are
    fewer.
    """
    every = (measure_of(step, rule.metric) for step in steps)
    values = [float(value) for value in every if value is not None][-rule.steps :]
    if not all(_is_beyond(rule, value) for value in values):
        return None
    if missing := rule.steps - len(values):
        before = earlier(rule.metric, missing)
        if len(before) < missing or not all(_is_beyond(rule, value) for value in before):
            return None
    side = "above" if rule.above else "below"
    for_steps = "" if rule.steps == 1 else f" for {rule.steps} steps"
    measured = f"{_in_words(rule.metric)} is {values[-1]:.4g}"
    return f"{rule.name}: {measured}, {side} {rule.value:.4g}{for_steps}."


def _in_words(metric: str) -> str:
    """Letters of any script and digits: it stands in mails, and an agent's own measure may be
    called as a link is."""
    return re.sub(r"[^\w -]+", " ", metric.removeprefix(OWN))


def _is_beyond(rule: MetricRule, value: float) -> bool:
    return value > rule.value if rule.above else value < rule.value


def _locked(project: Project, rule_id: str) -> MetricRule:
    """The rule, until the transaction ends: two changes of it come one after the other. Raises
    NotFound.
    """
    Project.objects.select_for_update(no_key=True).get(id=project.id)
    return metric_rule_get(project=project, rule_id=rule_id)


def _alerts_part(rule: MetricRule) -> None:
    """What the rule has found is over, and no longer keeps the rule from being raised again."""
    found = Alert.objects.filter(
        session__project=rule.project_id, rule=AlertRule.METRIC_RULE, subject=rule.id
    )
    found.update(over_at=Coalesce("over_at", timezone.now()), subject="")
