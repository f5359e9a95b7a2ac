"""Runs a program of another environment to its end, within a deadline."""

import asyncio
from collections.abc import Mapping
from pathlib import Path


async def program_output(
    *command: str, cwd: Path, env: Mapping[str, str], deadline_s: float
) -> str:
    """What it printed. Fails with its output unless it ended well in time; it does not outlive the
    test.
    """
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=env, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(deadline_s):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{out.decode()}\n{err.decode()}"[-6000:]
    return out.decode()
