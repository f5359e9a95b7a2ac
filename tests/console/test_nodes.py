"""A session over several machines: where it may be made, and what its launcher is told."""

import pytest

from console.errors import InvalidRequest
from console.scheduling.launch import runtime_launch
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.sessions.models import Session
from console.sessions.services import session_create, session_resume
from support import factories
from support.reconciler_world import FakeLauncher
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import SessionCreate

CPUS = Resources(memory_bytes=64 << 30, cpus=8)


def body(**config: object) -> SessionCreate:
    return SessionCreate(base_model=factories.BASE_MODEL, config=SessionConfig(**config))


@pytest.fixture
def slurm(settings) -> None:
    settings.LAUNCHER = LauncherOptions(name="slurm", resources=CPUS)


def refused_field(project, **config: object) -> tuple[str, str]:
    with pytest.raises(InvalidRequest) as refused:
        session_create(project=project, body=body(**config))
    (field,) = refused.value.details["fields"]
    return field["field"], refused.value.message


@pytest.mark.parametrize("name", ["process", "docker"])
def test_a_launcher_of_one_machine_refuses_more(db, project, settings, name: str) -> None:
    settings.LAUNCHER = LauncherOptions(name=name, resources=CPUS)
    field, message = refused_field(project, trainer_ranks=2, nodes=2)
    assert (
        field == "config.nodes"
        and "TINKERSCRIPT_LAUNCHER=ray, slurm or kubernetes" in message
        and message.endswith(f"has {name}.")
    )


def test_pods_without_a_volume_in_common_are_refused_and_with_one_they_are_taken(
    db, project, settings
) -> None:
    settings.LAUNCHER = LauncherOptions(name="kubernetes", resources=CPUS)
    field, message = refused_field(project, trainer_ranks=2, nodes=2)
    assert field == "config.nodes" and "no volume in common" in message
    settings.LAUNCHER = LauncherOptions(name="kubernetes", resources=CPUS, kubernetes_claim="data")
    assert session_create(project=project, body=body(trainer_ranks=2, nodes=2)).config["nodes"] == 2


def test_several_machines_with_gpus_have_as_many_each(db, project, settings) -> None:
    settings.LAUNCHER = LauncherOptions(
        name="slurm", resources=Resources(memory_bytes=64 << 30, cpus=8, gpus=4)
    )
    session = session_create(project=project, body=body(trainer_ranks=4, nodes=2))
    assert session.devices == 4
    field, _ = refused_field(project, trainer_ranks=8, nodes=2, devices=3)
    assert field == "config.devices"


def test_ranks_that_the_machines_cannot_share_evenly_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="nodes\n.*must divide trainer_ranks"):
        SessionConfig(trainer_ranks=3, nodes=2)
    with pytest.raises(ValueError, match="must divide trainer_ranks"):
        SessionConfig(nodes=2)


def test_the_launcher_is_told_of_several_machines_alone(db, project, slurm) -> None:
    for nodes in (1, 2):
        session = session_create(project=project, body=body(trainer_ranks=4, nodes=nodes))
        runtime_launch(session, launcher=FakeLauncher(), warm=None, known=(), kept=0)
        handle = Session.objects.get(id=session.id).launch_handle
        assert handle.get("nodes", "not said") == (2 if nodes == 2 else "not said")


def test_another_number_of_ranks_is_a_multiple_of_the_machines(db, project, slurm) -> None:
    session = session_create(project=project, body=body(trainer_ranks=2, nodes=2))
    Session.objects.filter(id=session.id).update(state="suspended")
    with pytest.raises(InvalidRequest, match="spread over 2 machines") as refused:
        session_resume(project=project, session_id=session.id, trainer_ranks=3)
    assert refused.value.details["fields"][0]["field"] == "trainer_ranks"
    assert (
        session_resume(project=project, session_id=session.id, trainer_ranks=4).config[
            "trainer_ranks"
        ]
        == 4
    )
