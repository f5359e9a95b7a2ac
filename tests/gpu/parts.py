"""The parts of `make gpu`, in the order in which they run, and the running of one: report.py has
their contract.
"""

import collections
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from gpu.report import Report, report_read

ROOT = Path(__file__).resolve().parents[2]
TAIL = 25  # lines of a failed part's output
END_S = 150  # after SIGTERM: a server ends its runtimes first
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Part:
    """``script`` of this folder; ``needs``, of ``Machine.lacks``; after ``deadline_s`` it is taken
    to hang.
    """

    script: str
    shows: str
    needs: tuple[str, ...]
    deadline_s: int
    has_price: bool = False  # takes --dollars-per-device-hour


PARTS = {
    "correctness": Part(
        "correctness.py",
        "engine against trainer, trees by FlexAttention against eager attention, resumed states, by pytest",
        (), 7200,
    ),
    "training": Part(
        "throughput.py",
        "tokens per second, MFU and memory of a training step, beside prime-rl's published rows",
        (), 1800,
    ),
    "loop": Part(
        "step.py",
        "the product's whole asynchronous loop: generation, training, hand-overs, idle shares, memory by part",
        ("engine",), 3600,
    ),
    "TRL": Part("trl_peer.py", "TRL's AsyncGRPO under the load of the loop", ("engine",), 3600),
    "GSM8K": Part(
        "learn_gsm8k.py",
        "Qwen2.5-1.5B-Instruct learns GSM8K through the product, to a stated share of the test split, in dollars",
        ("engine",), 18000, has_price=True,
    ),
}  # fmt: skip
SMOKE_DEADLINE_S = 1500


@dataclass(frozen=True)
class Outcome:
    """How a part ended, in words: "held", "FAILED (...)" or "not run: why"; what it reported, and
    printed last.
    """

    name: str
    ended: str
    report: Report
    last_lines: tuple[str, ...] = ()
    took_s: float = 0.0

    @property
    def is_failure(self) -> bool:
        """Whether `make gpu` ends with another status than 0 for it."""
        return self.ended.startswith("FAILED")


def part_run(name: str, part: Part, folder: Path, options: list[str], deadline_s: float) -> Outcome:
    """Carry out a part, whose output is shown as it comes; its report and nothing else is written
    to ``folder``.
    """
    path, began = folder / f"{name.replace(' ', '-')}.json", time.monotonic()
    path.unlink(missing_ok=True)
    command = [
        sys.executable,
        str(ROOT / "tests" / "gpu" / part.script),
        "--json",
        str(path),
        *options,
    ]
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}",
        "PYTHONUNBUFFERED": "1",
    }
    if "--smoke" in options:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    last = collections.deque[str](maxlen=TAIL)
    with _orphans_ended():
        child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        reader = threading.Thread(target=_show, args=(child, last))
        reader.start()
        try:
            ended = _ended(child, deadline_s)
        finally:  # Ctrl-C too
            _end(child)
    reader.join()  # nobody has the other end of its pipe any more
    took_s, report = time.monotonic() - began, report_read(path)
    if ended == "held" and report.not_run and not report.tables:
        ended = "not run: " + "; ".join(each["why"] for each in report.not_run)
    return Outcome(name, ended, report, tuple(last) if ended.startswith("FAILED") else (), took_s)


def _show(child: subprocess.Popen[str], last: collections.deque[str]) -> None:
    assert child.stdout is not None
    with child.stdout as lines:
        for line in lines:
            print(f"  {line}", end="", flush=True)
            if line.strip():
                last.append(line.rstrip())


def _ended(child: subprocess.Popen[str], deadline_s: float) -> str:
    try:
        status = child.wait(deadline_s)
    except subprocess.TimeoutExpired:
        return f"FAILED (no end within {deadline_s:.0f} s)"
    if status < 0:
        return f"FAILED (killed by {signal.Signals(-status).name})"
    return "held" if status == 0 else f"FAILED (status {status})"


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
    if child.poll() is None:
        child.kill()
        child.wait(END_S)


@contextlib.contextmanager
def _orphans_ended() -> Iterator[None]:
    """What the block starts and leaves running is killed: it would hold devices that the next part
    needs.

    A process whose parent has ended becomes this one's child meanwhile: prctl(2),
    PR_SET_CHILD_SUBREAPER.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    before = {each.pid for each in psutil.Process().children()}
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        # what was started by one that is being killed comes to light then
        for _generation in range(5):
            left = [each for each in psutil.Process().children() if each.pid not in before]
            for process in [
                below for each in left for below in each.children(recursive=True)
            ] + left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=END_S)
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
