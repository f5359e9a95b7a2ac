"""The file of further places: what it says is read as the variables are, and what it cannot mean
stops start-up.
"""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from console.scheduling.launchers import options
from console.scheduling.launchers.places import launchers_named, places_read, tables_read
from console.scheduling.launchers.protocol import Resources

LAB = """
[lab]
kind = "h100x8"
launcher = "slurm"
max_runtimes = 4
runtime_gpus = 8
runtime_cpus = 64
runtime_memory_gib = 400
slurm_options = "--partition=gpu --account=lab"
"""


@pytest.fixture
def read(tmp_path: Path, monkeypatch):
    """``read(text)``: the places of a file with that text, on a machine that has Slurm's
    commands.
    """
    monkeypatch.setattr(options.shutil, "which", lambda name: f"/usr/bin/{name}")

    def places(text: str, server_url: str = "http://10.0.0.1:8000"):
        file = tmp_path / "places.toml"
        file.write_text(text)
        return places_read(
            tables_read(str(file)), server_url=server_url, s3_endpoint_url="http://10.0.0.1:9000"
        )

    return places


def test_a_place_has_a_launcher_of_its_own_with_its_own_settings(read, monkeypatch) -> None:
    monkeypatch.setenv("TINKERSCRIPT_RUNTIME_GPUS", "1")  # of the place here, and no other's
    places = read(
        LAB
        + LAB.replace("[lab]", "[cpus]").replace("h100x8", "cpu").replace("runtime_gpus = 8", "")
    )
    assert [(place.name, place.kind, place.max_runtimes) for place in places.values()] == [
        ("lab", "h100x8", 4), ("cpus", "cpu", 4),
    ]  # fmt: skip
    assert places["lab"].options.resources == Resources(memory_bytes=400 << 30, cpus=64, gpus=8)
    assert places["lab"].options.slurm_options == ("--partition=gpu", "--account=lab")
    assert places["cpus"].options.resources.gpus is None


def test_without_a_file_there_is_the_one_place() -> None:
    assert tables_read("") == {}
    assert launchers_named({}) == set()


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("[lab]", "[here]", "'here' is the place that TINKERSCRIPT_LAUNCHER"),
        ("[lab]", "[La_b]", "'La_b' is no name of a place"),
        ('"h100x8"', '""', "'' is no name of a place or kind"),
        ('"h100x8"', '"lab"', "lab is the name of a place and a kind"),
        (
            '"slurm"',
            '"process"',
            "launcher is 'process'; a further place is a cluster, of kubernetes, slurm, ray",
        ),
        ("max_runtimes = 4", "", "max_runtimes is None"),
        ("max_runtimes = 4", "max_runtimes = 0", "max_runtimes is 0"),
        ("runtime_cpus = 64", "runtime_cpu = 64", "'runtime_cpu' is no key of a place; there are"),
        (
            "runtime_cpus = 64",
            'kubernetes_claim = "data"',
            "place lab: kubernetes_claim: Set TINKERSCRIPT_KUBERNETES=namespace=runtimes,claim=data",
        ),
        (
            "runtime_cpus = 64",
            "",
            "place lab: TINKERSCRIPT_LAUNCHER=slurm needs TINKERSCRIPT_RUNTIME_CPUS",
        ),
        ("runtime_gpus = 8", "runtime_gpus = [0, 1]", "runtime_gpus is"),
        ("runtime_gpus = 8", "runtime_gpus = true", "runtime_gpus is True"),
        ("runtime_gpus = 8", 'devices = "0,1"', "TINKERSCRIPT_DEVICES does nothing"),
        ("[lab]", "lab = 1\n[lab2]", "lab stands outside a table"),
        ("[lab]", "[lab", "is no TOML file"),
    ],
)
def test_what_a_file_cannot_mean_is_named_with_its_place(
    read, before: str, after: str, named: str
) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read(LAB.replace(before, after))
    assert named in str(refused.value) and "TINKERSCRIPT_PLACES" in str(refused.value)


def test_a_cluster_that_could_not_reach_the_server_is_refused(read) -> None:
    with pytest.raises(ImproperlyConfigured, match="place lab: .*TINKERSCRIPT_RUNTIME_SERVER_URL"):
        read(LAB, server_url="http://127.0.0.1:8000")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ImproperlyConfigured, match="TINKERSCRIPT_PLACES='/nowhere.toml' cannot be read"
    ):
        tables_read("/nowhere.toml")
