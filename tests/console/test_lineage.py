"""What a checkpoint was made of: the states before it, the base model, options and files."""

import hashlib
import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from console.sessions.models import Checkpoint, Session
from console.tinker.models import TinkerCheckpoint, TinkerModel, TinkerSession
from console.users.models import Project
from support import factories
from tinkerscript.wire.sessions import SessionKind

FILES = [{"path": "model.safetensors", "size_bytes": 5, "sha256": "a" * 64}]
begun_at = timezone.now()


def saved(session: Session, kind: str, step: int, *, minute: int, state: str = "committed") -> Checkpoint:
    made = Checkpoint.objects.create(session=session, kind=kind, step=step, state=state, files=FILES, size_bytes=5)
    Checkpoint.objects.filter(id=made.id).update(created_at=begun_at + timedelta(minutes=minute))
    return made


def model_make(project: Project, source: dict | None) -> Checkpoint:
    """The saved state of a Tinker model that began from ``source``."""
    session = factories.session_make(project, kind=SessionKind.TINKER)
    of = TinkerSession.objects.create(project=project)
    model = TinkerModel.objects.create(
        id=f"{of.id}:train:0", tinker_session=of, session=session, number=0, base_model="m", lora={}, source=source
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
    return client.get(f"/v1/sessions/{checkpoint.session_id}/checkpoints/{checkpoint.id}/provenance").json()


def test_a_checkpoint_of_episodes_came_from_each_state_that_was_saved_before_it(project, client) -> None:
    session = factories.session_make(project, name="sums")
    five, ten = saved(session, "state", 5, minute=5), saved(session, "state", 10, minute=10)
    saved(session, "state", 11, minute=11, state="failed")
    saved(session, "model", 9, minute=9)  # an export: nothing goes on from it
    made = saved(session, "model", 12, minute=12)
    saved(session, "state", 12, minute=13)  # of the same weights, and not before it
    told = provenance(client, made)
    assert [(one["checkpoint_id"], one["step"]) for one in told["ancestors"]] == [(ten.id, 10), (five.id, 5)]
    assert (told["base_model"], told["step"], told["session_name"]) == (session.base_model, 12, "sums")
    assert told["files"] == FILES and told["hashes_checked"]
    text = json.dumps(told["config"], sort_keys=True, separators=(",", ":"))
    assert told["config_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert provenance(client, five)["ancestors"] == []


def test_files_that_are_not_hashed_yet_are_not_told_as_checked(project, client) -> None:
    made = saved(factories.session_make(project), "model", 1, minute=1)
    Checkpoint.objects.filter(id=made.id).update(unverified=True)
    assert provenance(client, made)["hashes_checked"] is False


def test_a_tinker_model_came_from_the_state_that_it_was_created_from_and_that_one_from_another(project, client) -> None:
    first = model_make(project, None)
    second = model_make(project, {"path": "tinker://one", "checkpoint_id": first.id, "optimizer": True})
    third = model_make(project, {"path": "tinker://two", "copy_of": second.id, "once": ""})
    told = [(one["checkpoint_id"], one["tinker_path"]) for one in provenance(client, third)["ancestors"]]
    assert told == [(second.id, "tinker://two"), (first.id, "tinker://one")]


def test_a_state_of_another_project_is_named_by_its_path_alone(project, client) -> None:
    foreign = model_make(factories.user_make("eve").memberships.get().project, None)
    made = model_make(project, {"path": "tinker://theirs", "checkpoint_id": foreign.id, "optimizer": False})
    assert provenance(client, made)["ancestors"] == [
        {"checkpoint_id": None, "session_id": None, "kind": None, "step": None, "tinker_path": "tinker://theirs"}
    ]
