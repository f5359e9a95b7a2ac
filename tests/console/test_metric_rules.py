"""The project's own rules of alerts: found in what runs measure, told as the default ones, and
changed by who may.
"""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.live.models import EventRecord
from console.sessions.alerts.metric_rules import MAX_RULES
from console.sessions.alerts.models import MetricRule
from console.sessions.alerts.services import steps_watch
from console.sessions.models import Session
from console.users.models import Project
from console.webhooks.models import Delivery
from console.webhooks.services import webhook_create
from support import factories
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.webhooks import WebhookTopic

JSON = "application/json"
LOW = {"name": "Too low", "metric": "reward_mean", "above": False, "value": 0.2, "steps": 3}


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def rule_id(owner: Client, **body: object) -> str:
    return owner.post("/v1/alert-rules", LOW | body, content_type=JSON).json()["id"]


def measure(session: Session, *rewards: float | None) -> None:
    """Record a step with each of these rewards, and watch it."""
    record = EventRecord.objects.filter(session_id=session.id, kind=EventKind.METRIC)
    for reward in rewards:
        step = {"step": record.count() + 1, "reward_mean": reward, "kl_engine": 0.0}
        EventRecord.objects.create(session_id=session.id, kind=EventKind.METRIC, data=step)
        steps_watch(session=session, new=1)


def standing(session: Session) -> list[str]:
    return list(session.alerts.filter(over_at=None).order_by("id").values_list("text", flat=True))


def test_a_rule_of_the_project_is_raised_told_and_over_as_the_default_ones(
    owner: Client, project: Project
) -> None:
    webhook_create(
        project=project, url="https://example.com/hook", topics=[WebhookTopic.ALERT_RAISED]
    )
    rule_id(owner)
    rule_id(owner, name="Of another run", runs="sweep")
    session = factories.session_make(project, name="mine")
    measure(session, 0.1, 0.1, None, 0.3, 0.1, 0.15)
    assert standing(session) == []
    measure(session, None, 0.125)
    assert standing(session) == ["Too low: reward_mean is 0.125, below 0.2 for 3 steps."]
    (alert,) = owner.get("/v1/alerts").json()["items"]
    assert (alert["rule"], alert["step"], Delivery.objects.count()) == ("metric_rule", 8, 1)
    measure(session, 0.2)
    assert standing(session) == []
    measure(session, *[0.1] * 9)
    assert session.alerts.count() == 1, "one that comes and goes is told once in fifty steps"


def test_two_rules_stand_beside_each_other_and_what_is_changed_or_deleted_is_over(
    owner: Client, project
) -> None:
    first, second = (
        rule_id(owner, steps=1),
        rule_id(owner, steps=1, name="any", metric="kl_engine", above=True, value=-1),
    )
    session = factories.session_make(project, name="mine")
    measure(session, 0.1)
    assert [text.partition(":")[0] for text in standing(session)] == ["Too low", "any"]
    changed = owner.patch(
        f"/v1/alert-rules/{first}", {"value": 0.05, "runs": "MINE"}, content_type=JSON
    ).json()
    assert (changed["value"], changed["runs"], changed["name"]) == (0.05, "MINE", "Too low")
    assert [text.partition(":")[0] for text in standing(session)] == ["any"]
    assert owner.delete(f"/v1/alert-rules/{second}").status_code == 204
    measure(session, 0.1)
    assert standing(session) == []
    assert [rule["id"] for rule in owner.get("/v1/alert-rules").json()["items"]] == [first]


def test_a_changed_rule_is_compared_anew_with_the_next_steps(
    owner: Client, project: Project
) -> None:
    changed = rule_id(owner, steps=1)
    session = factories.session_make(project)
    measure(session, 0.1)
    owner.patch(f"/v1/alert-rules/{changed}", {"value": 0.15}, content_type=JSON)
    measure(session, 0.1)
    assert standing(session) == ["Too low: reward_mean is 0.1, below 0.15."]
    assert list(session.alerts.order_by("id").values_list("step", flat=True)) == [1, 2]


@pytest.mark.parametrize(
    ("name", "words"),
    [("evil.example/turns", "evil example turns"), ("7", "7"), ("d\u00e9lai", "d\u00e9lai")],
)
def test_what_agents_measure_has_rules_too_and_a_mail_has_no_link_of_its_name(
    owner: Client, project, name: str, words: str
) -> None:
    rule_id(owner, metric=f"metrics/{name}", steps=2, above=True, value=3)
    session = factories.session_make(project)
    for step in range(1, 60):
        own = {name: 4.0} if step in (1, 59) else {}
        data = {"step": step, "reward_mean": 0.5, "kl_engine": 0.0, "metrics": own}
        EventRecord.objects.create(session_id=session.id, kind=EventKind.METRIC, data=data)
        steps_watch(session=session, new=1)
        assert bool(standing(session)) == (step == 59)
    assert standing(session) == [f"Too low: {words} is 4, above 3 for 2 steps."]


@pytest.mark.parametrize("between", [1, 9])
def test_steps_without_the_measure_do_not_hide_those_that_have_it(
    owner: Client, project: Project, between
) -> None:
    """However rare it is: the last fifty steps that have it are compared, and nothing is read at
    the others.
    """
    rule_id(owner, steps=50)
    session = factories.session_make(project)
    rewards = [0.1, *[None] * between] * 49
    steps = [
        {"step": at, "reward_mean": reward, "kl_engine": 0.0}
        for at, reward in enumerate(rewards, start=1)
    ]
    del steps[1]["reward_mean"]  # as an older runtime reports it
    EventRecord.objects.bulk_create(
        EventRecord(session_id=session.id, kind=EventKind.METRIC, data=step) for step in steps
    )
    with CaptureQueriesContext(connection) as asked:
        measure(session, None)
    assert (
        standing(session) == []
        and sum("console_eventrecord" in query["sql"] for query in asked) == 3
    )
    measure(session, 0.1)
    assert standing(session) == ["Too low: reward_mean is 0.1, below 0.2 for 50 steps."]
    measure(session, None)
    assert len(standing(session)) == 1
    measure(session, 0.3)
    assert standing(session) == []


@pytest.mark.parametrize("nothing", [{}, {"value": None}, {"name": "Lower", "steps": None}])
def test_a_change_of_nothing_is_refused_and_ends_nothing(
    owner: Client, project: Project, nothing
) -> None:
    mine = rule_id(owner, steps=1)
    session = factories.session_make(project)
    measure(session, 0.1)
    assert owner.patch(f"/v1/alert-rules/{mine}", nothing, content_type=JSON).status_code == 400
    assert len(standing(session)) == 1 and MetricRule.objects.get().name == "Too low"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "see evil.example/x"},
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 61},
        {"metric": "step"},
        {"metric": "reward"},
        {"metric": "metrics/"},
        {"metric": "metrics/" + "x" * 213},
        {"value": "NaN"},
        {"steps": 0},
        {"steps": 51},
        {"runs": "x" * 121},
        {"unknown": 1},
    ],
)
def test_what_is_no_rule_is_refused_by_the_name_of_its_field(owner: Client, project, wrong) -> None:
    refused = owner.post("/v1/alert-rules", LOW | wrong, content_type=JSON)
    assert refused.status_code == 400
    assert [field["field"] for field in refused.json()["error"]["details"]["fields"]] == list(wrong)
    mine = rule_id(owner)
    assert owner.patch(f"/v1/alert-rules/{mine}", wrong, content_type=JSON).status_code == 400


def test_a_project_has_so_many_rules_at_most(owner: Client, project) -> None:
    fields = LOW | {"project": project}
    MetricRule.objects.bulk_create(MetricRule(**fields) for _ in range(MAX_RULES))
    with CaptureQueriesContext(connection) as asked:
        assert owner.post("/v1/alert-rules", LOW, content_type=JSON).status_code == 409
    tables = [query["sql"].partition("FROM ")[2].split(" ")[0].strip('"') for query in asked]
    counted = tables.index("console_metricrule")
    assert tables[counted - 1] == "console_project", (
        "its row is locked: of two requests at once one counts the other"
    )
