"""A runtime's part of two engines over two nodes of Ray, where none of vLLM's is started: ``python
node_streams.py FOLDER`` leaves what it found in ``FOLDER/found.json``.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from gpu_runtime.cluster import joining
from gpu_runtime.cluster.group import group_opened
from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.errors import RequestRefused, RuntimeFault
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.loading import node_engine
from gpu_runtime.loading.node_engine import EngineActor, NodeEngine
from support import node_streams
from tinkerscript.wire.config import SessionConfig

TOKENS = 5


class Counting:
    """In the place of vLLM's engine: counts up from a prompt's last token, and writes down what it
    was told.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.version, self.dead = folder, 0, False
        self.context_length, self.ending = 256, "was killed"

    def _told(self, line: str) -> None:
        with (self._folder / "told").open("a") as file:
            file.write(f"{line}\n")

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        if not prompt_ids:
            raise RequestRefused("an empty prompt")
        try:
            for number in range(options.max_tokens):
                token = prompt_ids[-1] + 1 + number
                yield Delta(f"{token} ", (token,), (-0.5,), self.version)
                await asyncio.sleep(0.01)
        finally:
            self._told(f"{request_id} is over after {number + 1}")

    async def load_weights(self, folder: Path, version: int) -> None:
        self._told(f"weights of {folder.name}")
        self.version = version

    async def sleep(self) -> None:
        self.dead = True  # as one that ends by itself

    async def close(self) -> None:
        self._told("closed")


class CountingActor(EngineActor):
    """Of such an engine."""

    async def start(self, spec: EngineSpec) -> int:
        self._engine = node_streams.Counting(Path(spec.model_path))  # type: ignore[assignment]
        return 256


async def tokens_of(engine: NodeEngine, name: str, count: int, most: int) -> list[int]:
    """Those of one call, which is closed after ``most`` of ``count``."""
    options, found = SamplingOptions(max_tokens=count), list[int]()
    stream = engine.generate(name, [7], options)
    async for delta in stream:
        found += delta.token_ids_T
        if len(found) == most:
            break
    await stream.aclose()
    return found


async def whole(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What is wanted."""
    joining.OWN, found = wanted["own"], dict[str, Any]()
    node_engine.EngineActor = node_streams.CountingActor  # by a name that the other node can import
    async with group_opened(2) as group:
        assert group is not None, "of two nodes"
        engine = await NodeEngine.start(group, 1, EngineSpec(str(folder), SessionConfig(), "cpu"))
        found["whole"] = await tokens_of(engine, "whole", TOKENS, TOKENS + 1)
        found["closed"] = await tokens_of(engine, "closed", 100_000, 3)
        both = [tokens_of(engine, f"of {number}", TOKENS, TOKENS + 1) for number in range(8)]
        found["at once"] = await asyncio.gather(*both)
        try:
            await anext(engine.generate("refused", [], SamplingOptions(max_tokens=1)))
        except RequestRefused as refused:
            found["refused"] = str(refused)
        await engine.load_weights(folder / "handover", 3)
        async for delta in engine.generate("served", [7], SamplingOptions(max_tokens=1)):
            found["version"] = [engine.version, delta.version]
        (folder / "met").touch()
        if wanted["lost"] == "engine":
            await engine.sleep()
        try:
            while not engine.dead:
                if wanted["lost"] == "call":
                    await tokens_of(engine, "lost", 100_000, 100_001)
                await asyncio.sleep(0.1)
            found["ending"] = engine.ending
        except RuntimeFault as fault:
            found |= {"fault": type(fault).__name__, "says": str(fault)}
        await engine.close()
    return found


def main(folder: Path) -> None:
    """Write what was found."""
    wanted = json.loads((folder / "config.json").read_text())
    (folder / "found.json").write_text(json.dumps(asyncio.run(whole(folder, wanted))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
