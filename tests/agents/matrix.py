"""Outside agents, each run as it is against a plain and a thinking model, and the share of their
calls that merged.

    PYTHONPATH=.:sdk:tests .venv/bin/python -m agents.matrix                 every agent, in environments built anew
    PYTHONPATH=.:sdk:tests .venv/bin/python -m agents.matrix --only DSPy     one of them; --reuse keeps its environment

The gateway, its journal and the chat templates (of Qwen2.5 and Qwen3) are real; the engine plays
the answers of frameworks.py, in token ids that encoding their text would never make. What was
recorded is compared with the engine's log, and every sampled token is trained once. The exit status
is 0 when each agent that could be built got its answer and all of its calls merged that its
conversation lets merge.
"""

import argparse
import asyncio
import datetime
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from clients.outside_agents import ENVIRONMENT, check_record, timelines_of

from agents.environments import Environment, build_all
from agents.frameworks import FRAMEWORKS, PROGRAMS, Framework
from support.gateway_harness import Gateway, running_gateway

ROOT = Path(__file__).resolve().parents[2]
PLAIN, THINKING = "plain", "thinking"
FAMILIES = {PLAIN: "qwen2_5", THINKING: "qwen3"}
PROGRAM_S = 240.0
WORDS = 300  # of what went wrong, in the table
TABLE = ROOT / "docs" / "agents.md"
# Nothing of theirs is sent anywhere, which the proxy of ENVIRONMENT would hold up until it times
# out.
SILENT = {
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "OTEL_SDK_DISABLED": "true",
}
PAGE = """# Outside agents

Agents of other packages, in their newest versions and without a change, each against a plain model (Qwen2.5's chat
template) and a thinking one (Qwen3's), through the whole gateway; a fake engine plays the answers. "May merge" is the
share of the calls after the first that the agent's own conversation lets continue an earlier one; "merged" is what did,
plain / thinking. Merged calls are one trained sequence; the others are trained too, each with its whole prompt. Every
sampled token was recorded and is trained once, or the row says FAILED. `make nightly` writes this page.

| agent | date | versions | calls | may merge | merged | in words |
| --- | --- | --- | --- | --- | --- | --- |
"""
ROOM = {"max_context_length": 32_768, "max_tokens": 4096}


@dataclass(frozen=True)
class Result:
    """One agent with one model. ``trouble`` is empty when all was as it must be."""

    framework: Framework
    model: str
    timelines: list[list[int]]
    trouble: str = ""

    @property
    def share(self) -> float:
        """Of the calls after the first, those that go on in an earlier one's timeline."""
        return merged(sum(map(len, self.timelines)), len(self.timelines))


def merged(calls: int, timelines: int) -> float:
    return (calls - timelines) / (calls - 1) if calls > 1 else 1.0


@dataclass(frozen=True)
class Stage:
    """A gateway that plays one agent's answers with one model, and the episode that is begun
    there.
    """

    framework: Framework
    model: str
    gateway: Gateway
    episode_id: str
    api_key: str


async def play(command: list[str], frameworks: Sequence[Framework], folder: Path) -> list[Result]:
    """Each of ``frameworks`` with both models, all in one process: most of the time is imports.
    Never raises for what they do.
    """
    async with AsyncExitStack() as stack:
        stages = [
            await stage_open(stack, framework, model, folder / f"{framework.program}-{model}")
            for framework in frameworks
            for model in FAMILIES
        ]
        answers = await run([*command, *arguments_of(stages)], folder, len(stages))
        return [await judge(stage, answer) for stage, answer in zip(stages, answers, strict=True)]


async def stage_open(
    stack: AsyncExitStack, framework: Framework, model: str, folder: Path
) -> Stage:
    gateway = await stack.enter_async_context(
        running_gateway(folder, family=FAMILIES[model], **ROOM)
    )
    gateway.engine.say(*(odd(gateway, text) for text in texts(framework, model)))
    begun = await gateway.begin()
    return Stage(framework, model, gateway, begun["episode_id"], begun["api_key"])


def arguments_of(stages: Sequence[Stage]) -> list[str]:
    """As play.py and play.mjs take them; the latter takes one program."""
    arguments: list[str] = []
    for framework, its in groupby(stages, key=lambda stage: stage.framework):
        pairs = [(f"http://{stage.gateway.address}/v1", stage.api_key) for stage in its]
        arguments += [
            *(["--"] if arguments else []),
            framework.program,
            *(text for pair in pairs for text in pair),
        ]
    return arguments


def texts(framework: Framework, model: str) -> list[str]:
    """What the model says, with thoughts where it has some."""
    thoughts = "<think>\nI think\n about it.\n</think>\n\n" if model == THINKING else ""
    return [f"{thoughts if thinks else ''}{text}" for text, thinks in framework.said]


def odd(gateway: Gateway, text: str) -> list[int]:
    """``text`` letter by letter, with the end of the turn: ids that are found again only where they
    are reused.
    """
    return [
        *(token for letter in text for token in gateway.engine.encode(letter)),
        gateway.engine.end_id,
    ]


async def run(command: list[str], folder: Path, count: int) -> list[str | dict[str, str]]:
    """The ``count`` answers of the program, or why there is none."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=ENVIRONMENT | SILENT | {"HOME": str(folder)}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PROGRAM_S):
            out, _ = await process.communicate()
    except TimeoutError:
        return [{"error": f"no end within {PROGRAM_S:.0f} s"}] * count
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = [line for line in out.decode(errors="replace").splitlines() if line.strip()]
    if process.returncode != 0 or not lines:
        return [{"error": lines[-1] if lines else f"status {process.returncode}"}] * count
    return json.loads(lines[-1])


async def judge(stage: Stage, answer: str | dict[str, str]) -> Result:
    """What the gateway recorded, compared with the engine's log and with what the conversation
    allows.
    """
    framework, gateway, episode_id = stage.framework, stage.gateway, stage.episode_id
    calls = gateway.journal.calls.of_episode(episode_id)
    timelines = timelines_of(calls)
    result = Result(framework, stage.model, timelines)
    if not isinstance(answer, str) or framework.answer not in answer:
        return replace(
            result,
            trouble=answer["error"] if isinstance(answer, dict) else f"another answer: {answer}",
        )
    try:
        await check_record(
            gateway, episode_id, gateway.engine.requests, is_cut=framework.asks_for_one_call
        )
    except AssertionError as wrong:
        return replace(result, trouble=f"the record: {str(wrong).partition(chr(10))[0]}")
    expected = [list(timeline) for timeline in framework.timelines]
    if timelines == expected:
        return result
    drift = [f"{call.drift['cause']}: {call.drift['reason']}" for call in calls if call.drift]
    return replace(
        result, trouble=f"timelines {timelines} instead of {expected}; drift: {drift or 'none'}"
    )


def command_of(framework: Framework, environment: Path) -> list[str]:
    """How the framework's program is started; its name, addresses and keys follow."""
    if framework.is_node:
        return ["node", str(environment / "play.mjs")]
    return [str(environment / "bin" / "python"), str(PROGRAMS / "play.py")]


def row(framework: Framework, environment: Environment, results: list[Result]) -> str:
    """A line of the table."""
    today = str(datetime.datetime.now(datetime.UTC).date())
    if environment.trouble or not results:
        words = f"skipped: {environment.trouble or missing(framework)}"
        return f"| {framework.name} | {today} | | | | | {cell(words)} |"
    calls = max(sum(map(len, result.timelines)) for result in results)
    shares = [f"{result.share:.2f}" if not result.trouble else "FAILED" for result in results]
    said = "; ".join(
        dict.fromkeys(f"{result.model}: {result.trouble}" for result in results if result.trouble)
    )
    allowed = merged(sum(map(len, framework.timelines)), len(framework.timelines))
    cells = [
        today,
        environment.versions,
        str(calls),
        f"{allowed:.2f}",
        " / ".join(shares),
        cell(said or framework.why),
    ]
    return f"| {framework.name} | {' | '.join(cells)} |"


def cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "/")[:WORDS]


def missing(framework: Framework) -> str:
    """The commands that this machine lacks, in words; "" when it has them all."""
    absent = [command for command in framework.commands if shutil.which(command) is None]
    return f"{', '.join(absent)} not on this machine" if absent else ""


def rows_before() -> dict[str, str]:
    """The lines of the page as it is, by the name of their agent."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    return {
        each.name: line
        for each in FRAMEWORKS
        for line in lines
        if line.startswith(f"| {each.name} |")
    }


def main() -> int:
    """Runs the wanted frameworks; their rows of docs/agents.md are written anew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=[each.name for each in FRAMEWORKS], metavar="NAME"
    )
    parser.add_argument("--reuse", action="store_true", help="keep the environments that are there")
    wanted = parser.parse_args()
    chosen = [each for each in FRAMEWORKS if not wanted.only or each.name in wanted.only]
    environments = build_all((each.environment for each in chosen), reuse=wanted.reuse)
    rows, counts = rows_before(), Counter[str]()
    for framework in chosen:
        environment, results = environments[framework.environment], []
        if not environment.trouble and not missing(framework):
            with tempfile.TemporaryDirectory() as folder:
                command = command_of(framework, environment.folder)
                results = asyncio.run(play(command, [framework], Path(folder)))
        ended = (
            "skipped"
            if not results
            else "failed"
            if any(each.trouble for each in results)
            else "held"
        )
        counts[ended] += 1
        rows[framework.name] = row(framework, environment, results)
        print(rows[framework.name], flush=True)
    known = [rows[each.name] for each in FRAMEWORKS if each.name in rows]
    TABLE.write_text(PAGE + "\n".join(known) + "\n")
    print(
        f"{counts['held']} of {len(chosen)} agents as expected, {counts['failed']} not, {counts['skipped']} skipped"
    )
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
