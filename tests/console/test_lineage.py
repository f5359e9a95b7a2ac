"""What a checkpoint was made of: the states before it, the base model, options and files."""

import hashlib
import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from console.live.models import EventRecord
from console.live.services import event_record
from console.sessions.models import Checkpoint, Session
from console.tinker.models import TinkerCheckpoint, TinkerModel, TinkerSession
from console.users.models import Project
from support import factories
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionKind

FILES = [{"path": "model.safetensors", "size_bytes": 5, "sha256": "a" * 64}]
begun_at = timezone.now()


def saved(
    session: Session, kind: str, step: int, *, minute: int, state: str = "committed"
) -> Checkpoint:
    made = Checkpoint.objects.create(
        session=session, kind=kind, step=step, state=state, files=FILES, size_bytes=5
    )
    at = begun_at + timedelta(minutes=minute)
    Checkpoint.objects.filter(id=made.id).update(created_at=at)
    if state == "committed":
        data = {
            "name": "checkpoint_committed",
            "checkpoint_id": made.id,
            "kind": kind,
            "step": step,
        }
        told = event_record(session_id=session.id, kind=EventKind.EVENT, data=data)
        EventRecord.objects.filter(id=told.id).update(at=at)
    return made


def model_make(project: Project, source: dict | None) -> Checkpoint:
    """The saved state of a Tinker model that began from ``source``."""
    session = factories.session_make(project, kind=SessionKind.TINKER)
    of = TinkerSession.objects.create(project=project)
    model = TinkerModel.objects.create(
        id=f"{of.id}:train:0",
        tinker_session=of,
        session=session,
        number=0,
        base_model="m",
        lora={},
        source=source,
    )
    checkpoint = saved(session, "state", 1, minute=0)
    TinkerCheckpoint.objects.create(
        model=model, checkpoint=checkpoint, segment="weights", name="final", seq_id=1, lora={}
    )
    return checkpoint


@pytest.fixture
def client(api_key: str, client_for) -> Client:
    return client_for(api_key)


def provenance(client: Client, checkpoint: Checkpoint) -> dict:
    return client.get(
        f"/v1/sessions/{checkpoint.session_id}/checkpoints/{checkpoint.id}/provenance"
    ).json()


def test_a_checkpoint_of_episodes_came_from_each_state_that_was_saved_before_it(
    project, client
) -> None:
    session = factories.session_make(project, name="sums")
    five, ten = saved(session, "state", 5, minute=5), saved(session, "state", 10, minute=10)
    five_id = five.id
    saved(session, "state", 11, minute=11, state="failed")
    saved(session, "model", 9, minute=9)  # an export: nothing goes on from it
    made = saved(session, "model", 12, minute=12)
    saved(session, "state", 12, minute=13)  # of the same weights, and not before it
    five.delete()  # automatic states are kept two at a time
    told = provenance(client, made)
    states = [(one["checkpoint_id"], one["step"], one["is_deleted"]) for one in told["ancestors"]]
    assert states == [(ten.id, 10, False), (five_id, 5, True)]
    assert (told["ancestry_end"], told["loads_recorded"]) == ("base_model", True)
    assert (told["base_model"], told["step"], told["session_name"]) == (
        session.base_model,
        12,
        "sums",
    )
    assert told["files"] == FILES and told["hashes_checked"]
    text = json.dumps(told["config"], sort_keys=True, separators=(",", ":"))
    assert told["config_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert [one["step"] for one in provenance(client, ten)["ancestors"]] == [5]


def test_the_state_that_a_restart_began_from_is_named_and_more_of_them_are_cut_with_a_word(
    project, client
) -> None:
    session = factories.session_make(project)
    for step in range(1, 23):
        saved(session, "state", step, minute=step)
    # a runtime went on from state 22 and exports before another step
    made = saved(session, "model", 22, minute=40)
    told = provenance(client, made)
    assert [one["step"] for one in told["ancestors"]] == list(range(22, 2, -1))
    assert told["ancestry_end"] == "unknown"


def test_a_model_of_uploaded_weights_did_not_come_from_the_base_model(project, client) -> None:
    uploaded = model_make(project, None)
    assert provenance(client, uploaded)["ancestry_end"] == "base_model"
    data = {"name": "checkpoint_uploaded", "checkpoint_id": uploaded.id}
    event_record(session_id=uploaded.session_id, kind=EventKind.EVENT, data=data)
    made = model_make(
        project, {"path": "tinker://up", "checkpoint_id": uploaded.id, "optimizer": False}
    )
    for checkpoint in (uploaded, made):
        told = provenance(client, checkpoint)
        assert (told["ancestry_end"], told["loads_recorded"]) == ("upload", False)


def test_runs_with_the_same_options_have_the_same_hash_whatever_release_wrote_them(
    project, client
) -> None:
    made, older = (saved(factories.session_make(project), "model", 1, minute=1) for _ in range(2))
    known = {name: value for name, value in older.session.config.items() if name != "seed"}
    # of a release without this option
    Session.objects.filter(id=older.session_id).update(config=known)
    told, of_older = provenance(client, made), provenance(client, older)
    assert (
        told["config"] == of_older["config"] and told["config_sha256"] == of_older["config_sha256"]
    )


def test_files_that_are_not_hashed_yet_are_not_told_as_checked(project, client) -> None:
    made = saved(factories.session_make(project), "model", 1, minute=1)
    Checkpoint.objects.filter(id=made.id).update(unverified=True)
    assert provenance(client, made)["hashes_checked"] is False


def test_a_tinker_model_came_from_the_state_that_it_was_created_from_and_that_one_from_another(
    project, client
) -> None:
    first = model_make(project, None)
    second = model_make(
        project, {"path": "tinker://one", "checkpoint_id": first.id, "optimizer": True}
    )
    third = model_make(project, {"path": "tinker://two", "copy_of": second.id, "once": ""})
    told = [
        (one["checkpoint_id"], one["tinker_path"]) for one in provenance(client, third)["ancestors"]
    ]
    assert told == [(second.id, "tinker://two"), (first.id, "tinker://one")]


def test_a_state_of_another_project_is_named_by_its_path_alone(project, client) -> None:
    foreign = model_make(factories.user_make("eve").memberships.get().project, None)
    made = model_make(
        project, {"path": "tinker://theirs", "checkpoint_id": foreign.id, "optimizer": False}
    )
    told = provenance(client, made)
    (state,) = told["ancestors"]
    assert (state["checkpoint_id"], state["session_id"], state["tinker_path"]) == (
        None,
        None,
        "tinker://theirs",
    )
    assert told["ancestry_end"] == "unknown"
