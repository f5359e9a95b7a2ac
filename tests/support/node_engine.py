"""A runtime's part of a session over two nodes of Ray: engines and a trainer over both. ``python
node_engine.py FOLDER``

``FOLDER/config.json`` says what is wanted of them, ``FOLDER/model`` is the base model; what became
of it is left in ``FOLDER/found.json``. The folder is the runtime's own too.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpu_runtime.cluster import joining
from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.engine.vllm_process import imports_begin
from gpu_runtime.errors import RuntimeFault
from gpu_runtime.interfaces import Engine, SamplingOptions
from gpu_runtime.loading import engine_and_trainer
from gpu_runtime.loop.sample import Sample
from gpu_runtime.model_interfaces import Trainer
from gpu_runtime.weights.handover_folder import handover_make
from support.gateway_harness import make_assignment, session_of
from support.rank_steps import gradient, logprobs, optim_step

PROMPT = (0, 40, 41, 42, 2)
TOKENS = 8


async def greedy(engine: Engine, name: str) -> tuple[list[int], list[float]]:
    """Tokens and their log-probabilities."""
    options = SamplingOptions(max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
    found = [delta async for delta in engine.generate(name, PROMPT, options)]
    return [token for delta in found for token in delta.token_ids_T], [
        logprob for delta in found for logprob in delta.logprobs_T
    ]


async def greedy_of_each(engine: Engine, name: str) -> list[tuple[list[int], list[float]]]:
    """Of each engine of them."""
    return [await greedy(part, name) for part in Replicas.of(engine).parts]


def sample(ids: list[int], logprobs: list[float]) -> Sample:
    """The prompt and this answer."""
    asked = len(PROMPT)
    return Sample(
        (*PROMPT, *ids),
        (0,) * asked + (1,) * len(ids),
        (0.0,) * asked + tuple(logprobs),
        advantage=1.0,
    )


async def steps(engine: Engine, trainer: Trainer, handover: Path) -> dict[str, Any]:
    """Greedy before and after a step, and what the trainer makes of the same tokens."""
    before = await greedy_of_each(engine, "before")
    await gradient(trainer, [sample(*before[0])])
    await optim_step(trainer, 1)
    await trainer.publish(handover)
    await engine.load_weights(handover, 1)
    after = await greedy_of_each(engine, "after")
    (trained_T,) = await logprobs(trainer, [sample(*after[0])])
    return {"before": before, "after": after, "trained": trained_T[-TOKENS:]}


async def until_lost(engine: Engine, trainer: Trainer, handover: Path, folder: Path) -> None:
    """Hand weights over, again and again, until a node is lost. Raises EngineDead,
    TrainerFailed.
    """
    number = 0
    while not engine.dead:
        number += 1
        await trainer.publish(handover)
        (folder / "met").touch()
        await engine.load_weights(handover, number)


async def whole(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What is wanted."""
    assignment = make_assignment(max_context_length=256, learning_rate=1e-2, **wanted["config"])
    assignment = assignment.model_copy(update={"base_model_path": str(folder / "model")})
    joining.OWN = wanted.get("own", "")
    nodes = assignment.config.nodes
    session = session_of(assignment)
    session.agent = SimpleNamespace(preempt=lambda: None)
    try:
        async with engine_and_trainer.open_engine_and_trainer(session) as (
            engine,
            trainer,
            comparison,
        ):
            await comparison.passed()
            with handover_make("test", nodes) as handover:
                if wanted.get("lost"):
                    await until_lost(engine, trainer, handover, folder)
                return await steps(engine, trainer, handover)
    except RuntimeFault as fault:
        return {"fault": type(fault).__name__, "says": str(fault)}


def main(folder: Path) -> None:
    """Write what was found."""
    began = time.monotonic()
    os.environ["TINKERSCRIPT_RUNTIME_DIR"] = str(folder)
    imports_begin()
    wanted = json.loads((folder / "config.json").read_text())
    found = asyncio.run(whole(folder, wanted))
    partly = folder / "found.partial"
    partly.write_text(json.dumps(found | {"seconds": time.monotonic() - began}))
    partly.rename(folder / "found.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
