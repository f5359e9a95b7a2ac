"""TRL's AsyncGRPO under the load of step.py: the same model, prompts, groups, lengths, answers
under way and devices.

    python tests/gpu/trl_peer.py [--json FILE] [--smoke] [--peer PYTHON]

In an environment of its own, whose name is that of this one with -trl (``make gpu``, or on a CPU
``tests/environments/build.py trl``): a vLLM server as TRL wants it, and one process of TRL's
trainer. What of that is its own is in support/trl_async.py. On GPUs ``kernels`` fetches its
attention, FlashAttention 3, from a hub. Columns as in step.py, with these differences:

generated    counted by the vLLM server (vllm:generation_tokens_total)
engine idle  the part of some hundred looks at the server at which no request was running
trainer idle from TRL's own perf/fwd_bwd_s and perf/optimizer_s; hand-over: perf/weight_sync_s
MFU          model FLOPs that a step of this load needs, its prompts computed once for a group, as step.py counts them
engine, GiB  in use on the server's device, where the trainer is on another one
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from gpu.part import PartFailed, Table, part_failed, part_parser  # noqa: E402
from gpu.report import Report  # noqa: E402
from gpu.workload import (  # noqa: E402
    COLUMNS,
    LEARNING_RATE,
    Workload,
    cells_make,
    workload_options,
    workload_read,
)

from gpu_runtime.engine.model_runner import SWITCH  # noqa: E402
from gpu_runtime.engine.vllm_process import child_variables, environment_set  # noqa: E402
from gpu_runtime.loop.sample import Sample  # noqa: E402
from gpu_runtime.placement import gpus_visible  # noqa: E402
from support.model_flops import peak_tflops, shape_of, step_flops  # noqa: E402
from support.ports import free_port  # noqa: E402
from tinkerscript.processes.nvml import nvml_open  # noqa: E402

PEER = Path(f"{sys.prefix}-trl") / "bin" / "python"
ROW_TOKENS, GIB = 16_384, 1 << 30
START_S, STEP_S, LOOK_S = 900, 1800, 0.1
SERVE = "from vllm.entrypoints.launchers.api_server.entry import main; main()"
TOOL = "import trl.experimental.async_grpo, datasets, aiohttp, vllm"


class PeerMissing(Exception):
    """What TRL's environment lacks."""


@dataclass
class Server:
    """vLLM's server as it was seen: (time, requests that run, tokens generated so far), and bytes
    on its device.
    """

    address: str
    looks: list[tuple[float, float, float]] = field(default_factory=list)
    memory_bytes: int = 0

    def look(self) -> None:
        """Once."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        counted = [
            _metric(text, name)
            for name in ("vllm:num_requests_running", "vllm:generation_tokens_total")
        ]
        self.looks.append((time.time(), *counted))
        for device in (nvml.sample() if (nvml := nvml_open()) else [])[:1]:
            self.memory_bytes = max(self.memory_bytes, device.memory_bytes or 0)

    def generated(self, at: float) -> float:
        """Tokens until then, between two looks in proportion."""
        after = next(
            (n for n, (when, *_) in enumerate(self.looks) if when >= at), len(self.looks) - 1
        )
        (t0, _, n0), (t1, _, n1) = self.looks[max(0, after - 1)], self.looks[after]
        return n1 if t1 == t0 else n0 + (n1 - n0) * min(1.0, max(0.0, (at - t0) / (t1 - t0)))

    def idle(self, began: float, ended: float) -> float:
        """Part of the looks between at which no request was running."""
        seen = [running for at, running, _ in self.looks if began <= at <= ended]
        return sum(running == 0 for running in seen) / max(1, len(seen))


def _metric(text: str, name: str) -> float:
    return sum(
        float(value)
        for value in re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+-]+)$", text, re.MULTILINE)
    )


def tools_verify(peer: Path, load: Workload) -> None:
    """Raises PeerMissing."""
    if not peer.exists():
        raise PeerMissing(
            f"TRL is not installed: there is no {peer}. tests/environments/build.py trl makes it"
        )
    wanted = f"{TOOL}, kernels" if load.devices else TOOL
    done = subprocess.run([peer, "-c", wanted], capture_output=True, text=True, timeout=START_S)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise PeerMissing(
            f"TRL's AsyncGRPO does not run in {peer.parents[1]}: {last}. On a GPU it needs, beside"
            " tests/environments/trl.txt, the package kernels and the hub from which that fetches FlashAttention 3"
        )


@contextmanager
def server_open(
    peer: Path, load: Workload, model: Path, variables: dict[str, str]
) -> Iterator[Server]:
    """A vLLM server of ``model``, once it answers; it ends with the block. Raises PartFailed."""
    port = free_port()
    transfer = {0: None, 1: "ipc"}.get(load.devices, "nccl")
    command = [
        str(peer), "-c", SERVE, "--model", str(model), "--host", "127.0.0.1", "--port", str(port),
        "--max-model-len", str(load.context), "--logprobs-mode", "processed_logprobs", "--max-num-seqs", "256",
    ]  # fmt: skip
    if transfer:
        command += [
            "--dtype",
            "bfloat16",
            "--weight-transfer-config",
            json.dumps({"backend": transfer}),
        ]
        command += ["--gpu-memory-utilization", "0.5" if load.devices == 1 else "0.9"]
    else:
        command += ["--dtype", "float32", "--enforce-eager"]
    log = model.parent / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, env=variables, stdout=output, stderr=output, start_new_session=True
        )
    seen, over = Server(f"http://127.0.0.1:{port}"), threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            with suppress(OSError):
                seen.look()

    watching = threading.Thread(target=watch, daemon=True)
    try:
        deadline = time.monotonic() + START_S
        while not _answers(seen.address):
            if server.poll() is not None or time.monotonic() > deadline:
                raise PartFailed(f"vLLM's server did not start: {log.read_text()[-2000:]}")
            time.sleep(0.5)
        watching.start()
        yield seen
    finally:
        over.set()
        if watching.ident:
            watching.join(60)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, 15)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, 9)
            server.wait(30)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5):
            return True
    except OSError:
        return False


def steps_of(
    peer: Path, job: dict[str, Any], folder: Path, variables: dict[str, str]
) -> tuple[list[dict], dict]:
    """What TRL's trainer said of each step, and last: its memory at most, its version. Raises
    PartFailed.
    """
    path, log = folder / "job.json", folder / "trainer.log"
    path.write_text(json.dumps(job))
    command = [str(peer), "-c", "from support.trl_async import main; main()", str(path)]
    with log.open("w") as errors:
        try:
            done = subprocess.run(
                command,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=STEP_S,
            )
        except subprocess.TimeoutExpired as late:
            raise PartFailed(
                f"TRL's trainer had not ended after {STEP_S} s: {log.read_text()[-2000:]}"
            ) from late
    if done.returncode:
        raise PartFailed(f"TRL's trainer ended with {done.returncode}: {log.read_text()[-3000:]}")
    said = [
        json.loads(each)
        for each in done.stdout.splitlines()
        if each.startswith(('{"step"', '{"peak"'))
    ]
    steps = [each for each in said if "step" in each and "perf/fwd_bwd_s" in each["logs"]]
    if len(steps) != job["max_steps"]:
        raise PartFailed(
            f"TRL's trainer told of {len(steps)} of {job['max_steps']} steps: {done.stdout[-2000:]}"
        )
    return steps, said[-1]


def needed_flops(load: Workload, model: Path, prompts: list[str]) -> float:
    """Of one step of this load, each group's prompt computed once."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    samples = []
    for number in range(load.tasks):
        message = [{"role": "user", "content": prompts[number % len(prompts)]}]
        prompt = tuple(
            tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False)
        )
        for member in range(load.group):
            mask = (0,) * len(prompt) + (1,) * load.completion
            ids = (*prompt, *(2 + (member * 7919 + each) % 90 for each in range(load.completion)))
            samples.append(Sample(ids, mask, (0.0,) * len(ids), 1.0, group=number))
    return step_flops(samples, ROW_TOKENS, shape_of(model))


def line(
    load: Workload,
    steps: list[dict],
    server: Server,
    last: dict[str, Any],
    flops: float,
    peak: float | None,
) -> list[str]:
    """Of the table."""
    before, counted = steps[load.warm_up - 1], steps[load.warm_up :]
    began, ended = before["at"], counted[-1]["at"]
    whole_s, logs = ended - began, [each["logs"] for each in counted]
    busy_s = sum(each["perf/fwd_bwd_s"] + each["perf/optimizer_s"] for each in logs)
    trained = sum(each["batch/trained_tokens_per_step"] for each in logs)
    named = {
        "": f"TRL {last['version']}, AsyncGRPO",
        "s a step": f"{whole_s / load.steps:.3f}",
        "generated tokens / s": f"{(server.generated(ended) - server.generated(began)) / whole_s:.0f}",
        "trained tokens / s": f"{trained / whole_s:.0f}", "trainer idle": f"{1 - busy_s / whole_s:.0%}",
        "engine idle": f"{server.idle(began, ended):.0%}",
        "hand-over, s": f"{statistics.median(each['perf/weight_sync_s'] for each in logs):.3f}",
    }  # fmt: skip
    if load.devices:
        named |= {"trainer, GiB": f"{last['peak'] / GIB:.2f}"}
    if load.devices > 1:
        named |= {"engine, GiB": f"{server.memory_bytes / GIB:.2f} in use"}
    if peak:
        most = peak * 1e12
        named |= {"MFU of steps": f"{flops * load.steps / busy_s / most:.1%}"}
        named |= {"MFU of all time": f"{flops * load.steps / whole_s / most:.1%}"}
    return cells_make(named)


def environments(load: Workload) -> tuple[dict[str, str], dict[str, str]]:
    """Of the server and of the trainer."""
    environment_set("cuda" if load.devices else "cpu")
    folders = (ROOT, ROOT / "sdk", ROOT / "tests")
    common = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "VLLM_SERVER_DEV_MODE": "1",
    }
    common |= {"VLLM_HOST_IP": "127.0.0.1"}  # server and trainer meet there for NCCL
    common.pop(SWITCH)  # its server has the model runner that vLLM takes by itself
    if not load.devices:
        return common | child_variables("cpu", ()), common | {"CUDA_VISIBLE_DEVICES": ""}
    gpus = gpus_visible()
    server = common | {"CUDA_VISIBLE_DEVICES": gpus[0]}
    # without it vLLM takes no handles over HTTP; the server listens on loopback alone
    if load.devices == 1:
        server |= {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}
    return server, common | {"CUDA_VISIBLE_DEVICES": gpus[load.devices - 1]}


def measure(load: Workload, peer: Path, scratch: Path, peak: float | None) -> list[str]:
    """The line of the table. Raises PartFailed, PeerMissing."""
    tools_verify(peer, load)
    model, prompts = load.prepare(scratch)
    for_server, for_trainer = environments(load)
    group_tokens = load.context + (load.group - 1) * load.completion
    groups = max(each for each in range(1, load.tasks + 1) if load.tasks % each == 0 and (
        each == 1 or each * group_tokens <= ROW_TOKENS
    ))  # fmt: skip
    with server_open(peer, load, model, for_server) as server:
        job = {
            "model": str(model), "prompts": prompts, "address": server.address, "devices": load.devices,
            "output": str(scratch / "output"), "max_steps": load.warm_up + load.steps, "group": load.group,
            "learning_rate": LEARNING_RATE, "episodes": load.episodes, "row_episodes": groups * load.group,
            "completion": load.completion, "staleness": load.staleness, "under_way": load.under_way,
        }  # fmt: skip
        (scratch / "output").mkdir()
        steps, last = steps_of(peer, job, scratch, for_trainer)
    return line(load, steps, server, last, needed_flops(load, model, prompts), peak)


def main() -> int:
    parser = part_parser(__doc__)
    workload_options(parser)
    parser.add_argument("--peer", type=Path, default=PEER, help="the Python that has TRL")
    options = parser.parse_args()
    options.devices = min(2, options.devices)
    import torch

    device = "" if options.smoke else torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory() as folder:
        load = workload_read(options, Path(folder))
        table = Table(f"Asynchronous GRPO: {load.words(device)}", COLUMNS)
        try:
            table.rows.append(measure(load, options.peer, Path(folder), peak_tflops(device)))
        except PartFailed as failure:
            return part_failed(failure)
        except PeerMissing as missing:
            Report(options.json).leave_out("TRL's AsyncGRPO", str(missing))
            return 0
    table.notes += notes_of(load)
    table.write(options.json)
    return 0


def notes_of(load: Workload) -> list[str]:
    found = [
        "TRL as it is, but without gradient checkpointing, with whole groups in a row and as many answers under way as"
        " ours."
    ]
    if load.devices == 1:
        found.append(
            "On one device TRL's NCCL takes no device twice: weights go by vLLM's CUDA IPC, which is not TRL's."
        )
    if not load.devices:
        found.append(
            "On a CPU its kernel and NCCL are replaced (support/trl_async.py): the figures mean nothing."
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
