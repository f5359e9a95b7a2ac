"""Planning, suspending, resuming, budgets, quotas and deletion of sessions."""

import json
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone

from console.errors import (
    Conflict,
    DoesNotFit,
    ModelUnsupported,
    QuotaExceeded,
    UnknownBaseModel,
)
from console.live.models import EventRecord
from console.object_store import client as object_store
from console.object_store import seaweedfs
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.sessions import budgets, dry_run, services
from console.sessions.checkpoints import checkpoints, leftovers, removal
from console.sessions.models import Checkpoint, Removal, RuntimeSpan, Session
from support import factories
from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import Budget, SessionCreate, SessionKind, SessionState
from tinkerscript.wire.training.defaults import config_resolve
from tinkerscript.wire.training.models.quantised import weights_count

BODY = SessionCreate(base_model=factories.BASE_MODEL)


def names(session: Session) -> list[str]:
    rows = EventRecord.objects.filter(session_id=session.id, kind="event").order_by("id")
    return [row.data["name"] for row in rows]


def budgeted(project, budget: Budget, **fields: object) -> Session:
    return factories.session_make(project, budget=budget.model_dump(exclude_none=True), **fields)


# -- Planning -----------------------------------------------------------------------------------------------------


def test_a_dry_run_returns_memory_and_position_and_starts_nothing(project, db) -> None:
    factories.session_make(project)
    before = Session.objects.count()
    view = dry_run.dry_run(project=project, body=BODY)
    assert view.memory.total_bytes > 28 * 134_515_008 and view.queue_position == 2
    assert (
        view.config == config_resolve(SessionConfig(), 134_515_008)
        and Session.objects.count() == before
    )


def test_a_dry_run_says_that_a_hybrid_shares_no_prefixes_and_what_that_costs(
    project, settings, tmp_path
) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"layer_types": ["linear_attention", "full_attention"]})
    )
    settings.EXTRA_MODELS = {"mine": str(tmp_path)}
    body = SessionCreate(base_model="mine", config=SessionConfig(grpo_n=6))
    plan = dry_run.dry_run(project=project, body=body)
    assert (
        "not shared (layer_types has linear_attention)" in plan.prefixes
        and "6 times" in plan.prefixes
    )
    assert (
        "for each of them"
        in dry_run.dry_run(project=project, body=body, kind=SessionKind.TINKER).prefixes
    )
    assert dry_run.dry_run(project=project, body=body, kind=SessionKind.SERVING).prefixes is None
    assert dry_run.dry_run(project=project, body=BODY).prefixes is None


def test_a_dry_run_counts_what_computes_a_token_of_a_mixture_and_refuses_what_others_lack(
    project, settings, tmp_path
) -> None:
    fields = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    shapes = {f"model.layers.0.mlp.experts.{i}.up_proj.weight": [1000, 100] for i in range(8)}
    shapes["model.embed_tokens.weight"] = [2000, 100]
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(shapes))
    settings.EXTRA_MODELS = {"mine": str(tmp_path)}
    body = SessionCreate(base_model="mine")
    words = "of its 1.0 million weights 0.4 million compute a token (2 of 8 experts a layer)"
    assert words in dry_run.dry_run(project=project, body=body).experts
    assert dry_run.dry_run(project=project, body=BODY).experts is None
    adapted = SessionCreate(base_model="mine", config=SessionConfig(lora_rank=4))
    assert words in dry_run.dry_run(project=project, body=adapted).experts
    with pytest.raises(ModelUnsupported, match="with adapters vLLM.*on no CPU") as refused:
        dry_run.dry_run(project=project, body=body, kind=SessionKind.TINKER)
    assert refused.value.details["fields"][0]["field"] == "base_model"


def test_a_dry_run_says_that_a_folder_is_quantised_and_what_is_done(
    project, settings, tmp_path
) -> None:
    fields = {"quantization_config": {"quant_method": "mxfp4"}}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    shapes = {"x.gate_up_proj_blocks": [2, 3, 1, 4], "x.gate_up_proj_scales": [2, 3, 1]}
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(shapes))
    assert weights_count(tmp_path) == 48, "of two in each byte"
    settings.EXTRA_MODELS = {"mine": str(tmp_path)}
    plan = dry_run.dry_run(project=project, body=SessionCreate(base_model="mine"))
    assert "A quantised folder (mxfp4)" in plan.quantised and "in bfloat16" in plan.quantised
    assert dry_run.dry_run(project=project, body=BODY).quantised is None


def test_what_cannot_fit_is_refused_with_the_estimate(project, monkeypatch) -> None:
    small = LauncherOptions(name="process", resources=Resources(memory_bytes=1 << 30))
    monkeypatch.setattr(settings, "LAUNCHER", small)
    with pytest.raises(DoesNotFit, match=r"needs at least \d") as refused:
        services.session_create(project=project, body=BODY)
    assert refused.value.details["memory"]["optimizer_bytes"] == 12 * 134_515_008
    assert refused.value.details["memory_limit_bytes"] == 1 << 30
    assert not Session.objects.filter(project=project).exists()


def test_the_embedded_store_has_its_part_of_the_machines_memory(settings, monkeypatch) -> None:
    monkeypatch.setattr(dry_run.machine_share, "memory_bytes", lambda: 8 << 30)
    settings.LAUNCHER = LauncherOptions(name="process", resources=Resources())
    assert (
        dry_run.memory_limit_bytes(place="here", on_gpu=False) == (8 << 30) - seaweedfs.MEMORY_BYTES
    )
    settings.S3_ENDPOINT_URL = "https://s3.example.org"
    assert dry_run.memory_limit_bytes(place="here", on_gpu=False) == 8 << 30


def test_weights_are_counted_from_the_headers_of_a_folder(tmp_path) -> None:
    header = b'{"__metadata__": {}, "a": {"shape": [3, 4]}, "b": {"shape": [5]}}'
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert weights_count(tmp_path) == 17


# -- Quotas -------------------------------------------------------------------------------------------------------


def test_a_project_over_its_quota_of_sessions_learns_what_is_left(project, capsys) -> None:
    call_command("set_quota", project.id, "--sessions", "1")
    project.refresh_from_db()
    services.session_create(project=project, body=BODY)
    with pytest.raises(QuotaExceeded) as refused:
        services.session_create(project=project, body=BODY)
    assert refused.value.details == {"limit": 1, "used": 1}
    call_command("set_quota", project.id, "--sessions", "none")
    project.refresh_from_db()
    services.session_create(project=project, body=BODY)
    assert "sessions no limit, storage_gib no limit" in capsys.readouterr().out


# -- Suspend and resume ----------------------------------------------------------------------------------------------


def test_a_ready_session_is_suspended_on_request_and_resumed(project) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    assert services.session_suspend(project=project, session_id=session.id).desired == "suspend"
    assert services.session_resume(project=project, session_id=session.id).desired == "run"
    Session.objects.filter(id=session.id).update(state=SessionState.SUSPENDED)
    assert (
        services.session_suspend(project=project, session_id=session.id).state
        == SessionState.SUSPENDED
    )
    assert (
        services.session_resume(project=project, session_id=session.id).state == SessionState.QUEUED
    )


@pytest.mark.parametrize("state", [SessionState.QUEUED, SessionState.LOADING, SessionState.STOPPED])
def test_only_a_ready_session_is_suspended(project, state) -> None:
    session = factories.session_make(project, state=state)
    with pytest.raises(Conflict, match=state):
        services.session_suspend(project=project, session_id=session.id)


def test_a_session_whose_base_model_is_not_here_stays_suspended(project) -> None:
    """As on a server that was just restored: its runtimes would be refused until it fails for
    good.
    """
    session = factories.session_make(project, state=SessionState.SUSPENDED)
    Session.objects.filter(id=session.id).update(base_model="of-the-old-server")
    with pytest.raises(UnknownBaseModel, match="of-the-old-server"):
        services.session_resume(project=project, session_id=session.id)
    with pytest.raises(UnknownBaseModel):
        checkpoints.checkpoint_order(
            session=Session.objects.get(id=session.id), kind=CheckpointKind.MODEL
        )
    session.refresh_from_db()
    assert session.state == SessionState.SUSPENDED and not session.checkpoints.exists()


def test_a_session_that_ended_is_not_resumed(project) -> None:
    session = factories.session_make(project, state=SessionState.FAILED)
    with pytest.raises(Conflict, match="cannot go on"):
        services.session_resume(project=project, session_id=session.id)


def test_a_suspended_session_goes_on_with_another_number_of_ranks(project) -> None:
    session = factories.session_make(project, state=SessionState.SUSPENDED)
    before = session.config
    resumed = services.session_resume(project=project, session_id=session.id, trainer_ranks=2)
    assert resumed.state == SessionState.QUEUED
    assert Session.objects.get(id=session.id).config == before | {"trainer_ranks": 2}
    assert names(session) == ["trainer_ranks"]
    recorded = EventRecord.objects.get(session_id=session.id, kind="event").data
    assert recorded == {
        "name": "trainer_ranks",
        "from": 1,
        "to": 2,
        "devices_from": 0,
        "devices_to": 0,
    }
    again = services.session_resume(project=project, session_id=session.id, trainer_ranks=2)
    assert again.state == SessionState.QUEUED, "the same number changes nothing"


def test_other_ranks_and_the_wake_are_one(project, monkeypatch) -> None:
    session = factories.session_make(project, state=SessionState.SUSPENDED)

    def fail(**_: object) -> None:
        raise ConnectionError("the database is gone")

    monkeypatch.setattr(services, "session_wake", fail)
    with pytest.raises(ConnectionError):
        services.session_resume(project=project, session_id=session.id, trainer_ranks=2)
    assert Session.objects.get(id=session.id).config == session.config and names(session) == []


def test_other_ranks_are_for_suspended_sessions_that_fit(project, monkeypatch) -> None:
    running = factories.session_make(project, state=SessionState.READY)
    with pytest.raises(Conflict, match="is ready: only a suspended one"):
        services.session_resume(project=project, session_id=running.id, trainer_ranks=2)
    assert Session.objects.get(id=running.id).config == running.config
    suspended = factories.session_make(project, state=SessionState.SUSPENDED)
    monkeypatch.setattr(
        settings,
        "LAUNCHER",
        LauncherOptions(name="process", resources=Resources(memory_bytes=1 << 30)),
    )
    with pytest.raises(DoesNotFit, match="needs at least .* GiB .* may use 1.0 GiB"):
        services.session_resume(project=project, session_id=suspended.id, trainer_ranks=64)
    assert Session.objects.get(id=suspended.id).state == SessionState.SUSPENDED


# -- Budgets --------------------------------------------------------------------------------------------------------


def test_a_session_at_its_steps_takes_a_checkpoint_and_then_stops(project) -> None:
    session = budgeted(
        project, Budget(steps=3), state=SessionState.READY, policy_version=3, policy_version_high=3
    )
    for _ in range(2):  # it waits for the checkpoint, and orders one alone
        budgets.sessions_over_budget_stop()
        session.refresh_from_db()
        assert session.desired == "run" and session.checkpoints.count() == 1
    session.checkpoints.update(state="committed", step=3)
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "stop"
    assert names(session) == ["alert", "budget_exhausted", "checkpoint_requested", "stop_requested"]


def test_a_checkpoint_that_never_comes_does_not_keep_a_session_over_its_budget(project) -> None:
    session = budgeted(
        project, Budget(steps=1), state=SessionState.READY, policy_version=1, policy_version_high=1
    )
    budgets.sessions_over_budget_stop()
    late = timezone.now() - timedelta(seconds=budgets.CHECKPOINT_WAIT_S + 1)
    Checkpoint.objects.filter(session=session).update(created_at=late)
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "stop"


def test_a_session_that_learned_nothing_stops_at_once(project) -> None:
    session = budgeted(project, Budget(wall_s=60), state=SessionState.READY)
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "run"
    Session.objects.filter(id=session.id).update(created_at=timezone.now() - timedelta(seconds=61))
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "stop" and names(session) == [
        "alert",
        "budget_exhausted",
        "stop_requested",
    ]


def test_a_queued_session_over_its_wall_time_is_cancelled(project) -> None:
    session = budgeted(project, Budget(wall_s=60))
    Session.objects.filter(id=session.id).update(created_at=timezone.now() - timedelta(seconds=61))
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.state == SessionState.CANCELLED


def test_device_seconds_are_those_of_its_runtimes_times_their_gpus(project) -> None:
    session = budgeted(project, Budget(device_s=100), state=SessionState.READY)
    now = timezone.now()
    spans = [(10, 2), (40, 0)]  # 20 and 40 device-seconds
    for index, (seconds, gpus) in enumerate(spans):
        RuntimeSpan.objects.create(
            project=project, session_id=session.id, lease_sha256=str(index), gpus=gpus,
            started_at=now - timedelta(seconds=seconds), seen_at=now,
        )  # fmt: skip
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "run"
    RuntimeSpan.objects.filter(lease_sha256="1").update(started_at=now - timedelta(seconds=80))
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "stop"


def test_a_session_without_a_budget_is_left_alone(project) -> None:
    session = budgeted(
        project, Budget(), state=SessionState.READY, policy_version=9, policy_version_high=9
    )
    budgets.sessions_over_budget_stop()
    session.refresh_from_db()
    assert session.desired == "run" and names(session) == []


# -- Checkpoints that stay and go -------------------------------------------------------------------------------------


def committed(session: Session, *, days_old: float = 0, **fields: object) -> Checkpoint:
    at = timezone.now() - timedelta(days=days_old)
    given = {"kind": "model", "size_bytes": 1 << 30} | fields
    return Checkpoint.objects.create(
        session=session, state="committed", committed_at=at, step=1, **given
    )


def test_old_checkpoints_go_but_not_pinned_ones_nor_what_a_session_resumes_from(
    project, monkeypatch
) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    gone, pinned, young = (
        committed(session, days_old=8),
        committed(session, days_old=8),
        committed(session),
    )
    resume = committed(session, days_old=8, kind="state")
    view = checkpoints.checkpoint_pin(
        project=project, session_id=session.id, checkpoint_id=pinned.id, pinned=True
    )
    assert view.pinned
    leftovers.checkpoints_expire()
    assert session.checkpoints.count() == 4, "without the setting nothing goes"
    monkeypatch.setattr(settings, "CHECKPOINT_DAYS", 7)
    leftovers.checkpoints_expire()
    assert set(session.checkpoints.values_list("id", flat=True)) == {pinned.id, young.id, resume.id}
    assert Removal.objects.get().prefix == f"sessions/{session.id}/checkpoints/{gone.id}/"
    assert names(session) == ["checkpoint_deleted"]


def test_what_a_living_session_would_resume_from_cannot_be_deleted(project) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    resume = committed(session, kind="state")
    ids = {"project": project, "session_id": session.id, "checkpoint_id": resume.id}
    with pytest.raises(Conflict, match="resume from"):
        removal.checkpoint_delete(**ids)
    Session.objects.filter(id=session.id).update(state=SessionState.STOPPED)
    removal.checkpoint_delete(**ids)
    assert not session.checkpoints.exists()


def test_a_checkpoint_in_the_making_cannot_be_deleted(project) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    checkpoint = checkpoints.checkpoint_request(
        project=project, session_id=session.id, kind="model"
    )
    with pytest.raises(Conflict, match="requested"):
        removal.checkpoint_delete(
            project=project, session_id=session.id, checkpoint_id=checkpoint.id
        )


def test_a_project_over_its_storage_orders_no_checkpoint_but_its_budget_still_does(project) -> None:
    session = budgeted(
        project, Budget(steps=1), state=SessionState.READY, policy_version=2, policy_version_high=2
    )
    committed(session)
    call_command("set_quota", project.id, "--storage-gib", "1")
    project.refresh_from_db()
    with pytest.raises(QuotaExceeded, match=r"stores 1\.00 GiB"):
        checkpoints.checkpoint_request(project=project, session_id=session.id, kind="model")
    budgets.sessions_over_budget_stop()
    assert session.checkpoints.filter(state="requested").count() == 1


# -- Deletion ---------------------------------------------------------------------------------------------------------


def test_a_session_that_ended_is_deleted_with_its_record_and_bytes(project, s3) -> None:
    session, other = (factories.session_make(project, state=SessionState.STOPPED) for _ in range(2))
    Checkpoint.objects.create(session=session, kind="model", state="committed")
    folder = settings.DATA / "runtimes" / session.id
    folder.mkdir(parents=True)
    object_store.put(f"sessions/{session.id}/checkpoints/a/b", b"weights")
    object_store.put(f"sessions/{other.id}/checkpoints/a/b", b"others")
    services.session_delete(project=project, session_id=session.id)
    assert not Session.objects.filter(id=session.id).exists() and not names(session)
    removal.removals_finish()
    assert (
        object_store.get(f"sessions/{session.id}/checkpoints/a/b") is None and not folder.exists()
    )
    assert object_store.get(f"sessions/{other.id}/checkpoints/a/b") == b"others"
    assert not Removal.objects.exists()


@pytest.mark.system
def test_bytes_wait_for_a_store_that_is_away(project, monkeypatch) -> None:
    monkeypatch.setattr(settings, "S3_ENDPOINT_URL", "http://127.0.0.1:9")
    session = factories.session_make(project, state=SessionState.STOPPED)
    services.session_delete(project=project, session_id=session.id)
    removal.removals_finish()
    assert Removal.objects.filter(prefix=f"sessions/{session.id}/").exists()


def test_a_session_that_runs_is_not_deleted(project) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    with pytest.raises(Conflict, match="only one that has ended"):
        services.session_delete(project=project, session_id=session.id)
    kept = {"state": SessionState.FAILED, "launch_handle": {"launch": "a", "folder": "b"}}
    Session.objects.filter(id=session.id).update(**kept)  # its process has not ended yet
    with pytest.raises(Conflict, match="only one that has ended"):
        services.session_delete(project=project, session_id=session.id)
