"""How much of a machine is this process's: processors and memory, as its kernel limits them.

A container, a Slurm job or a systemd unit sees every processor and all memory of its machine, and
is slowed down or killed when it uses them. What counts is the least of: the processors it may run
on (sched_getaffinity), the quota of its control group and of every group above it, and
TINKERSCRIPT_RUNTIME_CPUS. Formats: cgroups(7), cgroup-v2 (cpu.max, memory.max) and cgroup-v1
(cpu.cfs_quota_us, memory.limit_in_bytes) of the kernel's documentation.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

CPUS = "TINKERSCRIPT_RUNTIME_CPUS"
ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
UNLIMITED_BYTES = 1 << 60  # cgroup-v1 has no word for "no limit", only a number that no machine has


def cpus(
    environ: Mapping[str, str] = os.environ,
    *,
    root: Path = ROOT,
    own: Path = OWN,
    allowed: int | None = None,
) -> int:
    """How many threads may compute at once, at least 1. ``allowed``: processors that it may run on
    (None: ask).
    """
    found = [len(os.sched_getaffinity(0)) if allowed is None else allowed]
    found += [int(quota) for quota in _cpu_quotas(root, own)]
    if (given := environ.get(CPUS, "").strip()).isdecimal():
        found.append(int(given))
    return max(1, min(found))


def memory_bytes(*, root: Path = ROOT, own: Path = OWN, machine: int | None = None) -> int:
    """How much memory it may use. ``machine``: what the machine has (None: ask)."""
    if machine is None:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_memory_limits(root, own)])


def _cpu_quotas(root: Path, own: Path) -> Iterator[float]:
    """Processors, one number per group that limits them."""
    for group in _groups(root, own, controller="cpu"):
        words = _words(group / "cpu.max") or [
            *_words(group / "cpu.cfs_quota_us"),
            *_words(group / "cpu.cfs_period_us"),
        ]
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            yield int(words[0]) / int(words[1])


def _memory_limits(root: Path, own: Path) -> Iterator[int]:
    for group in _groups(root, own, controller="memory"):
        words = _words(group / "memory.max") or _words(group / "memory.limit_in_bytes")
        if words and words[0].isdecimal() and 0 < int(words[0]) < UNLIMITED_BYTES:
            yield int(words[0])


def _groups(root: Path, own: Path, *, controller: str) -> Iterator[Path]:
    """The folders of this process's group and of those above it; a container sees its own group as
    the root.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.count(":") < 2:
            continue
        _, names, path = line.split(":", 2)
        if names == "":
            tops = [root, root / "unified"]  # v2, alone or beside v1
        elif controller in names.split(","):
            tops = [root / names, root / controller]
        else:
            continue
        below = Path(path.lstrip("/"))
        for top in tops:
            for group in (below, *below.parents):
                yield top / group


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
