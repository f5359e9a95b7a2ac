"""The Docker launcher against a real engine: what a container may not do, and how an engine's
errors are reported.
"""

import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest
from docker.errors import APIError
from docker.models.containers import Container

from console.scheduling.launchers import docker as docker_launcher
from console.scheduling.launchers import docker_networks
from console.scheduling.launchers.docker import DockerLauncher
from console.scheduling.launchers.docker_networks import ICC, LAUNCH
from console.scheduling.launchers.protocol import (
    GATEWAY_PORT,
    LauncherUnavailable,
    RuntimeStatus,
    SlowToEnd,
)
from console.scheduling.processes import wait_until
from launching.backends import SMALL, WAIT, Backend

WAIT_S = 30


def lines_of(launcher, handle, last: str) -> list[str]:
    assert wait_until(lambda: last in launcher.logs(handle, lines=99), timeout_s=WAIT_S)
    return launcher.logs(handle, lines=99)


@pytest.mark.smoke
def test_a_container_has_no_rights_and_none_to_gain(docker_backend: Backend) -> None:
    program = f"id -u; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; touch /x; echo end; {WAIT}"
    launcher, handle = docker_backend.start(program)
    said = lines_of(launcher, handle, "end")
    assert "10001" in said
    rights = dict(line.split(":\t") for line in said if ":\t" in line)
    assert rights.pop("NoNewPrivs") == "1"
    assert len(rights) == 5 and set(rights.values()) == {"0000000000000000"}
    assert any("Read-only file system" in line for line in said)


def test_a_container_sees_its_folder_the_models_unchangeable_and_nothing_else_of_the_host(
    docker_backend: Backend, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "weights").write_text("w")
    models.chmod(0o755)  # as base models are: containers run as a user of their own
    (models / "weights").chmod(0o644)
    launcher = docker_backend.launcher(read_only=[models])
    program = f"cat {models}/weights; echo; touch {models}/mine; touch mine && echo written; ls {tmp_path}; ls /; "
    program += f"ls /var/run/docker.sock; grep -c . /proc/mounts; echo end; {WAIT}"
    launcher, handle = docker_backend.start(program, launcher)
    said = lines_of(launcher, handle, "end")
    assert "w" in said and "written" in said
    assert any("Read-only file system" in line for line in said)
    assert any("docker.sock: No such file" in line for line in said)
    container = docker_backend.client.containers.get(handle["launch"])
    binds = {mount["Destination"]: mount["RW"] for mount in container.attrs["Mounts"]}
    assert binds == {handle["folder"]: True, str(models): False}


def test_memory_processes_and_logs_are_bounded(docker_backend: Backend) -> None:
    launcher, handle = docker_backend.start("echo up; x=a; while :; do x=$x$x$x$x; done")
    assert wait_until(lambda: launcher.inspect(handle).state == "exited", timeout_s=60, poll_s=0.2)
    assert launcher.inspect(handle).code not in (0, None)
    bounds = docker_backend.client.containers.get(handle["launch"]).attrs["HostConfig"]
    assert bounds["Memory"] == bounds["MemorySwap"] == SMALL.memory_bytes
    assert bounds["PidsLimit"] == 4096 and bounds["NanoCpus"] == 10**9
    assert bounds["LogConfig"]["Config"]["max-size"] == "16m"
    assert bounds["NetworkMode"] not in ("default", "bridge", "host") and not bounds["Privileged"]


@pytest.mark.smoke
def test_runtimes_do_not_reach_one_another(docker_backend: Backend) -> None:
    serve = f"nc -ll -p 7000 -e echo hello & echo up; {WAIT}"
    launcher, first = docker_backend.start(serve)
    containers = docker_backend.client.containers
    (network,) = containers.get(first["launch"]).attrs["NetworkSettings"]["Networks"].values()
    call = ["sh", "-c", f"sleep 2 | nc -w 3 {network['IPAddress']} 7000"]
    assert wait_until(
        lambda: b"hello" in containers.get(first["launch"]).exec_run(call).output,
        timeout_s=WAIT_S,
        poll_s=0.2,
    )
    _, second = docker_backend.start(f"echo up; {WAIT}", launcher)
    assert b"hello" not in containers.get(second["launch"]).exec_run(call).output


def test_runtimes_beside_a_server_in_containers_do_not_reach_one_another(
    docker_backend: Backend,
) -> None:
    """As Compose has it: the network is somebody else's, and the server's containers are on it
    under their names.
    """
    engine = docker_backend.client
    shared = engine.networks.create(f"tinkerscript-tests-{secrets.token_hex(4)}", driver="bridge")
    launcher = docker_backend.launcher(network=shared.name)
    serve = f"nc -ll -p {GATEWAY_PORT} -e echo hello & echo up; {WAIT}"
    image = docker_backend.launcher()._image  # noqa: SLF001
    servers: list[Container] = []

    def server_start() -> Container:
        servers.append(engine.containers.create(image, environment={"PROGRAM": serve}))
        shared.connect(servers[-1], aliases=["lease"])
        servers[-1].start()
        return servers[-1]

    def reaches(container: Container, host: str) -> bool:
        call = ["sh", "-c", f"sleep 1 | nc -w 2 {host} {GATEWAY_PORT}"]
        return b"hello" in container.exec_run(call).output

    def all_of(handle: dict[str, Any]) -> tuple[Container, str]:
        return engine.containers.get(handle["launch"]), launcher.address(
            handle, port=GATEWAY_PORT
        ).partition(":")[0]

    try:
        server = server_start()
        (first, at_first), (second, at_second) = (
            all_of(docker_backend.start(serve, launcher)[1]) for _ in range(2)
        )
        for runtime, own, others in ((first, at_first, at_second), (second, at_second, at_first)):
            assert wait_until(
                lambda runtime=runtime, own=own: reaches(runtime, own), timeout_s=WAIT_S, poll_s=0.2
            )
            assert reaches(server, own) and reaches(runtime, "lease")
            assert not reaches(runtime, others)
        server.remove(force=True)
        replaced = server_start()
        handle = docker_backend.started[-1][1]
        launcher.logs(handle, lines=1)
        # a new reconciler's first look
        docker_backend.launcher(network=shared.name).inspect(handle)
        assert wait_until(
            lambda: reaches(replaced, at_second) and reaches(second, "lease"), timeout_s=WAIT_S
        )
    finally:
        docker_backend.clear()
        assert not [network.name for network in engine.networks.list(filters={"label": LAUNCH})]
        for server in servers[-1:]:
            server.remove(force=True)
        shared.remove()


def test_no_network_stays_of_a_runtime_that_did_not_start_or_that_somebody_removed(
    docker_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine has addresses for about 30, and no session starts after that."""
    engine = docker_backend.client
    shared = engine.networks.create(f"tinkerscript-tests-{secrets.token_hex(4)}", driver="bridge")
    launcher = docker_backend.launcher(network=shared.name)

    def left() -> list[str]:
        return [network.name for network in engine.networks.list(filters={"label": LAUNCH})]

    try:
        missing = docker_backend.launcher(network=shared.name, image="tinkerscript-no-such-image:1")
        for asked, devices in ((missing, []), (launcher, ["98", "99"])):
            fresh = docker_backend.new_handle(asked, gpus=len(devices), devices=devices)
            with pytest.raises(OSError):  # noqa: PT011 - an engine with GPUs says something else
                asked.start(fresh, environment={"PROGRAM": "exit 0"})
            assert not left()
        _, removed = docker_backend.start(f"echo up; {WAIT}", launcher)
        engine.containers.get(removed["launch"]).remove(force=True)
        launcher.stop(removed, grace_s=1)
        assert not left()
        _, forgotten = docker_backend.start(f"echo up; {WAIT}", launcher)
        engine.containers.get(forgotten["launch"]).remove(force=True)
        assert launcher.inspect(forgotten) == RuntimeStatus("gone") and left(), (
            "it may be of one that is being made"
        )
        monkeypatch.setattr(docker_networks, "UNUSED_S", 0.0)
        docker_backend.launcher(network=shared.name).inspect(forgotten)
        assert not left()
    finally:
        docker_backend.clear()
        shared.remove()


def test_gpus_that_are_not_there_are_an_os_error_and_leave_nothing(docker_backend: Backend) -> None:
    launcher = docker_backend.launcher()
    fresh = docker_backend.new_handle(launcher, gpus=2, devices=["0", "1"])
    if "nvidia" in docker_backend.client.info().get("Runtimes", {}):
        pytest.skip("this engine has GPUs")
    with pytest.raises(
        OSError, match="2 GPUs were asked for, and the engine's machine offers none.*gpu"
    ):
        launcher.start(fresh, environment={"PROGRAM": "exit 0"})
    assert launcher.inspect(fresh) == RuntimeStatus("gone")
    assert fresh["launch"] not in [
        found.name for found in docker_backend.client.containers.list(all=True)
    ]


def test_the_engine_is_asked_for_the_devices_by_name_and_for_none_otherwise(tmp_path: Path) -> None:
    engine = FakeEngine()
    launcher = DockerLauncher(engine, image="runtime:1", network="tests", resources=SMALL)
    for number, devices in enumerate((["2", "5"], [])):
        folder = tmp_path / str(number)
        names = {"session_id": f"ses_{number}", "instance_id": "0123abcd", "folder": folder}
        handle = launcher.new_handle(**names, gpus=len(devices), devices=devices)
        launcher.start(handle, environment={})
    two, none = engine.created
    assert [(request["DeviceIDs"], request["Count"]) for request in two["device_requests"]] == [
        (["2", "5"], 0)
    ]
    assert two["environment"]["TINKERSCRIPT_RUNTIME_GPUS"] == "2"
    assert two["environment"]["TINKERSCRIPT_RUNTIME_CPUS"] == "1"
    assert none["device_requests"] == [] and none["environment"]["TINKERSCRIPT_RUNTIME_GPUS"] == "0"


class FakeEngine:
    """Takes every container and says what it was asked for: ``created`` holds the arguments, in
    order.
    """

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.containers, self.networks = self, self

    def get(self, name: str) -> SimpleNamespace:
        if name == "tests":
            return SimpleNamespace(attrs={"Driver": "bridge", "Options": {ICC: "false"}})
        raise docker.errors.NotFound(f"no container {name}")

    def list(self, **_: object) -> list[object]:
        return []

    def create(self, **description: Any) -> SimpleNamespace:
        self.created.append(description)
        return SimpleNamespace(id="0123", status="created", start=lambda: None)


def test_an_image_that_is_not_there_is_an_os_error_that_names_it(docker_backend: Backend) -> None:
    launcher = docker_backend.launcher(image="tinkerscript-no-such-image:1")
    with pytest.raises(OSError, match="tinkerscript-no-such-image:1"):
        launcher.start(docker_backend.new_handle(launcher), environment={})


def test_a_container_that_was_made_and_not_started_is_gone_and_can_be_started(
    docker_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: Container) -> None:
        raise SystemExit

    launcher = docker_backend.launcher()
    fresh = docker_backend.new_handle(launcher)
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(Container, "start", killed)
        launcher.start(fresh, environment={"PROGRAM": f"echo up; {WAIT}"})
    assert docker_backend.client.containers.get(fresh["launch"]).status == "created"
    assert launcher.inspect(fresh) == RuntimeStatus("gone")
    docker_backend.start("", launcher, fresh)
    assert launcher.inspect(fresh) == RuntimeStatus("running")


@pytest.mark.smoke
def test_an_engine_that_does_not_answer_is_away_and_no_runtime_is_reported_as_gone(
    docker_backend: Backend,
) -> None:
    launcher, handle = docker_backend.start(f"echo up; {WAIT}")
    unreachable = docker.DockerClient("tcp://127.0.0.1:9", version="1.41", timeout=2)
    broken = docker_backend.launcher(client=unreachable)
    for ask in (
        lambda: broken.inspect(handle),
        lambda: broken.stop(handle, grace_s=0),
        lambda: broken.logs(handle, lines=1),
        lambda: broken.start(handle, environment={}),
    ):
        with pytest.raises(LauncherUnavailable):
            ask()
    unreachable.close()
    assert launcher.inspect(handle) == RuntimeStatus("running")


def test_many_looks_cost_one_question(
    docker_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, handle = docker_backend.start(f"echo up; {WAIT}")
    asked, listing = [], docker_backend.client.api.containers
    monkeypatch.setattr(
        docker_backend.client.api,
        "containers",
        lambda **options: asked.append(1) or listing(**options),
    )
    unknown = [{"launch": f"ses_{secrets.token_hex(8)}-1"} for _ in range(50)]
    assert [launcher.inspect(each).state for each in [handle, *unknown]] == ["running"] + [
        "gone"
    ] * 50
    assert len(asked) <= 2


def test_a_container_whose_removal_takes_long_is_not_taken_for_gone(
    docker_backend: Backend, monkeypatch
) -> None:
    """The engine responds 409 to a second request for it, and the container has its devices
    still.
    """
    launcher, handle = docker_backend.start(f"echo up; {WAIT}")

    def under_way(*_: object, **__: object) -> None:
        raise APIError("removal is already in progress", response=SimpleNamespace(status_code=409))

    monkeypatch.setattr(docker_launcher, "REMOVE_WAIT_S", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(Container, "remove", under_way)
        for wait_s in (0.1, 600.0):  # the second time it only looks
            monkeypatch.setattr(docker_launcher, "REMOVE_WAIT_S", wait_s)
            with pytest.raises(SlowToEnd):
                launcher.stop(handle, grace_s=wait_s - 0.1)
    launcher.stop(handle, grace_s=0)
    assert launcher.inspect(handle) == RuntimeStatus("gone")
