"""A runtime's part of a session over two nodes of Ray: ranks on both. ``python node_ranks.py
FOLDER``

``FOLDER/config.json`` says what is wanted of them, ``FOLDER/model`` is the base model; what became
of it is left in ``FOLDER/found.json``.
"""

import asyncio
import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gpu_runtime.cluster import group, joining
from gpu_runtime.cluster.group import Group, group_opened
from gpu_runtime.cluster.same import same_model_verify, versions
from gpu_runtime.errors import RuntimeFault, TrainerKilled
from gpu_runtime.training import rank_process
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.ranks import RankProcesses, TrainerRanks
from support import node_ranks
from support.rank_batches import batch
from support.rank_steps import gradient, optim_step
from tinkerscript.wire.config import SessionConfig

SUMS = 2000


async def steps(
    folder: Path, wanted: dict[str, Any], config: SessionConfig, there: Group | None, _: list[None]
) -> dict[str, Any]:
    """The real trainer: a state, if one is wanted, then these steps with a state after each; the
    last one's metrics. Where a loss is awaited, steps until it shows.
    """
    trainer = TrainerRanks(str(folder / "model"), config, "cpu", group=there)
    metrics: dict[str, float] = {}
    try:
        if state := wanted.get("state"):
            await trainer.load_state(Path(state))
        number = 0
        while wanted.get("lost"):
            number += 1
            await gradient(trainer, batch(number))
            (folder / "met").touch()
            await optim_step(trainer, number)
        for number in wanted["steps"]:
            metrics = await gradient(trainer, batch(number))
            metrics |= await optim_step(trainer, number)
            await trainer.save_state(folder / f"state-{number}")
        await trainer.export_model(folder / "exported")
    except TrainerKilled as killed:
        await trainer.restart()
        again = await gradient(trainer, batch(1))
        return {"killed": str(killed), "again": again}
    finally:
        await trainer.close()
    return {"metrics": metrics}


async def meeting(
    folder: Path,
    wanted: dict[str, Any],
    config: SessionConfig,
    there: Group | None,
    notices: list[None],
) -> dict[str, Any]:
    """Ranks that meet and load nothing."""
    spec = RankSpec(str(folder / "model"), config, 0, config.trainer_ranks, "", "cpu", 1)
    # by a name that the other node can import
    load = partial(node_ranks.meet, wanted.get("other_model"))
    ranks = RankProcesses(spec, partial(rank_process.rank_main, load=load), group=there)
    try:
        await ranks.ready()
        (folder / "met").touch()
        while wanted.get("until_noticed") and not notices:
            await asyncio.sleep(0.1)
        while wanted.get("lost"):
            await summed(ranks)
        await ranks.ready()
    except TrainerKilled as killed:
        await ranks.restart()
        return {"killed": str(killed), "again": await summed(ranks)}
    finally:
        await ranks.close()
    return {"notices": len(notices)}


async def summed(ranks: RankProcesses) -> float:
    """As a step, which the ranks compute together for a while."""
    return await ranks.call("summed", deadline_s=60)


class Met:
    """In the place of a trainer: its ranks sum, and load no model."""

    def summed(self) -> float:
        """Of ones, again and again."""
        for _ in range(SUMS):
            one = torch.ones(1)
            dist.all_reduce(one)
        return float(one)


def meet(other_model: str | None, spec: RankSpec, on_row: object) -> Met:
    """What a rank does before it loads the model. The rank on the other node may have another
    one.
    """
    if other_model and spec.rank > 0:
        spec = replace(spec, base_model_path=other_model)
    rank_process._process_group_make(spec, "gloo")  # noqa: SLF001
    same_model_verify(spec.base_model_path, spec.node)
    return Met()


async def whole(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What is wanted."""
    config = SessionConfig(**wanted["config"])
    work = meeting if "meets" in wanted else steps
    joining.OWN = wanted.get("own", "")
    if torch := wanted.get("torch"):
        group.versions = lambda: versions() | {"torch": torch}
    group.JOIN_S = wanted.get("join_s", group.JOIN_S)
    notices: list[None] = []
    try:
        async with group_opened(config.nodes, on_notice=lambda: notices.append(None)) as there:
            return await work(folder, wanted, config, there, notices)
    except RuntimeFault as fault:
        return {"fault": type(fault).__name__, "says": str(fault)}


def main(folder: Path) -> None:
    """Write what was found."""
    began = time.monotonic()
    wanted = json.loads((folder / "config.json").read_text())
    found = asyncio.run(whole(folder, wanted))
    partly = folder / "found.partial"
    partly.write_text(json.dumps(found | {"seconds": time.monotonic() - began}))
    partly.rename(folder / "found.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
