"""Sessions that are to be started after their base model was taken from the server."""

import pytest

from console.errors import InvalidRequest, UnknownBaseModel
from console.live.models import EventRecord
from console.sessions import services
from support import factories
from support.reconciler_world import READY, state_of
from tinkerscript.wire.sessions import SessionState


@pytest.fixture
def model(settings, tmp_path):
    """A base model of the settings: its folder."""
    folder = tmp_path / "mine"
    folder.mkdir()
    settings.EXTRA_MODELS = {"mine": str(folder)}
    return folder


@pytest.mark.parametrize("gone", ["folder", "name"])
def test_a_session_that_is_restarted_without_its_base_model_is_suspended_with_its_name(
    world, project, model, settings, gone
):
    session = factories.session_make(project, base_model="mine")
    world.tick()
    world.beat(READY)
    world.launcher.die(-9)
    model.rmdir()
    if gone == "name":
        settings.EXTRA_MODELS = {}
    world.tick(2)
    assert state_of(session) == SessionState.SUSPENDED
    said = EventRecord.objects.filter(session_id=session.id).latest("id").data
    assert (said["from"], said["to"]) == ("queued", "suspended") and "mine" in said["reason"]
    world.tick(20)
    with pytest.raises((InvalidRequest, UnknownBaseModel), match="mine"):
        services.session_wake(session=session)
    assert not world.launcher.alive and state_of(session) == SessionState.SUSPENDED
    model.mkdir()
    settings.EXTRA_MODELS = {"mine": str(model)}
    services.session_wake(session=session)
    world.tick()
    assert state_of(session) == SessionState.PROVISIONING and session.restarts == 0


def test_a_session_that_never_ran_fails_at_once_without_its_base_model(world, project, model):
    session = factories.session_make(project, base_model="mine")
    model.rmdir()
    world.tick()
    assert state_of(session) == SessionState.FAILED and session.failure["code"] == "model_gone"
    assert "mine" in session.failure["cause"] and str(model) in session.failure["cause"]
