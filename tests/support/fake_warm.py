"""A warm runtime whose libraries are nothing: ready at once, then a session's that only says so."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.loading import warm


def libraries() -> None:
    """A process of its own, as the fork server is. Where its folder's neighbour says so it ends."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    print(f"imports beside {child.pid}", flush=True)
    if (Path(os.environ["TINKERSCRIPT_RUNTIME_DIR"]).parents[1] / "broken").exists():
        raise RuntimeError("this machine is broken")


async def serve(config: RuntimeConfig) -> bool:
    """A session's life."""
    print(f"serves {config.session_id} in {os.getcwd()} with {config.lease}", flush=True)
    await asyncio.sleep(120)
    return False


if __name__ == "__main__":
    asyncio.run(warm.life(warm.Launcher(warm.launcher_link()), serve, libraries))
