"""Which devices a machine has, with made-up tools and drivers; and that start-up refuses what
cannot be.
"""

import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from console.scheduling.launchers import device_search
from console.scheduling.launchers.device_search import devices_find, gpus_unused
from console.scheduling.launchers.options import LAUNCHERS, LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.sessions.limits import devices
from console.sessions.limits.devices import FOR_CPUS, FOR_GPUS

TWO = "GPU 0: NVIDIA H100 (UUID: GPU-aaaaaaaa)\nGPU 1: NVIDIA H100 (UUID: GPU-bbbbbbbb)"
DIVIDED = f"{TWO}\n  MIG 1g.10gb     Device  0: (UUID: MIG-cccccccc)"


def options(
    name: str = "process", gpus: int | None = None, devices: tuple[str, ...] | None = None
) -> LauncherOptions:
    return LauncherOptions(name=name, resources=Resources(gpus=gpus), devices=devices)


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch):
    """``nvidia_smi("exit 1")``: a tool of that name, and of no other, is on the path, for the build
    for GPUs.
    """
    monkeypatch.setattr(device_search, "engine_build", lambda: FOR_GPUS)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()

    def make(script: str) -> None:
        tool = tmp_path / "bin" / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    return make


@pytest.mark.system
def test_the_tool_lists_them_in_its_order(nvidia_smi) -> None:
    nvidia_smi(f'[ "$1" = -L ] && echo "{TWO}"')
    assert devices_find(options()) == devices_find(options("docker", gpus=2)) == ("0", "1")


def test_a_setting_names_them_and_nothing_is_looked_for(nvidia_smi) -> None:
    nvidia_smi("exit 9")
    assert devices_find(options(devices=("2", "3"))) == ("2", "3")


def test_those_that_the_server_may_not_use_are_left_alone(nvidia_smi, monkeypatch) -> None:
    nvidia_smi(f'echo "{TWO}"')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert devices_find(options()) == ("1",)
    for hidden in ("", "-1", "NoDevFiles", "-1,0"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert devices_find(options()) == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, GPU-aaaaaaaa,-1,0")
    assert devices_find(options()) == ("1", "GPU-aaaaaaaa"), "as CUDA, up to the first that is none"


def test_without_the_tool_the_driver_counts_them(nvidia_smi, tmp_path) -> None:
    assert devices_find(options(), driver=tmp_path / "none") == ()
    for address in ("0000:3b:00.0", "0000:86:00.0", "0000:af:00.0"):
        (tmp_path / "gpus" / address).mkdir(parents=True)
    assert devices_find(options(), driver=tmp_path / "gpus") == ("0", "1", "2")


@pytest.mark.parametrize("name", ["kubernetes", "slurm"])
def test_a_cluster_chooses_its_devices_itself(nvidia_smi, name) -> None:
    nvidia_smi(f'echo "{TWO}"')
    assert devices_find(options(name, gpus=8)) == ()


def test_an_engine_on_another_machine_has_other_devices(nvidia_smi, monkeypatch) -> None:
    nvidia_smi(f'echo "{TWO}"')
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.9:2376")
    assert devices_find(options("docker")) == ()
    with pytest.raises(ImproperlyConfigured, match="TINKERSCRIPT_DEVICES"):
        devices_find(options("docker", gpus=1))


@pytest.mark.system
def test_start_up_refuses_more_devices_for_a_runtime_than_there_are(nvidia_smi) -> None:
    nvidia_smi(f'echo "{TWO}"')
    with pytest.raises(
        ImproperlyConfigured, match=r"TINKERSCRIPT_RUNTIME_GPUS=3 .* has 2 \(0, 1\)"
    ):
        devices_find(options(gpus=3))


@pytest.mark.system
@pytest.mark.parametrize(
    ("script", "named"),
    [
        (
            "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
            "version mismatch",
        ),
        (f'echo "{DIVIDED}"', "MIG"),
    ],
)
def test_a_listing_that_cannot_be_trusted_stops_start_up(nvidia_smi, script, named) -> None:
    nvidia_smi(script)
    with pytest.raises(ImproperlyConfigured, match=f"(?s){named}.*TINKERSCRIPT_DEVICES"):
        devices_find(options())


@pytest.mark.system
def test_a_tool_that_hangs_is_not_waited_for(nvidia_smi, monkeypatch) -> None:
    nvidia_smi(f"exec {os.path.realpath('/bin/sleep')} 60")
    monkeypatch.setattr(device_search, "LISTING_TIMEOUT_S", 0.2)
    with pytest.raises(ImproperlyConfigured, match="timed out.*TINKERSCRIPT_DEVICES"):
        devices_find(options())


@pytest.mark.system
def test_a_machine_whose_driver_finds_none_has_none(nvidia_smi) -> None:
    nvidia_smi("echo 'No devices were found'; exit 6")
    assert devices_find(options()) == ()


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["process", "unit"])
@pytest.mark.parametrize(("build", "named"), [(FOR_CPUS, "build for CPUs"), ("", "no engine")])
def test_devices_that_the_engine_here_cannot_use_are_none_and_are_refused_where_a_setting_asks_for_them(
    nvidia_smi, monkeypatch, build, named, name
) -> None:
    nvidia_smi(f'echo "{TWO}"')
    monkeypatch.setitem(LAUNCHERS, "unit", LAUNCHERS["process"])  # another that runs here
    for module in (device_search, devices):
        monkeypatch.setattr(module, "engine_build", lambda: build)
    assert devices_find(options(name)) == devices_find(options(name, gpus=0)) == ()
    assert f"2 GPU(s) of this machine stay unused: here is {named}" in gpus_unused(
        options(name)
    ).replace("the engine's ", "")
    for asking, setting in (
        (options(name, gpus=1), "RUNTIME_GPUS"),
        (options(name, devices=("0",)), "DEVICES"),
    ):
        with pytest.raises(
            ImproperlyConfigured, match=f"TINKERSCRIPT_{setting} .*{named}.*BUILD=cuda"
        ):
            devices_find(asking)
    assert devices_find(options("docker", gpus=2)) == ("0", "1"), "an image has its own engine"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus_unused(options(name)) == gpus_unused(options("docker")) == ""
