"""A warm runtime whose libraries, engine and trainer are nothing: ready at once, then a session's that only says so."""

import asyncio
import os
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.loading import warm
from gpu_runtime.loading.both import Loaded
from support.fakes import FakeTrainer
from tinkerscript.wire.config import SessionConfig


async def load(model: str, gpus: int, name: str) -> Loaded:
    """With a process of its own, as an engine has one. A broken model ends it in the middle of its rehearsal."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    print(f"loaded {model} child {child.pid}", flush=True)
    if os.path.exists(f"{model}.broken"):
        tempfile.mkdtemp(prefix=f"tinkerscript-{name}-rehearsal-", dir="/dev/shm")
        raise RuntimeError("this model is broken")
    part = FakeTrainer()
    return Loaded(model, SessionConfig(), gpus, part, part, AsyncExitStack())  # type: ignore[arg-type]


def libraries() -> None:
    """Nothing is imported."""
    print("imports", flush=True)


async def serve(config: RuntimeConfig, loaded: Loaded | None) -> bool:
    """A session's life."""
    print(f"serves {config.session_id} in {os.getcwd()} with {config.lease}", flush=True)
    await asyncio.sleep(120)
    return False


if __name__ == "__main__":
    asyncio.run(warm.life(warm.Launcher(warm.launcher_link()), serve, load, libraries))
