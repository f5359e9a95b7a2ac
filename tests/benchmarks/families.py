"""``python tests/benchmarks/families.py [NAME ...]``: the rehearsal of real engine and trainer on each family.

One line per family, as docs/models.md quotes it: how long it took, or why it failed. About 20 s each on two cores.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from gpu_runtime.engine.vllm_engine import VllmEngine  # noqa: E402
from gpu_runtime.errors import RuntimeFault  # noqa: E402
from gpu_runtime.rehearsal import rehearse  # noqa: E402
from gpu_runtime.training.ranks import TrainerRanks  # noqa: E402
from support.model_families import TRAINED, family_make  # noqa: E402
from support.tiny_model import tiny_model_make  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402

CONFIG = SessionConfig(max_context_length=128)


async def rehearsed(name: str, folder: Path) -> str:
    """What became of the family."""
    tiny_model_make(folder)  # for its tokenizer
    family_make(folder, name)
    trainer = TrainerRanks(str(folder), CONFIG, "cpu")
    try:
        engine = await VllmEngine.start(str(folder), CONFIG, "cpu")
        try:
            await trainer.ready()
            began = time.monotonic()
            await rehearse(engine, trainer, folder, folder / "handover")
            return f"agrees before and after a hand-over ({time.monotonic() - began:.1f} s)"
        finally:
            await engine.close()
    except RuntimeFault as fault:
        return f"{fault.code}: {str(fault)[:300]}"
    finally:
        await trainer.close()


def main(names: list[str]) -> None:
    """Print the lines."""
    for name in names or list(TRAINED):
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {name} | {asyncio.run(rehearsed(name, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
