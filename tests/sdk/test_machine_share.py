"""The share of a machine that a process has, read from made-up trees of control groups."""

import os
from pathlib import Path

import pytest

from tinkerscript.processes.machine_share import cpus, memory_bytes

GIB = 1 << 30


@pytest.fixture
def tree(tmp_path: Path):
    """``tree("0::/a/b", {"a/cpu.max": "max 100000"})``: the arguments for a machine whose kernel
    says so.
    """

    def make(own: str, files: dict[str, str]) -> dict[str, Path]:
        root = tmp_path / "cgroup"
        root.mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
        (tmp_path / "own").write_text(own + "\n")
        return {"root": root, "own": tmp_path / "own"}

    return make


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {"cpu.max": "400000 100000"}, 4),
        ("0::/", {"cpu.max": "max 100000"}, 64),
        (
            "0::/pod/runtime",
            {"pod/runtime/cpu.max": "max 100000", "pod/cpu.max": "150000 50000"},
            3,
        ),
        (
            "0::/pod/runtime",
            {"pod/runtime/cpu.max": "200000 100000", "pod/cpu.max": "800000 100000"},
            2,
        ),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "250000 100000"}, 2),
        (
            "4:cpu,cpuacct:/a",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "800000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            },
            8,
        ),
        (
            "4:cpuacct,cpu:/a",
            {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"},
            64,
        ),
        # A container whose own group is mounted as the root, though /proc names it as the host
        # does.
        (
            "1:cpu:/docker/3f2a",
            {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"},
            2,
        ),
        ("2:cpu:/\n0::/a", {"unified/a/cpu.max": "300000 100000"}, 3),
        ("1:memory:/a", {"cpu.max": "100000 100000"}, 64),
        ("nonsense", {"cpu.max": "100000 100000"}, 64),
        ("0::/", {"cpu.max": "garbage here"}, 64),
    ],
)
def test_processors_are_the_least_of_what_the_groups_allow(tree, own, files, expected) -> None:
    assert cpus({}, allowed=64, **tree(own, files)) == expected


@pytest.mark.parametrize(
    ("given", "expected"), [("2", 2), ("16", 8), ("", 8), ("all", 8), ("0", 1)]
)
def test_what_the_launcher_sets_bounds_them_too(tree, given, expected) -> None:
    share = tree("0::/", {"cpu.max": "800000 100000"})
    assert cpus({"TINKERSCRIPT_RUNTIME_CPUS": given}, allowed=64, **share) == expected


def test_a_process_that_may_run_on_few_processors_has_few(tree) -> None:
    assert cpus({}, allowed=3, **tree("0::/", {"cpu.max": "800000 100000"})) == 3
    assert 1 <= cpus({}) <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {"memory.max": str(8 * GIB)}, 8 * GIB),
        ("0::/", {"memory.max": "max"}, 64 * GIB),
        ("0::/a/b", {"a/b/memory.max": str(8 * GIB), "a/memory.max": str(4 * GIB)}, 4 * GIB),
        ("3:memory:/a", {"memory/a/memory.limit_in_bytes": str(2 * GIB)}, 2 * GIB),
        ("3:memory:/a", {"memory/a/memory.limit_in_bytes": "9223372036854771712"}, 64 * GIB),
        ("3:memory:/docker/3f2a", {"memory/memory.limit_in_bytes": str(GIB)}, GIB),
        ("0::/", {}, 64 * GIB),
    ],
)
def test_memory_is_the_least_of_what_the_groups_allow(tree, own, files, expected) -> None:
    assert memory_bytes(machine=64 * GIB, **tree(own, files)) == expected


def test_where_the_kernel_reports_nothing_it_is_the_whole_machine(tmp_path: Path) -> None:
    nowhere = {"root": tmp_path, "own": tmp_path / "none"}
    assert cpus({}, allowed=64, **nowhere) == 64 and memory_bytes(machine=GIB, **nowhere) == GIB
