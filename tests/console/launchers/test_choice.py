"""Which launcher is made, and what it refuses to take over."""

from dataclasses import replace

import pytest

from console.scheduling.launchers.choice import OtherLauncher, launcher_get, model_folders
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
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
