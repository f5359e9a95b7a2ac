"""``python tests/benchmarks/families.py [NAME ...]``: real engine and real trainer on a tiny model
of each family.

The trainer's gradient against plain torch, and the rehearsal of a session. Then the largest
difference of a log-probability of a sampled token in nats: with the base weights, after a hand-over
of changed ones, and after that of five steps. Last, whether a trainer that is killed after the third
of these and begins at its state has the same bits after the fifth.

Status 0 where every family agrees within GAP with the same bits, is refused as
``support/model_families.py`` has it, or ends as ``support/family_outcomes.py`` has it. Each run
writes its rows into the table of docs/models.md. About 30 s each.
"""

import asyncio
import contextlib
import datetime
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

import torch  # noqa: E402
from nightly import machine  # noqa: E402

from gpu_runtime.engine.arguments import EngineSpec  # noqa: E402
from gpu_runtime.engine.vllm_engine import VllmEngine  # noqa: E402
from gpu_runtime.errors import RuntimeFault  # noqa: E402
from gpu_runtime.loading.rehearsal import probe_prompts, rehearse, sample  # noqa: E402
from gpu_runtime.loop.sample import Sample  # noqa: E402
from gpu_runtime.training.ranks import TrainerRanks  # noqa: E402
from support.family_checks import drawn_samples, family_gaps  # noqa: E402
from support.family_outcomes import DTYPES, Outcome, outcome_judge  # noqa: E402
from support.model_families import ALL, VOCABULARY, WINDOW, family_make  # noqa: E402
from support.rank_steps import gradient, logprobs, optim_step  # noqa: E402
from support.tiny_model import tiny_model_make  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402
from tinkerscript.wire.training.model_refusals import folder_refusal  # noqa: E402

CONFIG = SessionConfig(max_context_length=128, learning_rate=1e-3)
STEPS, KILLED_AFTER = 5, 3
DEADLINE_S = 400.0
CPU = torch.device("cpu")
PAGE = ROOT / "docs" / "models.md"
BLOCK = re.compile(r"(<!-- families: begin -->\n).*?(<!-- families: end -->)", re.DOTALL)


async def family_try(name: str, folder: Path, *, kills: bool = True) -> Outcome:
    """Refused by its folder, or rehearsed and measured. Nothing is raised: a fault is the family's
    outcome. Without ``kills`` no trainer is killed.
    """
    tiny_model_make(folder)  # for its tokenizer
    family_make(folder, name)
    config = CONFIG.model_copy(update={"dtype": DTYPES.get(name, "float32")})
    if refusal := folder_refusal(folder, config):
        return Outcome(refusal=refusal)
    trainer = TrainerRanks(str(folder), config, "cpu")
    same = True
    try:
        drawn = drawn_samples(2 * WINDOW, WINDOW)
        _, gradient = await asyncio.to_thread(family_gaps, folder, drawn, CONFIG, CPU)
        engine = await VllmEngine.start(EngineSpec(str(folder), config, "cpu"))
        try:
            await trainer.ready()
            await rehearse(engine, trainer, folder, folder / "handover")
            samples = await sampled(engine)
            gaps = [await gap(engine, trainer)]
            await trainer.flip_weights()
            gaps.append(await handed_gap(engine, trainer, folder / "handover", 1))
            await trainer.flip_weights()  # back: a state has no frozen weights
            await steps(trainer, samples, range(1, KILLED_AFTER + 1))
            if kills:
                await trainer.save_state(folder / "state")
            await steps(trainer, samples, range(KILLED_AFTER + 1, STEPS + 1))
            gaps.append(await handed_gap(engine, trainer, folder / "handover", 2))
        finally:
            await engine.close()
        if kills:
            digest = await trainer.weights_digest()  # of weights that the steps have changed
            trainer.processes[0].kill()
            await trainer.close()
            trainer = TrainerRanks(str(folder), config, "cpu")
            await trainer.ready()
            await trainer.load_state(folder / "state")
            await steps(trainer, samples, range(KILLED_AFTER + 1, STEPS + 1))
            same = await trainer.weights_digest() == digest
    except RuntimeFault as fault:
        return Outcome(code=fault.code, words=str(fault))
    finally:
        await trainer.close()
    return Outcome(gaps=tuple(gaps), gradient=gradient, same=same if kills else None)


async def steps(trainer: TrainerRanks, samples: list[Sample], numbers: range) -> None:
    """Each on the same samples, of which every second is to become less likely."""
    trained = [replace(each, advantage=1.0 - 1.5 * (i % 2)) for i, each in enumerate(samples)]
    for number in numbers:
        await gradient(trainer, trained)
        await optim_step(trainer, number)


async def handed_gap(
    engine: VllmEngine, trainer: TrainerRanks, handover: Path, version: int
) -> float:
    """As ``gap``, after a hand-over."""
    await trainer.publish(handover)
    await engine.load_weights(handover, version)
    return await gap(engine, trainer)


async def sampled(engine: VllmEngine) -> list[Sample]:
    """What the engine answers to the probes."""
    prompts = probe_prompts(
        {"vocab_size": VOCABULARY, "sliding_window": 4 * WINDOW}, engine.context_length
    )
    return [await sample(engine, prompt) for prompt in prompts]


async def gap(engine: VllmEngine, trainer: TrainerRanks) -> float:
    """The largest difference over the sampled tokens of the probes, in nats."""
    samples = await sampled(engine)
    found = await logprobs(trainer, samples)
    return max(
        abs(engine_T[t] - trainer_T[t])
        for (engine_T, mask_T), trainer_T in zip(
            ((s.logprobs_T, s.mask_T) for s in samples), found, strict=True
        )
        for t in range(len(mask_T))
        if mask_T[t]
    )


@contextlib.contextmanager
def output_to(log: Path) -> Iterator[TextIO]:
    """All that this process and its children print goes to ``log``: a fault has no word of why its
    engine ended, which that process printed. What is yielded prints where this process did.

    Once for all families: the process that forks the engines keeps what it began with.
    """
    kept = [os.dup(descriptor) for descriptor in (1, 2)]
    with log.open("ab") as file, os.fdopen(os.dup(1), "w") as shown:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        try:
            yield shown
        finally:
            for stream, descriptor, before in zip(
                (sys.stdout, sys.stderr), (1, 2), kept, strict=True
            ):
                stream.flush()
                os.dup2(before, descriptor)
                os.close(before)


def family_run(name: str, log: Path) -> Outcome:
    """What became of a family within its deadline, with what ``log`` has of its engine."""
    began = log.stat().st_size
    with tempfile.TemporaryDirectory() as folder:
        try:
            outcome = asyncio.run(asyncio.wait_for(family_try(name, Path(folder)), DEADLINE_S))
        except TimeoutError:
            outcome = Outcome(code="no_progress", words=f"no end within {DEADLINE_S:g} s")
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("rb") as file:
        file.seek(began)
        return replace(outcome, printed=file.read().decode(errors="replace"))


def main(names: list[str]) -> int:
    """Print a row for each family, one engine at a time, and write it into the table."""
    rows, held, today = [], True, datetime.datetime.now(datetime.UTC).date()
    with tempfile.TemporaryDirectory() as folder, output_to(Path(folder) / "log") as shown:
        for name in names or ALL:
            outcome = family_run(name, Path(folder) / "log")
            found = outcome_judge(name, outcome)
            rows.append(f"| {name} | {found.row} | {today}, {machine()} |")
            if not found.held:
                print(outcome.printed, file=shown)
            print(rows[-1], file=shown, flush=True)
            held = held and found.held
            PAGE.write_text(
                BLOCK.sub(
                    lambda block: block[1] + table(block[0], rows) + block[2], PAGE.read_text()
                )
            )
    print(
        f"{len(rows)} families, {'each as promised' if held else 'NOT each as promised'}",
        flush=True,
    )
    return 0 if held else 1


def table(before: str, rows: list[str]) -> str:
    """The block of the page with these rows; a family that was not run keeps the one that it
    has.
    """
    of_name = {
        line.split("|")[1].strip(): line
        for line in [*before.splitlines(), *rows]
        if line.startswith("| ")
    }
    head = [
        "| family | engine and trainer | gap, base | gap, handed over | gap, 5 steps | gradient | "
        "bits after a kill | run |",
        "| --- " * 8 + "|",
    ]
    kept = [of_name[name] for name in ALL if name in of_name]
    return "\n".join([*head, *kept, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
