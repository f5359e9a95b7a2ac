"""Recipes of ``tinker-cookbook``, unmodified: ``.venv/bin/python tests/recipes/run.py [NAME...]``

Every part is real: a server, its store, vLLM with adapters, the trainer of many models; the model
is tiny, and there is no network. A recipe has passed when it ended with status 0 and its metrics
are those of as many steps as it was asked for, all of them finite; of ``math_rl learns`` the reward
must have risen too. ``--model FOLDER`` has another model in the place of the tiny one.
``tests/environments/build.py cookbook`` makes the environment that they run in.
"""

import argparse
import json
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from recipes.workspace import BASE, INSTRUCT, NAMES, SPECIAL_TOKENS, workspace_make  # noqa: E402

from support import migrated_database  # noqa: E402
from support.tiny_model import tiny_model_make  # noqa: E402

PYTHON = ROOT / ".venv-cookbook" / "bin" / "python"
# modules in the place of those of search_tool's services
LOCAL_INDEX = Path(__file__).with_name("local_index")
# at once: clients of rlhf_pipeline's last stage: its policy, its reward model, and each evaluation
RUNTIMES = 4
DEADLINE_S = 1200.0  # of one recipe
TAIL = 30  # lines of a failed recipe's output


@dataclass(frozen=True)
class Recipe:
    """A module of ``tinker_cookbook.recipes``, its options, and how many steps its metrics then
    have. A ``.py`` is a program of this folder.

    ``resumes`` is the recipe in whose log folder it goes on: it loads the last state there, and
    finds that all is done. ``stages`` are folders of metrics that a recipe keeps in a log folder
    that it names itself. ``rises`` is a metric whose mean over the last third of the steps must be
    above that over the first.
    """

    module: str
    options: str
    steps: int
    model: str = BASE
    resumes: str = ""
    stages: tuple[str, ...] = ()
    rises: str = ""


LOOP = "batch_size=8 group_size=4 max_tokens=16 max_steps=2 save_every=0 loss_fn="
ARITHMETIC = "env=arithmetic groups_per_batch=8 group_size=4 max_tokens=5 eval_every=0 max_steps="
LEARNING = (
    "env=arithmetic renderer_name=qwen3_instruct groups_per_batch=8 group_size=8 max_tokens=5 eval_every=0"
    " save_every=0 learning_rate=3e-3 max_steps="
)
CHAT = (
    "dataset=conversations.jsonl batch_size=8 max_length=256 save_every=2 eval_every=2 rolling_save_every=1"
    " rolling_ttl_seconds=3600 max_steps="
)
STREAM = "stream_minibatch_config.groups_per_batch=8 stream_minibatch_config.num_minibatches=2"
GAME = "renderer_name=qwen3_instruct max_tokens=16 max_steps=2 eval_every=0 batch_size="
RECIPES = {
    "sl_loop": Recipe("sl_loop", "batch_size=16 max_length=256 save_every=2 max_steps=4 learning_rate=1e-3", 4),
    "rl_loop": Recipe("rl_loop", LOOP + "importance_sampling", 2),
    "rl_loop stable_reinforce": Recipe("rl_loop", LOOP + "stable_reinforce", 2),
    "rl_loop cispo": Recipe("rl_loop", LOOP + "cispo", 2),
    "rl_loop gspo": Recipe("rl_loop", LOOP + "gspo", 2),
    "dpo": Recipe("preference.dpo.train", "dataset=hhh batch_size=16 max_length=256 max_steps=2", 2),
    "chat_sl": Recipe("chat_sl.train", CHAT + "4", 4),
    "chat_sl resume": Recipe("chat_sl.train", CHAT + "6", 4, resumes="chat_sl"),
    "sl_basic": Recipe("sl_basic", "", 1),
    "math_rl": Recipe("math_rl.train", ARITHMETIC + "3 loss_fn=importance_sampling", 3),
    "math_rl ppo": Recipe("math_rl.train", ARITHMETIC + "2 loss_fn=ppo compute_post_kl=True num_substeps=2", 2),
    "math_rl async": Recipe("math_rl.train", ARITHMETIC + "3 loss_fn=importance_sampling max_steps_off_policy=2", 3),
    "math_rl stream": Recipe("math_rl.train", ARITHMETIC + "2 " + STREAM, 2),
    # Its renderer rewards a reply that ends within 5 tokens, which a model whose tokens are
    # characters can be taught.
    "math_rl learns": Recipe(
        "math_rl.train", LEARNING + "24 loss_fn=importance_sampling", 24, INSTRUCT, rises="env/all/reward/total"
    ),
    "rl_basic": Recipe("rl_basic", "max_tokens=16 max_steps=1", 1),
    "guess_number": Recipe("multiplayer_rl.guess_number.train", GAME + "8 group_size=2", 2, INSTRUCT),
    "twenty_questions": Recipe(
        "multiplayer_rl.twenty_questions.train", GAME + "8 group_size=2 num_epochs=1", 2, INSTRUCT
    ),
    "text_arena": Recipe("multiplayer_rl.text_arena.train", GAME + "8 num_train_datapoints=32", 2, INSTRUCT),
    "shorter": Recipe("preference.shorter.train", GAME + "4 group_size=2", 2, INSTRUCT),
    "rlhf_pipeline": Recipe(
        "preference.rlhf.rlhf_pipeline",
        "batch_size=8 max_length=512 rl_max_tokens=16 rl_group_size=2 save_every=2 max_steps=2", 2,
        stages=("sft", "rm", "rl"),
    ),
    "search_tool": Recipe(
        "search_tool.train",
        "renderer_name=qwen3_instruct batch_size=4 group_size=2 max_tokens=16 max_turns=2 max_steps=2", 2, INSTRUCT,
    ),
    "prompt_distillation": Recipe(
        "prompt_distillation.train", "file_path=conversations.jsonl batch_size=16 max_length=256 max_steps=2", 2
    ),
    "on_policy_distillation": Recipe(
        "distillation.on_policy_distillation",
        f"teacher_model={BASE} dataset=deepmath groups_per_batch=8 group_size=2 max_tokens=16 max_steps=2", 2,
    ),
    "download": Recipe("download.py", "", 1),
}  # fmt: skip
# They have no option that says what to do with a log folder that is there.
NEVER_ASK = ("sl_loop", "rl_loop", "sl_basic", "rl_basic", "rlhf_pipeline", "download")


def main() -> int:
    """Run the recipes that are named, or all; 0 where every one passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    parser.add_argument(
        "--model", type=Path, help="a Hugging Face folder; without it a tiny model is made"
    )
    options = parser.parse_args()
    names = options.names or list(RECIPES)
    if unknown := sorted(set(names) - set(RECIPES)):
        parser.error(f"there is no recipe {unknown[0]!r}; these are there: {', '.join(RECIPES)}")
    if not PYTHON.exists():
        print("the cookbook is not installed: tests/environments/build.py cookbook")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server below ends too
    failed = []
    with tempfile.TemporaryDirectory() as made:
        model = Path(made) / "model"
        if options.model:
            shutil.copytree(options.model, model)  # its configuration is changed
        else:
            tiny_model_make(model, special_tokens=SPECIAL_TOKENS)
        folder = workspace_make(Path(made) / "work", model)
        with serving(Path(made) / "data", model) as environment:
            for name in names:
                began = time.monotonic()
                why = recipe_run(name, folder, environment)
                failed += [name] if why else []
                print(f"{name}: {why or 'passed'}, {time.monotonic() - began:.0f} s", flush=True)
                sessions_finish(environment)
    print(
        f"{len(names) - len(failed)} of {len(names)} recipes passed{': not ' if failed else ''}{', '.join(failed)}"
    )
    return int(bool(failed))


def recipe_run(name: str, folder: Path, environment: dict[str, str]) -> str:
    """Why it failed; empty where it passed. What it printed last is shown then."""
    recipe = RECIPES[name]
    log = folder / "runs" / (recipe.resumes or name).replace(" ", "-")
    options = [f"model_name={recipe.model}", f"log_path={log}", *recipe.options.split()]
    if recipe.stages:  # it makes its folder among the runs, of this name
        options = [f"base_model={recipe.model}", f"short_name={name}", *recipe.options.split()]
        log = folder / "runs" / f"rlhf-{name}"
    if name.split()[0] not in NEVER_ASK:
        options.append(f"behavior_if_log_dir_exists={'resume' if recipe.resumes else 'delete'}")
    own = Path(__file__).with_name(recipe.module)
    program = (
        [str(own)] if own.suffix == ".py" else ["-m", f"tinker_cookbook.recipes.{recipe.module}"]
    )
    try:
        done = subprocess.run(
            [str(PYTHON), *program, *options], cwd=folder,
            env=environment | {"HOME": str(folder), "TINKER_COOKBOOK_RUNS_DIR": str(folder / "runs")},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S,
        )  # fmt: skip
        why, output = (
            f"FAILED ({done.returncode})" if done.returncode else _wrong(recipe, log),
            done.stdout,
        )
    except subprocess.TimeoutExpired as late:
        why, output = (
            f"FAILED (no end within {DEADLINE_S:.0f} s)",
            (late.stdout or b"").decode(errors="replace"),
        )
    if why:
        print("\n".join(output.splitlines()[-TAIL:]), flush=True)
    return why


def _wrong(recipe: Recipe, log: Path) -> str:
    """What a recipe that ended well left out of its metrics; empty where nothing is missing."""
    checks = [metrics_check(log / stage, recipe.steps) for stage in recipe.stages or [""]]
    checks += [rise_check(log, recipe.rises)] if recipe.rises else []
    return next(filter(None, checks), "")


def sessions_finish(environment: dict[str, str]) -> None:
    """End what a recipe left: most never close their client, and a session that no client closed
    keeps its runtime, which the next recipe waits for, until the server misses its heartbeats for
    ten minutes.
    """
    headers = {"X-API-Key": environment["TINKER_API_KEY"]}
    with httpx.Client(
        base_url=f"{environment['TINKER_BASE_URL']}/api/v1", headers=headers, timeout=60
    ) as server:
        for session_id in server.get("sessions").raise_for_status().json()["sessions"]:
            server.post(
                f"sessions/{session_id}/finish", json={"reason": {"type": "success"}}
            ).raise_for_status()


def metrics_check(log: Path, wanted: int) -> str:
    """What is wrong with the metrics that a recipe wrote; empty where nothing is."""
    written = log / "metrics.jsonl"
    if not written.exists():
        return f"FAILED (no metrics of {log.name})"
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    steps = {line["step"] for line in lines if "step" in line}
    if len(steps) < wanted:
        return f"FAILED (metrics of {len(steps)} steps of {log.name} instead of {wanted})"
    for line in lines:
        for metric, value in line.items():
            if isinstance(value, float) and not math.isfinite(value):
                return f"FAILED ({metric} is {value} at step {line.get('step')})"
    return ""


def rise_check(log: Path, metric: str) -> str:
    """What is wrong with a metric that must rise; empty where it rose. Its means are shown."""
    lines = (
        (log / "metrics.jsonl").read_text().splitlines() if (log / "metrics.jsonl").exists() else []
    )
    values = [line[metric] for line in map(json.loads, lines) if metric in line]
    third = len(values) // 3
    if not third:
        return f"FAILED ({metric} has {len(values)} values)"
    first, last = statistics.fmean(values[:third]), statistics.fmean(values[-third:])
    print(
        f"{metric}: {first:.3f} in the first {third} steps, {last:.3f} in the last {third}",
        flush=True,
    )
    return "" if last > first else f"FAILED ({metric} did not rise)"


@contextmanager
def serving(data: Path, model: Path) -> Iterator[dict[str, str]]:
    """A server of its own whose BASE is ``model``; the environment of a recipe."""
    migrated_database.for_server(data)
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}", "TINKERSCRIPT_DATA": str(data), "TINKERSCRIPT_PORT": str(port_free()),
        "TINKERSCRIPT_MODELS": ",".join(f"{name}={model}" for name in NAMES),
        "TINKERSCRIPT_MAX_RUNTIMES": str(RUNTIMES), "DJANGO_SETTINGS_MODULE": "console.settings",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None, "it is a pipe"
        ready = next(line for line in process.stdout if line.startswith("ready "))
        command = [sys.executable, "manage.py", "create_api_key", "recipes@example.com"]
        key = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        ).stdout
        clean = {
            name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")
        }
        offline = dict.fromkeys(
            ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1"
        )
        cache = {"HF_HOME": str(data / "hf"), "TINKER_TELEMETRY": "0"}
        search = {
            "PYTHONPATH": str(LOCAL_INDEX),
            "GCP_VERTEXAI_PROJECT_NUMBER": "0",
            "GCP_VERTEXAI_REGION": "here",
        }
        server = {"TINKER_BASE_URL": ready.split()[1], "TINKER_API_KEY": key.strip()}
        yield clean | offline | cache | search | server
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def port_free() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    sys.exit(main())
