"""Sessions that begin from what their project has trained: which checkpoints, with which options,
and what is kept.
"""

from typing import Any

import pytest
from django.utils import timezone

from console.audit.models import AuditRecord
from console.errors import Conflict, Forbidden, InvalidRequest
from console.live.models import EventRecord
from console.sessions import services
from console.sessions.checkpoints import leftovers, removal
from console.sessions.models import Checkpoint, Session
from console.sessions.runtime.leases import lease_issue, runtime_register
from console.sessions.runtime.uploads import KEPT_STATES, _prune
from console.tinker.checkpoints import checkpoints_replaced_remove
from console.tinker.models import TinkerCheckpoint, TinkerModel, TinkerSession
from console.tinker.starting_points import starting_point
from console.users.keys import key_create
from support import factories
from support.reconciler_world import state_of
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import SessionCreate, SessionKind, SessionState

FILES = [{"path": "config.json", "size_bytes": 2, "sha256": "0" * 64}]


def saved(
    project, kind: str = "model", *, step: int = 8, config: SessionConfig | None = None, **fields
) -> Checkpoint:
    """A committed checkpoint of a session of its own, which has ended."""
    session = factories.session_make(project, config=config, state=SessionState.STOPPED, **fields)
    return Checkpoint.objects.create(
        session=session, kind=kind, state="committed", step=step, files=FILES
    )


def of_client(
    project, segment: str = "weights", name: str = "final", **fields: Any
) -> TinkerCheckpoint:
    """What a Tinker client saved."""
    checkpoint = saved(project, "state" if segment == "weights" else "model")
    Session.objects.filter(id=checkpoint.session_id).update(kind=SessionKind.TINKER)
    of = TinkerSession.objects.create(project=project)
    model = TinkerModel.objects.create(
        id=f"{of.id}:train:0",
        tinker_session=of,
        session=checkpoint.session,
        number=0,
        base_model=factories.BASE_MODEL,
        lora={"rank": 8},
    )
    return TinkerCheckpoint.objects.create(
        model=model,
        checkpoint=checkpoint,
        segment=segment,
        name=name,
        seq_id=1,
        lora={"rank": 8},
        **fields,
    )


def begin(project, name: str, *, key=None, **config) -> Session:
    body = SessionCreate(base_model=name, config=SessionConfig(**config))
    return services.session_create(
        project=project, body=body, key=key, start=starting_point(project=project, name=name)
    )


def registered(session: Session):
    Session.objects.filter(id=session.id).update(
        state=SessionState.PROVISIONING, launch_handle={"launch": "test"}
    )
    lease_issue(session=session)
    return runtime_register(session=session)


@pytest.fixture(autouse=True)
def urls(monkeypatch) -> None:
    monkeypatch.setattr(
        "console.object_store.client.read_url", lambda key, expires_s: f"s3://{key}"
    )


# -- What it begins at ------------------------------------------------------------------------------------------------


def test_a_model_stands_in_the_base_models_place_and_the_optimizer_begins_anew(project) -> None:
    model = saved(project)
    session = begin(project, model.id, grpo_n=4)
    assert session.base_model == factories.BASE_MODEL and session.config["grpo_n"] == 4
    told = registered(session)
    assert told.serves.checkpoint_id == model.id and told.serves.files[0].url.endswith(
        f"{model.id}/config.json"
    )
    assert told.starts_from is None and told.resume_from is None
    assert (told.started_from.kind, told.started_from.step) == ("model", 8)


def test_a_state_is_step_0_over_the_base_of_its_own_session(project) -> None:
    model = saved(project)
    first = begin(project, model.id)
    state = Checkpoint.objects.create(
        session=first, kind="state", state="committed", step=3, files=FILES
    )
    session = begin(project, state.id)
    told = registered(session)
    assert (told.starts_from.checkpoint_id, told.starts_from.step, told.resume_from) == (
        state.id,
        0,
        None,
    )
    assert told.serves.checkpoint_id == model.id, "an adapter's base is there, and the tokenizer"
    own = Checkpoint.objects.create(
        session=session, kind="state", state="committed", step=0, files=FILES
    )
    told = runtime_register(session=session)
    assert (told.resume_from.checkpoint_id, told.starts_from.checkpoint_id) == (own.id, state.id)
    Checkpoint.objects.filter(id=model.id).update(state="failed", failure="its SHA-256 is another")
    with pytest.raises(InvalidRequest, match=f"trained from the model {model.id}"):
        begin(project, state.id)


def test_what_a_tinker_client_saved_is_begun_from_by_its_path_and_by_its_id(project) -> None:
    for segment in ("weights", "sampler_weights"):
        named = of_client(project, segment)
        for name in (named.path, named.checkpoint_id):
            told = registered(begin(project, name))
            assert told.serves.checkpoint_id == named.checkpoint_id and told.starts_from is None, (
                "its files are no state"
            )
            assert told.started_from.tinker_path == named.path


# -- Options ----------------------------------------------------------------------------------------------------------


def test_options_that_a_state_depends_on_are_its_own_where_none_are_given_and_others_are_refused(
    project,
) -> None:
    config = SessionConfig(lora_rank=8, lora_alpha=16, zero_stage=1, grpo_n=4)
    state = saved(project, "state", config=config)
    session = begin(project, state.id, learning_rate=1e-4)
    kept = {
        name: session.config[name]
        for name in ("lora_rank", "lora_alpha", "zero_stage", "grpo_n", "learning_rate")
    }
    assert kept == {
        "lora_rank": 8,
        "lora_alpha": 16.0,
        "zero_stage": 1,
        "grpo_n": 8,
        "learning_rate": 1e-4,
    }
    for given, said in (
        ({"lora_rank": 0}, "saved with LoRA adapters .lora_rank=8., not with all weights trained"),
        ({"lora_rank": 16}, "not with LoRA adapters .lora_rank=16."),
        ({"zero_stage": 3}, "saved with zero_stage=1, not with zero_stage=3"),
        ({"dtype": "bfloat16"}, "saved with dtype=float32, not with dtype=bfloat16"),
    ):
        with pytest.raises(InvalidRequest, match=said) as refused:
            begin(project, state.id, **given)
        assert "kind model" in refused.value.hint
        assert refused.value.details["fields"][0]["field"].startswith("config.")
    with pytest.raises(InvalidRequest, match="not with LoRA adapters"):
        begin(project, saved(project, "state").id, lora_rank=8)
    assert begin(project, saved(project, config=config).id).config["lora_rank"] == 0, (
        "a model has weights alone"
    )
    assert begin(project, state.id, trainer_ranks=2).config["trainer_ranks"] == 2


def test_options_that_clash_with_the_states_are_refused_in_words(project) -> None:
    state = saved(project, "state", config=SessionConfig(lora_rank=8))
    with pytest.raises(InvalidRequest, match="reads at most"):
        begin(project, state.id, max_context_length=1_000_000)
    Session.objects.filter(id=state.session_id).update(config={"lora_rank": 0})
    with pytest.raises(InvalidRequest, match="lora_rank"):
        begin(project, state.id, lora_rank=4)


def test_a_key_may_begin_from_what_it_may_train(project, alice) -> None:
    model = saved(project)
    make = {"project": project, "user": alice, "name": "k", "scopes": factories.EVERY_SCOPE}
    key, _ = key_create(**make, allowed_models=["another"])
    with pytest.raises(Forbidden, match=factories.BASE_MODEL):
        begin(project, model.id, key=key)
    key, _ = key_create(**make, allowed_models=[factories.BASE_MODEL])
    assert begin(project, model.id, key=key).key == key


# -- What cannot be begun from ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["requested", "uploading", "failed"])
def test_what_is_not_committed_is_refused_with_its_state(project, state) -> None:
    model = saved(project)
    Checkpoint.objects.filter(id=model.id).update(state=state)
    with pytest.raises(Conflict, match=f"is {state}") as refused:
        begin(project, model.id)
    assert refused.value.hint


def test_a_base_model_that_left_the_catalogue_is_named_with_what_to_do(project, settings) -> None:
    model = saved(project, base_model="gone")
    with pytest.raises(InvalidRequest, match=f"{model.id} was trained from gone") as refused:
        begin(project, model.id)
    assert "add_model" in refused.value.hint


def test_files_for_other_programs_are_refused(project) -> None:
    with pytest.raises(InvalidRequest, match="does not train") as refused:
        begin(project, of_client(project, "external_weights").path)
    assert "save_state" in refused.value.hint


def test_a_session_whose_checkpoint_was_taken_back_fails_with_that_before_a_runtime_is_tried(
    world, project
) -> None:
    model = saved(project)
    session = begin(project, model.id)
    Checkpoint.objects.filter(id=model.id).update(state="failed", failure="its SHA-256 is another")
    world.tick()
    assert state_of(session) == SessionState.FAILED and not world.launcher.alive
    assert "its SHA-256 is another" in session.failure["cause"]


# -- What is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "state"])
def test_what_a_session_began_from_stays_until_that_one_has_ended(project, settings, kind) -> None:
    checkpoint = saved(project, kind)
    session = begin(project, checkpoint.id)
    of = {"project": project, "session_id": checkpoint.session_id}
    for remove in (
        lambda: removal.checkpoint_delete(**of, checkpoint_id=checkpoint.id),
        lambda: services.session_delete(**of),
    ):
        with pytest.raises(
            Conflict, match=f"Session {session.id} began from the checkpoint {checkpoint.id}"
        ):
            remove()
    settings.CHECKPOINT_DAYS = 1
    Checkpoint.objects.update(committed_at="2020-01-01T00:00:00Z")
    Session.objects.filter(id=checkpoint.session_id).update(state_since="2020-01-01T00:00:00Z")

    def sweep() -> bool:
        leftovers.ended_states_trim()
        leftovers.checkpoints_expire()
        return Checkpoint.objects.exists()

    assert sweep()
    services.session_stop(project=project, session_id=session.id)
    assert not sweep()
    session.refresh_from_db()
    assert session.started_from["checkpoint_id"] == checkpoint.id, "the record stays"


def test_a_running_session_keeps_the_state_that_another_began_from(project) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    states = [
        Checkpoint.objects.create(
            session=session, kind="state", state="committed", step=step, files=FILES
        )
        for step in range(1, KEPT_STATES + 3)
    ]
    begin(project, states[0].id)
    _prune(session)
    left = list(session.checkpoints.order_by("step").values_list("step", flat=True))
    assert left == [1, *range(3, KEPT_STATES + 3)]


def test_what_a_tinker_client_let_expire_stays_while_a_session_needs_it(project) -> None:
    named = of_client(project)
    session = begin(project, named.path)
    TinkerCheckpoint.objects.update(expires_at=timezone.now().replace(year=2020))
    checkpoints_replaced_remove()
    assert Checkpoint.objects.filter(id=named.checkpoint_id).exists()
    services.session_stop(project=project, session_id=session.id)
    checkpoints_replaced_remove()
    assert not Checkpoint.objects.filter(id=named.checkpoint_id).exists()


# -- REST -------------------------------------------------------------------------------------------------------------


def post(client, path: str, name: str, **headers: str):
    return client.post(path, {"base_model": name}, content_type="application/json", headers=headers)


def test_the_owner_and_a_member_begin_from_it_and_an_outsider_finds_nothing(
    project, member, api_key, outsider_key, client_for
) -> None:
    model, named = saved(project), of_client(project)
    clients = [client_for(secret) for secret in (api_key, factories.key_make(project, member))]
    for client in clients:
        for name in (model.id, named.path, named.checkpoint_id):
            plan, made = (
                post(client, "/v1/sessions/dry-run", name),
                post(client, "/v1/sessions", name),
            )
            assert (plan.status_code, made.status_code) == (200, 201), made.content
            told = made.json()
            assert told["base_model"] == plan.json()["base_model"] == factories.BASE_MODEL
            assert told["started_from"] == plan.json()["started_from"]
            assert told["started_from"]["checkpoint_id"] in (model.id, named.checkpoint_id)
            assert told["served_checkpoint_id"] is None and plan.json()["memory"] is not None
    stranger = client_for(outsider_key)
    # to be sampled, not to be gone on with as one's own
    TinkerCheckpoint.objects.update(public=True)
    for path in ("/v1/sessions", "/v1/sessions/dry-run"):
        for name, nothing in (
            (model.id, "ckp_nothing"),
            (named.checkpoint_id, "ckp_nothing"),
            (named.path, "tinker://tnk_0:train:0/weights/final"),
        ):
            theirs, none = post(stranger, path, name), post(stranger, path, nothing)
            assert theirs.status_code == none.status_code == 404
            plain = [
                each.json()["error"]["message"].replace(of, "...")
                for each, of in ((theirs, name), (none, nothing))
            ]
            assert plain[0] == plain[1]
    assert post(stranger, "/v1/sessions", "tinker://what").status_code == 400


def test_it_is_made_once_and_written_down(project, api_key, client_for) -> None:
    model, client = saved(project), client_for(api_key)
    first, again = (
        post(client, "/v1/sessions", model.id, **{"Idempotency-Key": "k"}) for _ in range(2)
    )
    assert first.json()["id"] == again.json()["id"]
    assert model.id in AuditRecord.objects.latest("id").content
    told = EventRecord.objects.get(session_id=first.json()["id"], data__name="started_from").data
    assert (told["checkpoint_id"], told["kind"], told["step"]) == (model.id, "model", 8)


def test_its_checkpoints_came_from_it_and_from_what_that_came_from(
    project, api_key, client_for
) -> None:
    model = saved(project)
    first = begin(project, model.id)
    state = Checkpoint.objects.create(
        session=first, kind="state", state="committed", step=3, files=FILES
    )
    made = Checkpoint.objects.create(
        session=begin(project, state.id), kind="model", state="committed", step=1
    )

    def told() -> dict[str, Any]:
        return (
            client_for(api_key)
            .get(f"/v1/sessions/{made.session_id}/checkpoints/{made.id}/provenance")
            .json()
        )

    assert [(one["checkpoint_id"], one["kind"]) for one in told()["ancestors"]] == [
        (state.id, "state"),
        (model.id, "model"),
    ]
    assert told()["ancestry_end"] == "base_model"
    services.session_stop(project=project, session_id=first.id)
    services.session_stop(project=project, session_id=made.session_id)
    Checkpoint.objects.filter(id=model.id).delete()
    assert [one["is_deleted"] for one in told()["ancestors"]] == [False, True]
    assert told()["ancestry_end"] == "unknown"
