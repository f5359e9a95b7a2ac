"""Every launcher gives a runtime what it is told to, and nothing of the server's own environment."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from console.scheduling.launchers import slurm
from console.scheduling.launchers.docker import DockerLauncher
from console.scheduling.launchers.docker_networks import ICC
from console.scheduling.launchers.kubernetes import manifests
from console.scheduling.launchers.protocol import Resources

RESOURCES = Resources(cpus=1, memory_bytes=1 << 30)
SECRET = "the server's alone"
TOLD = {"TINKERSCRIPT_LEASE": "tml-ls-x"}
SECRETS = (
    "AWS_SECRET_ACCESS_KEY",
    "DATABASE_URL",
    "REDIS_URL",
    "S3_SECRET_KEY",
    "TINKERSCRIPT_SECRET_KEY",
)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, SECRET)


def handle_of(launcher: Any, folder: Path) -> dict[str, Any]:
    names = {"session_id": "ses_1", "instance_id": "0123abcd", "folder": folder}
    handle: dict[str, Any] = launcher.new_handle(**names, gpus=0, devices=[])
    return handle


def test_a_container_gets_no_variable_of_the_server(tmp_path: Path) -> None:
    created: list[dict[str, Any]] = []

    def get(name: str) -> SimpleNamespace:
        if name == "tests":
            return SimpleNamespace(attrs={"Driver": "bridge", "Options": {ICC: "false"}})
        raise docker.errors.NotFound(name)

    def create(**description: Any) -> SimpleNamespace:
        created.append(description)
        return SimpleNamespace(id="0123", status="created", start=lambda: None)

    engine = SimpleNamespace(get=get, create=create, list=lambda **_: [])
    engine.containers = engine.networks = engine
    launcher = DockerLauncher(engine, image="runtime:1", network="tests", resources=RESOURCES)
    launcher.start(handle_of(launcher, tmp_path / "ses_1"), environment=TOLD)
    (asked,) = created
    assert asked["environment"] | TOLD == asked["environment"]
    assert SECRET not in str(asked) and not set(SECRETS) & set(asked["environment"])


def test_a_pod_gets_no_variable_of_the_server(tmp_path: Path) -> None:
    wanted = manifests.Wanted(
        launch="ses_1-0123abcd",
        folder=str(tmp_path / "ses_1"),
        environment=TOLD,
        namespace="runtimes",
        image="runtime:1",
        resources=RESOURCES,
        data=str(tmp_path),
    )
    job = manifests.job_make(wanted)
    secret = manifests.secret_make(wanted, {"name": "ts-1", "uid": "1"})
    assert secret["stringData"] == TOLD
    written = json.dumps([job, secret])
    assert SECRET not in written and not [name for name in SECRETS if name in written]


def test_a_job_of_slurm_gets_no_variable_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[tuple[str, ...]] = []

    def run(*command: str, **_: object) -> str:
        if command[0] == "sbatch":
            submitted.append(command)
            return "17"
        return ""

    monkeypatch.setattr(slurm, "_run", run)
    launcher = slurm.SlurmLauncher(["sh"], resources=RESOURCES)
    launcher.start(handle_of(launcher, tmp_path / "ses_1"), environment=TOLD)
    (command,) = submitted
    (exported,) = [word for word in command if word.startswith("--export=")]
    names = set(exported.removeprefix("--export=").split(","))
    assert set(TOLD) <= names and not names & {"ALL", "NONE", *SECRETS}
