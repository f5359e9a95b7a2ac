"""Sessions that serve a model and train nothing: what may be served, what they refuse by name, what
keeps its files.
"""

import time

import pytest

from console.errors import Conflict, Forbidden, InvalidRequest, NotFound, UnknownBaseModel
from console.live.models import EventRecord
from console.scheduling import liveness
from console.sessions import budgets, services, serving
from console.sessions.checkpoints import checkpoints, leftovers, removal
from console.sessions.models import Checkpoint, Removal, Session
from console.sessions.runtime.leases import runtime_register
from console.sessions.serving import serving_of_model
from console.sessions.starting_points import StartingPoint
from console.sessions.tasks import queue
from console.users.keys import key_create
from support import factories
from tinkerscript.wire import episode_key
from tinkerscript.wire.account import Scope
from tinkerscript.wire.serving import ServingCreate
from tinkerscript.wire.sessions import Budget, SessionCreate, SessionKind, SessionState
from tinkerscript.wire.tasks import TasksPut


@pytest.fixture
def trained(project):
    """A committed model of step 8, of a session that has ended."""
    session = factories.session_make(project, state=SessionState.STOPPED)
    return Checkpoint.objects.create(
        session=session, kind="model", state="committed", step=8,
        files=[{"path": "config.json", "size_bytes": 2, "sha256": "0" * 64}],
    )  # fmt: skip


def serve(project, model, person=None, **fields):
    return serving.serving_create(
        project=project, body=ServingCreate(model=model, **fields), person=person
    )


def test_a_base_model_and_a_checkpoint_are_served_by_sessions_of_their_own_kind(
    project, trained
) -> None:
    base, tuned = (
        serve(project, factories.BASE_MODEL),
        serve(project, trained.id, name="tuned", idle_suspend_s=60),
    )
    assert {base.kind, tuned.kind} == {SessionKind.SERVING}
    assert (base.served_checkpoint_id, tuned.served_checkpoint_id) == ("", trained.id)
    assert tuned.base_model == factories.BASE_MODEL and tuned.config["idle_suspend_s"] == 60
    assert {base.state, tuned.state} == {SessionState.QUEUED}
    assert base.devices == 0


def test_a_checkpoint_that_failed_is_refused_with_its_cause_and_nobody_waits_for_it(
    project, trained
) -> None:
    Checkpoint.objects.filter(id=trained.id).update(
        state="failed", failure="its SHA-256 is another"
    )
    with pytest.raises(Conflict, match="is failed: its SHA-256 is another") as refused:
        serve(project, trained.id)
    assert refused.value.hint == "Choose another checkpoint."


def test_its_runtime_is_told_what_to_serve_and_where_its_files_are(
    project, trained, monkeypatch
) -> None:
    monkeypatch.setattr(
        "console.object_store.client.read_url", lambda key, expires_s: f"s3://{key}"
    )
    session = serve(project, trained.id)
    Session.objects.filter(id=session.id).update(state=SessionState.PROVISIONING, lease_sha256="x")
    session.refresh_from_db()
    told = runtime_register(session=session)
    assert (told.kind, told.serves.checkpoint_id, told.serves.step) == (
        SessionKind.SERVING,
        trained.id,
        8,
    )
    assert (
        told.serves.files[0].url.endswith(f"{trained.id}/config.json") and told.resume_from is None
    )
    Checkpoint.objects.update(state="failed", failure="its SHA-256 is another")
    with pytest.raises(InvalidRequest, match="is failed: its SHA-256 is another"):
        runtime_register(session=session)
    Checkpoint.objects.all().delete()
    with pytest.raises(InvalidRequest, match="was deleted"):
        runtime_register(session=session)


def test_what_is_no_model_to_serve_is_refused_by_name(project, trained) -> None:
    with pytest.raises(UnknownBaseModel):
        serve(project, "nothing")
    with pytest.raises(NotFound):
        serve(project, "ckp_nothing")
    with pytest.raises(InvalidRequest, match="reads at most"):
        serve(project, factories.BASE_MODEL, max_context_length=100_000)
    for change, error, said in (
        ({"kind": "state"}, InvalidRequest, "a state to resume from"),
        ({"kind": "model", "state": "failed"}, Conflict, "is failed"),
    ):
        Checkpoint.objects.filter(id=trained.id).update(**change)
        with pytest.raises(error, match=said):
            serve(project, trained.id)
    Session.objects.update(kind=SessionKind.TINKER)
    Checkpoint.objects.filter(id=trained.id).update(state="committed")
    with pytest.raises(InvalidRequest, match="A Tinker client saved") as refused:
        serve(project, trained.id)
    assert "/oai/api/v1" in refused.value.hint
    with pytest.raises(ValueError, match="no steps"):
        ServingCreate(model="m", budget=Budget(steps=1))


def test_the_limits_of_a_key_hold_for_what_it_serves(project, alice) -> None:
    key, _ = key_create(
        project=project,
        user=alice,
        name="k",
        scopes=factories.EVERY_SCOPE,
        allowed_models=["another"],
    )
    with pytest.raises(Forbidden):
        serving.serving_create(
            project=project, body=ServingCreate(model=factories.BASE_MODEL), key=key
        )
    key, _ = key_create(
        project=project, user=alice, name="k", scopes=factories.EVERY_SCOPE, spend_cap_s=1
    )
    body = ServingCreate(model=factories.BASE_MODEL)
    made = serving.serving_create(project=project, body=body, key=key, person=alice)
    assert made.key == key
    other, _ = key_create(
        project=project, user=alice, name="k", scopes=factories.EVERY_SCOPE, spend_cap_s=1
    )
    assert serving_of_model(project=project, key=key, name=factories.BASE_MODEL) == made
    assert serving_of_model(project=project, key=other, name=factories.BASE_MODEL) is None, (
        "not on another's account"
    )


def test_it_needs_the_memory_of_an_engine_alone(project, settings, monkeypatch) -> None:
    monkeypatch.setattr(
        "console.sessions.dry_run.memory_limit_bytes", lambda place, on_gpu: 4 << 30
    )
    assert serve(project, factories.BASE_MODEL), "its trainer would not fit"


def test_what_makes_no_sense_there_is_refused_by_name(project) -> None:
    session = serve(project, factories.BASE_MODEL)
    at = {"project": project, "session_id": session.id}
    with pytest.raises(Conflict, match="nothing to save"):
        checkpoints.checkpoint_request(**at, kind="model")
    with pytest.raises(Conflict, match="serves a model"):
        queue.tasks_put(**at, body=TasksPut(rows=[{"name": "a", "row": 1}]))
    Session.objects.filter(id=session.id).update(state=SessionState.SUSPENDED)
    with pytest.raises(Conflict, match="has no trainer"):
        services.session_resume(**at, trainer_ranks=2)
    assert services.session_resume(**at).state == SessionState.QUEUED


def test_a_key_is_of_the_session_and_of_who_asked_for_it(project, settings) -> None:
    settings.PUBLIC_URL = "https://train.example.org"  # no address of this machine
    session = serve(project, factories.BASE_MODEL)
    at = {"project": project, "caller_id": "key_1", "days": 2}
    made = serving.serving_key_create(session_id=session.id, **at)
    claim = episode_key.read(made.api_key)
    assert (claim.session_id, claim.episode_id, claim.key_id) == (session.id, "serving", "key_1")
    assert (
        abs(claim.expires_at - time.time() - 2 * 86_400) < 60
        and made.expires_at.timestamp() == claim.expires_at
    )
    assert (
        made.base_url == f"{settings.PUBLIC_URL}/openai/v1" and made.model == factories.BASE_MODEL
    )
    assert made.anthropic_base_url == f"{settings.PUBLIC_URL}/openai"
    with pytest.raises(Conflict, match="episodes"):
        serving.serving_key_create(session_id=factories.session_make(project).id, **at)
    services.session_stop(project=project, session_id=session.id)
    with pytest.raises(Conflict, match="cancelled"):
        serving.serving_key_create(session_id=session.id, **at)


def test_what_is_served_is_not_removed(project, trained, settings) -> None:
    session = serve(project, trained.id)
    of = {"project": project, "session_id": trained.session_id}
    with pytest.raises(Conflict, match=session.id):
        removal.checkpoint_delete(**of, checkpoint_id=trained.id)
    with pytest.raises(Conflict, match=session.id):
        services.session_delete(**of)
    settings.CHECKPOINT_DAYS = 1
    Checkpoint.objects.update(committed_at="2020-01-01T00:00:00Z")
    leftovers.checkpoints_expire()
    assert Checkpoint.objects.exists()
    services.session_stop(project=project, session_id=session.id)
    leftovers.checkpoints_expire()
    assert not Checkpoint.objects.exists()


def test_what_was_decided_before_another_served_or_deleted_it_is_decided_anew(
    project, trained
) -> None:
    body = SessionCreate(base_model=factories.BASE_MODEL)
    serve(project, trained.id)
    with pytest.raises(Conflict, match="serves the checkpoint"):
        removal.checkpoint_remove(trained, reason="expired when it was looked at")
    assert Checkpoint.objects.exists() and not Removal.objects.exists()
    Checkpoint.objects.all().delete()
    with pytest.raises(NotFound):
        services.session_create(
            project=project,
            body=body,
            kind=SessionKind.SERVING,
            start=StartingPoint(factories.BASE_MODEL, trained),
        )


def test_an_idle_one_is_suspended_and_one_with_calls_is_not(project) -> None:
    session = serve(project, factories.BASE_MODEL, idle_suspend_s=10)
    now = session.created_at
    old = now.replace(year=now.year - 1)
    Session.objects.filter(id=session.id).update(
        state="ready", phase="waiting for calls", state_since=old, last_activity_at=old
    )
    session.refresh_from_db()
    assert liveness.is_idle(session, now=now)
    session.last_activity_at = now
    assert not liveness.is_idle(session, now=now)


def test_at_its_budget_it_stops_without_a_checkpoint(project) -> None:
    session = serve(project, factories.BASE_MODEL, budget=Budget(wall_s=60))
    old = session.created_at.replace(year=session.created_at.year - 1)
    Session.objects.filter(id=session.id).update(state="ready", created_at=old, policy_version=8)
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "stop" and not session.checkpoints.exists()
    assert EventRecord.objects.filter(session_id=session.id, data__name="budget_exhausted").exists()


def test_a_name_leads_to_the_one_that_serves_it_and_runs(project, alice, trained) -> None:
    key, _ = key_create(project=project, user=alice, name="k", scopes=list(Scope))
    waiting, ready, tuned = (
        serve(project, name, person=alice)
        for name in (factories.BASE_MODEL, factories.BASE_MODEL, trained.id)
    )
    Session.objects.filter(id=waiting.id).update(state="ready")

    def found(name: str) -> Session | None:
        return serving_of_model(project=project, key=key, name=name)

    assert found(factories.BASE_MODEL) == waiting and found(ready.id) == ready
    assert found(trained.id) == tuned == found(tuned.id)
    assert found("another") is None and found("ckp_0") is None
    assert found(trained.session_id) is None, "it trains"


def test_another_persons_session_is_used_while_it_is_ready_and_limits_nothing(
    project, alice, bob
) -> None:
    key, _ = key_create(project=project, user=alice, name="k", scopes=list(Scope))
    usual, short = (
        serve(project, factories.BASE_MODEL, person=bob),
        serve(project, factories.BASE_MODEL, person=bob),
    )

    def found() -> Session | None:
        return serving_of_model(project=project, key=key, name=factories.BASE_MODEL)

    assert found() is None, "both wait for a start that bob wants"
    for other in ({"max_context_length": 16}, {"max_tokens": 8}, {"temperature": 0.5}):
        Session.objects.filter(id=short.id).update(state="ready", config=short.config | other)
        assert found() is None, other
    Session.objects.filter(id=usual.id).update(state="ready")
    assert found() == usual
    own = serve(project, factories.BASE_MODEL, person=alice)
    assert found() == usual, "at once"
    Session.objects.filter(id=own.id).update(state="ready")
    assert found() == own
