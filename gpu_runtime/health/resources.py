"""What the runtime uses of its machine, sampled every ten seconds by a thread of its own.

A thread of its own because a driver or a disk in trouble may keep a caller for minutes: heartbeats
do not wait for it.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from tinkerscript.processes.nvml import Nvml, nvml_open
from tinkerscript.wire.reading.resources import MAX_GPUS, GpuSample, ResourceSample

log = logging.getLogger(__name__)

SAMPLE_S = 10.0
CGROUP = Path("/sys/fs/cgroup")  # version 2: the container's own


class ResourceSampler:
    """``with ResourceSampler(folder, deliver):`` calls ``deliver`` with a sample at once and every
    ``SAMPLE_S``.
    """

    def __init__(self, folder: Path, deliver: Callable[[ResourceSample], None]) -> None:
        self._usage = Usage(folder)
        self._deliver = deliver
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resources", daemon=True)

    def __enter__(self) -> "ResourceSampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()  # not joined: it may stand in a call to a driver

    def _run(self) -> None:
        nvml, said = nvml_open(), None
        while True:
            try:
                self._deliver(self._usage.sample(nvml))
                said = None
            except (OSError, psutil.Error, ValueError) as error:  # the next one may succeed
                if type(error) is not said:
                    log.warning("no sample of the machine until this ends: %s", error)
                said = type(error)
            if self._over.wait(SAMPLE_S):
                return


class Usage:
    """What this process and its children use. CPU time is counted between two samples."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = psutil.Process()
        self._sampled_at = time.monotonic()
        self._cpu_s = {pid: cpu_s for pid, (cpu_s, _) in self._processes().items()}

    def sample(self, nvml: Nvml | None) -> ResourceSample:
        """One sample. Raises OSError for a disk that cannot be asked."""
        before, before_at = self._cpu_s, self._sampled_at
        processes, self._sampled_at = self._processes(), time.monotonic()
        self._cpu_s = {pid: cpu_s for pid, (cpu_s, _) in processes.items()}
        # What a process used that ended in between is not seen.
        used_s = sum(max(0.0, cpu_s - before.get(pid, 0.0)) for pid, cpu_s in self._cpu_s.items())
        memory, disk = _memory(), psutil.disk_usage(str(self._folder))
        return ResourceSample(
            cpu_cores=used_s / max(self._sampled_at - before_at, 0.01),
            cores=_cores(),
            memory_bytes=sum(resident for _, resident in processes.values()),
            memory_used_bytes=memory[0],
            memory_total_bytes=memory[1],
            disk_free_bytes=disk.free,
            disk_total_bytes=disk.total,
            gpus=[GpuSample(**gpu._asdict()) for gpu in nvml.sample()[:MAX_GPUS]] if nvml else [],
        )

    def _processes(self) -> dict[int, tuple[float, int]]:
        """CPU seconds so far and resident bytes of each process that lives."""
        found = {}
        for process in (self._process, *self._process.children(recursive=True)):
            with suppress(psutil.Error):  # it has just ended
                times = process.cpu_times()
                found[process.pid] = (times.user + times.system, process.memory_info().rss)
        return found


def _cores(cgroup: Path = CGROUP) -> float:
    """Cores that this process may use: of its affinity, or fewer by the container's quota."""
    affinity = float(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    with suppress(OSError, ValueError):
        quota, period = (cgroup / "cpu.max").read_text().split()
        # "max", where there is no quota, is no number
        return min(affinity, int(quota) / int(period))
    return affinity


def _memory(cgroup: Path = CGROUP) -> tuple[int, int]:
    """Bytes used and in all: of the container where it has a limit, else of the machine.

    What can be taken back at once is not used: files that were read or written and may be dropped
    from memory.
    """
    machine = psutil.virtual_memory()
    with suppress(OSError, ValueError):
        limit = int((cgroup / "memory.max").read_text())
        if limit < machine.total:
            current = int((cgroup / "memory.current").read_text())
            return max(0, current - _inactive_files(cgroup)), limit
    return machine.total - machine.available, machine.total


def _inactive_files(cgroup: Path) -> int:
    """Bytes of the page cache that was not used lately, as kubelet takes it from a container's
    memory.
    """
    with suppress(OSError, ValueError):
        for line in (cgroup / "memory.stat").read_text().splitlines():
            name, _, size_bytes = line.partition(" ")
            if name == "inactive_file":
                return int(size_bytes)
    return 0
