"""What the examples learn: ``.venv/bin/python tests/learning/examples.py hello --seeds 0 1 2``

Each program of ``sdk/examples`` runs as its README says, in a folder of its own, against one server
here with the bundled model. Its rewards by step, what it printed last and its minutes are written
to ``curves/examples/``; the table and the curve of its README are made from those files. Without a
name every example runs: hours.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "sdk" / "examples"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "sdk"), str(EXAMPLES)]

from agents.environments import build_all  # noqa: E402
from local_server import Server, running_server  # noqa: E402
from nightly import machine  # noqa: E402

from tinkerscript.wire.sessions import SessionState  # noqa: E402

RESULTS = Path(__file__).with_name("curves") / "examples"
NAMES = [
    "hello",
    "guess_number",
    "countdown",
    "gsm8k",
    "tool_use",
    "judge",
    "multi_agent",
    "twenty_questions",
    "coding_agent",
]
# Those that run in an environment of tests/agents, with options of their own.
ELSEWHERE = {"coding_agent": ("mini-swe-agent", ["--small", "--epochs", "4"])}
DEADLINE_S = 5400
BLOCK = re.compile(r"(<!-- measured: begin -->\n).*?(<!-- measured: end -->)", re.DOTALL)


def main() -> int:
    """Run what was asked for; 0 where every program ended with status 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; without one all of them"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    chosen = parser.parse_args()
    names, ran = chosen.names or NAMES, True
    if unknown := set(names) - set(NAMES):
        parser.error(f"no examples: {', '.join(unknown)}. There are {', '.join(NAMES)}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TINKERSCRIPT_DATA")) as folder:
        models = ROOT / ".data" / "models"
        os.environ["TINKERSCRIPT_DATA"] = str(Path(folder, "data"))
        shutil.copytree(models.resolve(), Path(folder, "data", "models"))
        with running_server() as server:
            for seed in chosen.seeds:
                for name in names:
                    ran = measure(server, name, seed, Path(folder, f"{name}-{seed}")) and ran
    return 0 if ran else 1


def measure(server: Server, name: str, seed: int, folder: Path) -> bool:
    """One run of an example's program: its result is written, and its README made anew; False where
    it failed.
    """
    copied = folder / name
    shutil.copytree(EXAMPLES / name, copied)
    own = {"TINKERSCRIPT_BASE_URL": server.base_url, "TINKERSCRIPT_API_KEY": server.api_key}
    python, options = sys.executable, []
    if name in ELSEWHERE:
        environment, options = ELSEWHERE[name]
        built = build_all([environment], reuse=True)[environment]
        if built.trouble:
            print(f"{name}, seed {seed}: {built.trouble}", flush=True)
            return False
        python = str(built.folder / "bin" / "python")
    command = [python, str(copied / "train.py"), *options, "--seed", str(seed)]
    load, began = os.getloadavg()[0], time.monotonic()
    said = f"no end in {DEADLINE_S // 60} min"
    try:
        ended = subprocess.run(
            command, cwd=folder, env=os.environ | own | {"PYTHONPATH": str(ROOT / "sdk")}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=DEADLINE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        print(f"{name}, seed {seed}: {said}", flush=True)
    else:
        print(f"{name}, seed {seed}: status {ended.returncode}", flush=True)
        if ended.returncode:
            print(ended.stderr[-3000:], flush=True)
            return False
        said = _said(ended.stdout)
    minutes = (time.monotonic() - began) / 60
    rewards = newest_rewards(server.base_url, server.api_key)
    result = {
        "example": name, "seed": seed, "rewards": rewards, "said": said, "minutes": round(minutes, 1),
        "load": round(load, 1), "date": str(datetime.datetime.now(datetime.UTC).date()), "machine": machine(),
    }  # fmt: skip
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}-seed{seed}.json").write_text(json.dumps(result, indent=1) + "\n")
    if seed == 0:
        for drawn in folder.glob("*.png"):
            shutil.copy(drawn, EXAMPLES / name / "curve.png")
    readme_write(name)
    return True


def newest_rewards(base_url: str, api_key: str) -> list[float]:
    """The mean reward of each step of the newest session, which is stopped where its program did
    not end it.
    """
    with httpx.Client(base_url=base_url, headers={"Authorization": f"Bearer {api_key}"}) as client:
        (newest,) = (
            client.get("/v1/sessions", params={"limit": 1}).raise_for_status().json()["items"]
        )
        path = f"/v1/sessions/{newest['id']}"
        if not SessionState(newest["state"]).is_terminal:  # the next program needs its runtime
            client.post(f"{path}/stop").raise_for_status()
        page = (
            client.get(f"{path}/events", params={"kind": "metric", "limit": 1000})
            .raise_for_status()
            .json()
        )
    return [round(event["data"]["reward_mean"], 3) for event in page["items"]]


def _said(output: str) -> str:
    """The program's sentences of what was held out, without where the model lies and what may be
    started next.
    """
    lines = [line for line in output.splitlines() if not line.startswith("python ")]
    return "; ".join(
        line.partition("; the model lies")[0]
        for line in lines
        if re.search(r"before|held out", line)
    )


def held_out(said: str) -> str:
    """The held-out measure before and after, where the program printed it."""
    found = re.search(r"held out[^;]*: (\S+) before, (\S+) after", said)
    return f"{found[1]} to {found[2]}" if found else "-"


def readme_write(name: str) -> None:
    """The block "measured" of an example's README, from the files of its runs."""
    runs = [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{name}-seed*.json"))]
    page = EXAMPLES / name / "README.md"
    page.write_text(BLOCK.sub(lambda block: block[1] + table(runs) + block[2], page.read_text()))


def table(runs: list[dict[str, Any]]) -> str:
    """The runs as lines of Markdown, and the curve of seed 0."""
    if not runs:
        return "Not measured yet; that it runs is tested.\n"
    lines = [
        "| seed | steps | reward, step 1 | reward, last step | held out | what the program printed | minutes |"
        " date, machine |",
        "| --- " * 8 + "|",
    ]
    for run in runs:
        rewards = run["rewards"] or [float("nan")]
        where = f"{run['date']}, {run['machine']}, load {run['load']} when it began"
        lines.append(
            f"| {run['seed']} | {len(run['rewards'])} | {rewards[0]:.2f} | {rewards[-1]:.2f} |"
            f" {held_out(run['said'])} | {run['said']} | {run['minutes']} | {where} |"
        )
    drawn = (EXAMPLES / runs[0]["example"] / "curve.png").exists()
    picture = ["", "![mean reward by step, seed 0](curve.png)"] if drawn else []
    return "\n".join([*lines, *picture, ""])


if __name__ == "__main__":
    sys.exit(main())
