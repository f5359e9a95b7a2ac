"""A recipe whose server is killed again and again ends with the weights of one that nobody
disturbed.

    .venv/bin/python tests/recipes/killed.py [--kills 4] [--seed 0]

``sl_loop`` of ``tinker-cookbook``, unmodified, with every part real and a tiny model, as ``run.py``
has it. It runs once undisturbed and once while processes of its server get SIGKILL at moments that
are drawn by the seed, in turn: the runtime, its trainer, its engine, the web server. The state that
each run saves at its end must hold the same bits: weights and the optimizer's moments.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

import httpx  # noqa: E402
from recipes.run import PYTHON, RECIPES, Recipe, recipe_run, serving, sessions_finish  # noqa: E402
from recipes.workspace import SPECIAL_TOKENS, workspace_make  # noqa: E402

from support.tiny_model import tiny_model_make  # noqa: E402

STEPS = 20  # of as many that the data set has
RUNS = ("sl_loop undisturbed", "sl_loop killed")
OPTIONS = f"batch_size=8 max_length=128 save_every=5 max_steps={STEPS} learning_rate=1e-3"
PARTS = ("runtime", "trainer-rank-0", "engine", "web")
WATCH_S = 0.1


def main() -> int:
    """0 where both runs ended and their states are the same."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--kills", type=int, default=len(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not PYTHON.exists():
        print("the cookbook is not installed: tests/environments/build.py cookbook")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server below ends too
    RECIPES.update({name: Recipe("sl_loop", OPTIONS, STEPS) for name in RUNS})
    digests = {}
    with tempfile.TemporaryDirectory() as made:
        model, data = Path(made) / "model", Path(made) / "data"
        tiny_model_make(model, special_tokens=SPECIAL_TOKENS)
        folder = workspace_make(Path(made) / "work", model)
        with serving(data, model) as environment:
            for name in RUNS:
                kills = options.kills if name == RUNS[-1] else 0
                killer = Killer(data, folder / "runs" / name.replace(" ", "-"), kills, options.seed)
                killer.start()
                why = recipe_run(name, folder, environment)
                killer.end()
                if why:
                    print(f"{name}: {why}", flush=True)
                    return 1
                digests[name] = state_digests(environment)
                sessions_finish(environment)
                print(f"{name}: {digests[name]}", flush=True)
                if killer.left:
                    print(f"it ended before {len(killer.left)} of its kills")
                    return 1
    same = digests[RUNS[0]] == digests[RUNS[1]]
    print(f"{options.kills} kills, {STEPS} steps: {'the same bits' if same else 'OTHER WEIGHTS'}")
    return int(not same)


class Killer(threading.Thread):
    """Kills a part of the server each time when the recipe has written the metrics of another drawn
    step, and a moment later.
    """

    def __init__(self, data: Path, log: Path, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        drawn = random.Random(seed)
        self._data, self._metrics, self._over = data, log / "metrics.jsonl", threading.Event()
        # the last ones are over before a part is found
        steps = sorted(drawn.sample(range(1, STEPS - 4), kills))
        self.left = [
            (step, PARTS[kill % len(PARTS)], drawn.random() / 2) for kill, step in enumerate(steps)
        ]

    def run(self) -> None:
        """Until every kill is done, or the recipe has ended."""
        while self.left and not self._over.wait(WATCH_S):
            step, part, pause_s = self.left[0]
            if self._written() >= step:
                time.sleep(pause_s)
                if (pid := self._process(part)) is not None:
                    os.kill(pid, signal.SIGKILL)
                    print(f"after step {step} and {pause_s:.2f} s: {part} killed", flush=True)
                    self.left.pop(0)

    def end(self) -> None:
        """The recipe has ended."""
        self._over.set()
        self.join()

    def _written(self) -> int:
        return len(self._metrics.read_text().splitlines()) if self._metrics.exists() else 0

    def _process(self, part: str) -> int | None:
        """One that lives."""
        if part == "web":
            return self._found(
                lambda command, _: "console.server.uvicorn" in command and "--lease" not in command
            )
        if part == "runtime":
            return self._found(lambda command, _: "-m gpu_runtime" in command)
        files = self._data.glob(f"runtimes/*/stacks/{part}.*.process")
        pids = [int(file.name.split(".")[-2]) for file in files]
        return self._found(lambda _, pid: pid in pids)

    def _found(self, is_wanted: Callable[[str, int], bool]) -> int | None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (
                    (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                )
                is_ours = str(self._data).encode() in (process / "environ").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            if is_ours and is_wanted(command, int(process.name)):
                return int(process.name)
        return None


def state_digests(environment: dict[str, str]) -> dict[str, str]:
    """sha256 of the tensors' files of the state that was saved last."""
    headers = {"Authorization": f"Bearer {environment['TINKER_API_KEY']}"}
    with httpx.Client(
        base_url=f"{environment['TINKER_BASE_URL']}/v1", headers=headers, timeout=60
    ) as server:

        def items(path: str) -> list[dict[str, Any]]:
            return server.get(path).raise_for_status().json()["items"]

        found = [
            each
            for session in items("/sessions")
            for each in items(f"/sessions/{session['id']}/checkpoints")
        ]
        last = max(
            (each for each in found if each["kind"] == "state"), key=lambda each: each["created_at"]
        )
        where = f"/sessions/{last['session_id']}/checkpoints/{last['id']}/download"
        files = server.get(where).raise_for_status().json()["files"]
    return {each["path"]: each["sha256"] for each in files if each["path"].endswith(".safetensors")}


if __name__ == "__main__":
    sys.exit(main())
