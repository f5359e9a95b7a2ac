"""Alerts of the project's runs, and who has read them."""

from api.presenters import alert_view, metric_rule_view
from api.rest.authentication import Caller
from api.views.queries import AlertQuery
from console.sessions.alerts import metric_rules, services
from tinkerscript.wire.reading.alerts import (
    AlertList,
    AlertsRead,
    MetricRuleCreate,
    MetricRuleList,
    MetricRuleUpdate,
    MetricRuleView,
)


def alert_list(caller: Caller, query: AlertQuery) -> AlertList:
    """The project's alerts, newest first, and how many of them the caller has not read."""
    return _page(caller, query)


def session_alert_list(caller: Caller, session_id: str, query: AlertQuery) -> AlertList:
    """The alerts of one session, newest first."""
    return _page(caller, query, session_id)


def alerts_read(caller: Caller, body: AlertsRead) -> None:
    """Every alert up to this one is read by the caller; later ones are not."""
    services.alerts_read(project=caller.project, user=caller.user, upto=body.upto)


def metric_rule_list(caller: Caller) -> MetricRuleList:
    """The project's own rules, the oldest first."""
    rules = metric_rules.metric_rule_list(project=caller.project)
    return MetricRuleList(items=[metric_rule_view(rule) for rule in rules])


def metric_rule_create(caller: Caller, body: MetricRuleCreate) -> MetricRuleView:
    """Raise an alert of a run while a measure of its steps is beyond a bound."""
    return metric_rule_view(metric_rules.metric_rule_create(project=caller.project, body=body))


def metric_rule_update(caller: Caller, rule_id: str, body: MetricRuleUpdate) -> MetricRuleView:
    """Change what is given. What the rule had found is over."""
    fields = body.model_dump(exclude_unset=True)
    return metric_rule_view(
        metric_rules.metric_rule_update(project=caller.project, rule_id=rule_id, fields=fields)
    )


def metric_rule_delete(caller: Caller, rule_id: str) -> None:
    """Remove a rule. What it had found is over."""
    metric_rules.metric_rule_delete(project=caller.project, rule_id=rule_id)


def _page(caller: Caller, query: AlertQuery, session_id: str | None = None) -> AlertList:
    project = caller.project
    alerts, more = services.alert_list(project=project, session_id=session_id, **query.model_dump())
    # A key reads for no person.
    upto = 0 if caller.key else services.alerts_read_upto(project=project, user=caller.user)
    return AlertList(
        items=[alert_view(alert, is_read=alert.id <= upto) for alert in alerts],
        unread=services.alerts_unread(project=project, after=upto),
        next_cursor=more,
    )
