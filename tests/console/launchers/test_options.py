"""The launcher's settings: what is malformed, lacking or without effect stops start-up and is
named.
"""

import re
import shutil
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from console.scheduling.launchers.options import (
    LAUNCHERS,
    VARIABLES,
    launcher_options_read,
    slurm_notice_s,
)
from console.scheduling.launchers.protocol import Resources

ROOT = Path(__file__).resolve().parents[3]
REACHABLE = {
    "server_url": "http://10.0.0.1:8000",
    "s3_endpoint_url": "http://10.0.0.1:9000",
    "most": 4,
}
DOCKER = {
    "TINKERSCRIPT_LAUNCHER": "docker",
    "TINKERSCRIPT_RUNTIME_IMAGE": "runtime:1",
    "TINKERSCRIPT_RUNTIME_MEMORY_GIB": "16",
}


@pytest.fixture
def read(monkeypatch):
    """``read(environment)``: the options in these variables alone."""

    def options(environment: dict[str, str], **reach: str):
        for name in ("TINKERSCRIPT_LAUNCHER", *VARIABLES):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return launcher_options_read(**(REACHABLE | reach))

    return options


def test_processes_are_the_default_and_need_nothing(read) -> None:
    options = read({}, server_url="http://127.0.0.1:8000", s3_endpoint_url="")
    assert (options.name, options.resources) == ("process", Resources())


def test_amounts_are_read_in_their_units(read) -> None:
    given = {
        "TINKERSCRIPT_RUNTIME_GPUS": "2",
        "TINKERSCRIPT_RUNTIME_CPUS": "8",
        "TINKERSCRIPT_RUNTIME_GPU_MEMORY_GIB": "80",
    }
    options = read(DOCKER | given)
    assert options.resources == Resources(
        memory_bytes=16 << 30, cpus=8, gpus=2, gpu_memory_bytes=80 << 30
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"TINKERSCRIPT_LAUNCHER": "podman"}, "TINKERSCRIPT_LAUNCHER='podman'"),
        ({"TINKERSCRIPT_RUNTIME_IMAGE": ""}, "needs TINKERSCRIPT_RUNTIME_IMAGE"),
        ({"TINKERSCRIPT_RUNTIME_MEMORY_GIB": ""}, "needs TINKERSCRIPT_RUNTIME_MEMORY_GIB"),
        ({"TINKERSCRIPT_RUNTIME_MEMORY_GIB": "0"}, "TINKERSCRIPT_RUNTIME_MEMORY_GIB='0'"),
        ({"TINKERSCRIPT_RUNTIME_GPUS": "all"}, "TINKERSCRIPT_RUNTIME_GPUS='all'"),
        (
            {"TINKERSCRIPT_RUNTIME_GPU_MEMORY_GIB": "80"},
            "does nothing without TINKERSCRIPT_RUNTIME_GPUS",
        ),
        (
            {"TINKERSCRIPT_RUNTIME_GPU_MEMORY_GIB": "80 GB", "TINKERSCRIPT_RUNTIME_GPUS": "1"},
            "GPU_MEMORY_GIB='80 GB'",
        ),
        ({"TINKERSCRIPT_DEVICES": "0,all"}, "'all' is not an index"),
        ({"TINKERSCRIPT_DEVICES": "0,1,0"}, "names device 0 twice"),
        (
            {"TINKERSCRIPT_SLURM_OPTIONS": "--partition=x"},
            "TINKERSCRIPT_SLURM_OPTIONS does nothing",
        ),
        ({"TINKERSCRIPT_KUBERNETES_NODES": "a=b"}, "TINKERSCRIPT_KUBERNETES_NODES does nothing"),
        ({"TINKERSCRIPT_WARM": "1"}, "TINKERSCRIPT_WARM does nothing"),
    ],
)
def test_a_malformed_lacking_or_idle_variable_is_named(read, changes, named) -> None:
    with pytest.raises(ImproperlyConfigured, match=named):
        read(DOCKER | changes)


def test_the_memory_of_gpus_needs_no_number_of_them_where_they_are_those_of_this_machine(
    read, monkeypatch
) -> None:
    monkeypatch.setitem(LAUNCHERS, "unit", LAUNCHERS["process"])  # another that runs here
    for name in ("process", "unit"):
        given = {"TINKERSCRIPT_LAUNCHER": name, "TINKERSCRIPT_RUNTIME_GPU_MEMORY_GIB": "80"}
        assert read(given).resources == Resources(gpu_memory_bytes=80 << 30)
        with pytest.raises(ImproperlyConfigured, match="does nothing without"):
            read(given | {"TINKERSCRIPT_RUNTIME_GPUS": "0"})


def test_no_variable_of_another_launcher_is_taken_by_processes(read) -> None:
    for name in VARIABLES:
        if name not in LAUNCHERS["process"].variables:
            with pytest.raises(ImproperlyConfigured, match=f"{name} does nothing"):
                read({name: "1"})


def test_the_page_has_what_each_launcher_needs_and_may_have() -> None:
    page = (ROOT / "docs/operations/launchers.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \|[^|]*\|([^|]*)\|([^|]*)\|$", page, re.MULTILINE)
    written = {
        name: [set(VARIABLES) & set(re.findall(r"TINKERSCRIPT_[A-Z_]+", cell)) for cell in cells]
        for name, *cells in rows
    }
    assert written == {name: [set(row.needs), set(row.may_have)] for name, row in LAUNCHERS.items()}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tiny", "'tiny' is not a whole number from 0 to"),
        ("-1", "'-1'"),
        ("5", "from 0 to 4"),
        ("*=0", "Give the number of runtimes .* 0 for none"),
        ("SmolLM2-135M-Instruct=1", "no runtime loads a base model before its session any more"),
    ],
)
def test_warm_runtimes_are_a_number_no_larger_than_may_run(read, text, named) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"TINKERSCRIPT_WARM.*{named}"):
        read({"TINKERSCRIPT_WARM": text})


def test_one_runtime_waits_where_nothing_else_is_asked_for(read) -> None:
    assert [read({"TINKERSCRIPT_WARM": text} if text else {}).warm for text in ("", "0", "4")] == [
        1,
        0,
        4,
    ]
    assert read(DOCKER).warm == 0, "in a container it would be another container's"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "http://localhost", "http://0.0.0.0:80", "http://[::1]:1"]
)
def test_runtimes_with_a_network_of_their_own_need_an_address_that_they_reach(read, url) -> None:
    with pytest.raises(ImproperlyConfigured, match="TINKERSCRIPT_RUNTIME_SERVER_URL"):
        read(DOCKER, server_url=url)
    with pytest.raises(ImproperlyConfigured, match="S3_ENDPOINT_URL"):
        read(DOCKER, s3_endpoint_url="")


def test_node_labels_and_slurm_options_are_split_as_they_are_written(read, monkeypatch) -> None:
    kubernetes = {"TINKERSCRIPT_LAUNCHER": "kubernetes", "TINKERSCRIPT_RUNTIME_CPUS": "4"}
    options = read(DOCKER | kubernetes | {"TINKERSCRIPT_KUBERNETES_NODES": "a/b=c, d=e"})
    assert options.kubernetes_nodes == {"a/b": "c", "d": "e"}
    with pytest.raises(ImproperlyConfigured, match="label=value"):
        read(DOCKER | kubernetes | {"TINKERSCRIPT_KUBERNETES_NODES": "a"})

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    slurm = {
        "TINKERSCRIPT_LAUNCHER": "slurm",
        "TINKERSCRIPT_RUNTIME_CPUS": "4",
        "TINKERSCRIPT_RUNTIME_MEMORY_GIB": "9",
    }
    options = read(slurm | {"TINKERSCRIPT_SLURM_OPTIONS": "--partition=gpu '--comment=a b'"})
    assert options.slurm_options == ("--partition=gpu", "--comment=a b")
    for bad in (
        "script.sh",
        "--unclosed='",
        "--signal=B:USR1@90",
        "--signal=TERM@90",
        "--signal=B:TERM",
    ):
        with pytest.raises(ImproperlyConfigured, match="TINKERSCRIPT_SLURM_OPTIONS"):
            read(slurm | {"TINKERSCRIPT_SLURM_OPTIONS": bad})


def test_the_notice_of_a_slurm_job_is_that_of_its_signal() -> None:
    assert slurm_notice_s(["--partition=gpu"]) == 90
    assert slurm_notice_s(["--signal=B:TERM@30", "--partition=gpu"]) == 30


def test_slurm_without_its_commands_stops_start_up(read, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match="there is no sbatch"):
        read(
            {
                "TINKERSCRIPT_LAUNCHER": "slurm",
                "TINKERSCRIPT_RUNTIME_CPUS": "4",
                "TINKERSCRIPT_RUNTIME_MEMORY_GIB": "9",
            }
        )
