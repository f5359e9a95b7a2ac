"""``python tests/benchmarks/families.py [NAME ...]``: real engine and real trainer on a tiny model
of each family.

The rehearsal of a session, then the largest difference of a log-probability of a sampled token in
nats: with the base weights and after a hand-over of changed ones. Status 0 where every family
agrees within GAP or is refused as ``support/model_families.py`` says. Each run writes its rows into
the table of docs/models.md. About 20 s each.
"""

import asyncio
import datetime
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from nightly import machine  # noqa: E402

from gpu_runtime.engine.vllm_engine import VllmEngine  # noqa: E402
from gpu_runtime.errors import RuntimeFault  # noqa: E402
from gpu_runtime.loading.rehearsal import probe_prompts, rehearse, sample  # noqa: E402
from gpu_runtime.training.ranks import TrainerRanks  # noqa: E402
from support.model_families import PLAIN, REFUSED, TOWERS, TRAINED, VOCABULARY, WINDOW, family_make  # noqa: E402
from support.tiny_model import tiny_model_make  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402
from tinkerscript.wire.training.model_refusals import folder_refusal  # noqa: E402

CONFIG = SessionConfig(max_context_length=128)
GAP = 1e-4  # nats, in float32
DEADLINE_S = 400.0
PAGE = ROOT / "docs" / "models.md"
BLOCK = re.compile(r"(<!-- families: begin -->\n).*?(<!-- families: end -->)", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """What became of a family: a row of the table without its name, and whether that is what is
    promised.
    """

    row: str
    held: bool


async def family_try(name: str, folder: Path) -> Found:
    """Refused by its folder, or rehearsed and measured. Nothing is raised: a fault is the family's
    outcome.
    """
    tiny_model_make(folder)  # for its tokenizer
    family_make(folder, name)
    if refusal := folder_refusal(folder, CONFIG):
        return Found(
            f"refused at creation: {refusal.partition(': ')[2].split(', ')[0]} | | |",
            name in REFUSED,
        )
    trainer = TrainerRanks(str(folder), CONFIG, "cpu")
    try:
        engine = await VllmEngine.start(str(folder), CONFIG, "cpu")
        try:
            await trainer.ready()
            began = time.monotonic()
            await rehearse(engine, trainer, folder, folder / "handover")
            took_s = time.monotonic() - began
            before = await gap(engine, trainer)
            await trainer.flip_weights()
            await trainer.publish(folder / "handover")
            await engine.load_weights(folder / "handover", 1)
            after = await gap(engine, trainer)
        finally:
            await engine.close()
    except RuntimeFault as fault:
        return Found(f"{fault.code}: {str(fault)[:300]} | | |", False)
    finally:
        await trainer.close()
    row = f"agree | {before:.1e} | {after:.1e} | {took_s:.1f}"
    return Found(row, name not in REFUSED and max(before, after) < GAP)


async def gap(engine: VllmEngine, trainer: TrainerRanks) -> float:
    """The largest difference over the sampled tokens of the probes, in nats."""
    prompts = probe_prompts(
        {"vocab_size": VOCABULARY, "sliding_window": 4 * WINDOW}, engine.context_length
    )
    samples = [await sample(engine, prompt) for prompt in prompts]
    found = await trainer.logprobs(samples)
    return max(
        abs(engine_T[t] - trainer_T[t])
        for (engine_T, mask_T), trainer_T in zip(
            ((s.logprobs_T, s.mask_T) for s in samples), found, strict=True
        )
        for t in range(len(mask_T))
        if mask_T[t]
    )


def main(names: list[str]) -> int:
    """Print a row for each family, one engine at a time, and write it into the table."""
    rows, held, today = [], True, datetime.datetime.now(datetime.UTC).date()
    for name in names or [*TRAINED, *PLAIN, *TOWERS, *REFUSED]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = asyncio.run(asyncio.wait_for(family_try(name, Path(folder)), DEADLINE_S))
            except TimeoutError:
                found = Found(f"no end within {DEADLINE_S:g} s | | |", False)
        rows.append(f"| {name} | {found.row} | {today}, {machine()} |")
        print(rows[-1], flush=True)
        held = held and found.held
        PAGE.write_text(
            BLOCK.sub(lambda block: block[1] + table(block[0], rows) + block[2], PAGE.read_text())
        )
    print(
        f"{len(rows)} families, {'each as promised' if held else 'NOT each as promised'}",
        flush=True,
    )
    return 0 if held else 1


def table(before: str, rows: list[str]) -> str:
    """The block of the page with these rows; a family that was not run keeps the one that it has."""
    of_name = {
        line.split("|")[1].strip(): line
        for line in [*before.splitlines(), *rows]
        if line.startswith("| ")
    }
    head = [
        "| family | engine and trainer | gap, base | gap, handed over | rehearsal, s | run |",
        "| --- " * 6 + "|",
    ]
    kept = [of_name[name] for name in [*TRAINED, *PLAIN, *TOWERS, *REFUSED] if name in of_name]
    return "\n".join([*head, *kept, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
