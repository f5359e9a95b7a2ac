"""Which launcher is made, and what it refuses to take over."""

import importlib
from contextlib import suppress
from dataclasses import replace

import pytest

from console.scheduling.launchers import docker
from console.scheduling.launchers.choice import OtherLauncher, launcher_get, model_folders
from console.scheduling.launchers.options import LAUNCHERS, LauncherOptions
from console.scheduling.launchers.protocol import Launcher, LauncherUnavailable, Resources
from launching.backends import BACKENDS
from support import factories

OPTIONS = LauncherOptions(
    name="process", resources=Resources(memory_bytes=1 << 30, cpus=1), image="runtime:1"
)


@pytest.mark.django_db
def test_the_setting_names_the_launcher(settings, monkeypatch) -> None:
    settings.LAUNCHER = OPTIONS
    assert launcher_get().name == "process"
    settings.LAUNCHER = replace(OPTIONS, name="slurm")
    assert launcher_get().name == "slurm"


@pytest.mark.django_db
@pytest.mark.parametrize("name", LAUNCHERS)
def test_each_launcher_of_the_table_is_made_and_is_tested(name, settings, monkeypatch) -> None:
    monkeypatch.setattr(docker, "engine_connect", lambda: None)
    settings.LAUNCHER = replace(OPTIONS, name=name)
    with suppress(LauncherUnavailable):  # its cluster is not here
        assert launcher_get().name == name
    of_name = f"console.scheduling.launchers.{name}"
    importlib.import_module(of_name)
    (own,) = (each for each in Launcher.__subclasses__() if each.__module__.startswith(of_name))
    assert own.name == name
    assert name in BACKENDS, "the contract of launchers is not tested on it"


@pytest.mark.django_db
def test_a_launcher_that_nothing_makes_is_not_taken_for_a_process(settings) -> None:
    settings.LAUNCHER = replace(OPTIONS, name="other")
    with pytest.raises(ValueError, match="the launcher other"):
        launcher_get()


def test_runtimes_of_another_launcher_are_not_left_unwatched(project, settings) -> None:
    session = factories.session_make(
        project, state="ready", launcher="docker", launch_handle={"launch": "x"}
    )
    settings.LAUNCHER = OPTIONS
    with pytest.raises(OtherLauncher, match="TINKERSCRIPT_LAUNCHER=docker"):
        launcher_get()
    factories.Session.objects.filter(id=session.id).update(launch_handle=None)
    assert launcher_get().name == "process"


def test_every_folder_of_models_is_shown_to_containers(settings) -> None:
    settings.EXTRA_MODELS = {"mine": "/srv/mine"}
    assert [str(folder) for folder in model_folders()] == [
        str(settings.DATA / "models"),
        "/srv/mine",
    ]
