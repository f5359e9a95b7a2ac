"""The Docker launcher against a real engine: what a container may not do, and how an engine's refusals are told."""

import secrets
from pathlib import Path

import docker
import pytest
from launching.places import SMALL, WAIT, Place

from console.scheduling.launchers.docker import DockerLauncher
from console.scheduling.launchers.protocol import LauncherAway, Resources, Sight
from console.scheduling.processes import wait_until

WAIT_S = 30


def client_of(place: Place) -> docker.DockerClient:
    return place.launcher()._client


def launcher_like(place: Place, **changes) -> DockerLauncher:
    """One like the place's, but for ``changes``."""
    like = place.launcher()
    same = {"image": like._image, "network": like._network, "resources": SMALL}
    return DockerLauncher(like._client, **(same | changes))


def lines_of(launcher, handle, last: str) -> list[str]:
    assert wait_until(lambda: last in launcher.logs(handle, lines=99), timeout_s=WAIT_S)
    return launcher.logs(handle, lines=99)


def test_a_container_has_no_rights_and_none_to_gain(docker_place: Place) -> None:
    program = f"id -u; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; touch /x; echo end; {WAIT}"
    launcher, handle = docker_place.start(program)
    said = lines_of(launcher, handle, "end")
    assert "10001" in said
    rights = dict(line.split(":\t") for line in said if ":\t" in line)
    assert rights.pop("NoNewPrivs") == "1"
    assert len(rights) == 5 and set(rights.values()) == {"0000000000000000"}
    assert any("Read-only file system" in line for line in said)


def test_a_container_sees_its_folder_the_models_unchangeable_and_nothing_else_of_the_host(
    docker_place: Place, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "weights").write_text("w")
    launcher = launcher_like(docker_place, read_only=[models])
    program = f"cat {models}/weights; echo; touch {models}/mine; touch mine && echo written; ls {tmp_path}; ls /; "
    program += f"ls /var/run/docker.sock; grep -c . /proc/mounts; echo end; {WAIT}"
    launcher, handle = docker_place.start(program, launcher)
    said = lines_of(launcher, handle, "end")
    assert "w" in said and "written" in said
    assert any("Read-only file system" in line for line in said)
    assert any("docker.sock: No such file" in line for line in said)
    container = client_of(docker_place).containers.get(handle["launch"])
    binds = {mount["Destination"]: mount["RW"] for mount in container.attrs["Mounts"]}
    assert binds == {handle["folder"]: True, str(models): False}


def test_memory_processes_and_logs_are_bounded(docker_place: Place) -> None:
    launcher, handle = docker_place.start("echo up; x=a; while :; do x=$x$x$x$x; done")
    assert wait_until(lambda: launcher.inspect(handle).state == "exited", timeout_s=60, poll_s=0.2)
    assert launcher.inspect(handle).code not in (0, None)
    bounds = client_of(docker_place).containers.get(handle["launch"]).attrs["HostConfig"]
    assert bounds["Memory"] == bounds["MemorySwap"] == SMALL.memory_bytes
    assert bounds["PidsLimit"] == 4096 and bounds["NanoCpus"] == 10**9
    assert bounds["LogConfig"]["Config"]["max-size"] == "16m"
    assert bounds["NetworkMode"] not in ("default", "bridge", "host") and not bounds["Privileged"]


def test_runtimes_do_not_reach_one_another(docker_place: Place) -> None:
    serve = f"nc -ll -p 7000 -e echo hello & echo up; {WAIT}"
    launcher, first = docker_place.start(serve)
    containers = client_of(docker_place).containers
    (network,) = containers.get(first["launch"]).attrs["NetworkSettings"]["Networks"].values()
    call = ["sh", "-c", f"sleep 2 | nc -w 3 {network['IPAddress']} 7000"]
    assert wait_until(
        lambda: b"hello" in containers.get(first["launch"]).exec_run(call).output, timeout_s=WAIT_S, poll_s=0.2
    )
    _, second = docker_place.start(f"echo up; {WAIT}", launcher)
    assert b"hello" not in containers.get(second["launch"]).exec_run(call).output


def test_gpus_that_are_not_there_are_an_os_error_and_leave_nothing(docker_place: Place) -> None:
    launcher = launcher_like(docker_place, resources=Resources(memory_bytes=64 << 20, gpus=2))
    plan = docker_place.plan(launcher)
    if "nvidia" in client_of(docker_place).info().get("Runtimes", {}):
        pytest.skip("this engine has GPUs")
    with pytest.raises(OSError, match="2 GPUs were asked for, and the engine's machine offers none.*gpu"):
        launcher.start(plan, environment={"PROGRAM": "exit 0"})
    assert launcher.inspect(plan) == Sight("gone")
    assert plan["launch"] not in [found.name for found in client_of(docker_place).containers.list(all=True)]


def test_an_image_that_is_not_there_is_an_os_error_that_names_it(docker_place: Place) -> None:
    launcher = launcher_like(docker_place, image="tinkerscript-no-such-image:1")
    with pytest.raises(OSError, match="tinkerscript-no-such-image:1"):
        launcher.start(docker_place.plan(launcher), environment={})


def test_a_container_that_was_made_and_not_started_is_gone_and_can_be_started(docker_place: Place) -> None:
    launcher = docker_place.launcher()
    plan = docker_place.plan(launcher)
    launcher._make_network()
    launcher._create(plan, {"PROGRAM": f"echo up; {WAIT}"})
    assert launcher.inspect(plan) == Sight("gone")
    docker_place.start("", launcher, plan)
    assert launcher.inspect(plan) == Sight("running")


def test_an_engine_that_does_not_answer_is_away_and_no_runtime_is_said_to_be_gone(docker_place: Place) -> None:
    launcher, handle = docker_place.start(f"echo up; {WAIT}")
    broken = launcher_like(docker_place)
    broken._client = docker.DockerClient("tcp://127.0.0.1:9", version="1.41", timeout=2)
    for ask in (
        lambda: broken.inspect(handle),
        lambda: broken.stop(handle, grace_s=0),
        lambda: broken.logs(handle, lines=1),
        lambda: broken.start(handle, environment={}),
    ):
        with pytest.raises(LauncherAway):
            ask()
    broken._client.close()
    assert launcher.inspect(handle) == Sight("running")


def test_many_looks_cost_one_question(docker_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher, handle = docker_place.start(f"echo up; {WAIT}")
    asked, listing = [], launcher._client.api.containers
    monkeypatch.setattr(launcher._client.api, "containers", lambda **options: asked.append(1) or listing(**options))
    unknown = [{"launch": f"ses_{secrets.token_hex(8)}-1"} for _ in range(50)]
    assert [launcher.inspect(each).state for each in [handle, *unknown]] == ["running"] + ["gone"] * 50
    assert len(asked) <= 2
