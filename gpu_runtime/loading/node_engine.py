"""A whole engine on another node of a session, as an actor of Ray, and the runtime's end of it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runtime.cluster.group import Group
from gpu_runtime.cluster.joining import ray_import
from gpu_runtime.cluster.rank_actor import LOST_S, environment_take
from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.errors import EngineDead, RuntimeFault
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.weights.handover_folder import handover_part

if TYPE_CHECKING:
    from gpu_runtime.engine.vllm_engine import VllmEngine

WATCH_S, END_S = 0.5, 10.0
OF_THE_RUNTIME = ("VLLM_RPC_BASE_PATH", "VLLM_HOST_IP", "GLOO_SOCKET_IFNAME")


class EngineActor:
    """One engine of vLLM, on this node alone."""

    def __init__(self, environment: Mapping[str, str | None]) -> None:
        environment_take({**environment, **dict.fromkeys(OF_THE_RUNTIME)})
        self._engine: VllmEngine | None = None

    async def start(self, spec: EngineSpec) -> int:
        """Load it; how many tokens a call may have. Raises what ``VllmEngine.start`` does."""
        from gpu_runtime.engine.vllm_engine import VllmEngine
        from gpu_runtime.engine.vllm_process import imports_begin

        imports_begin()
        self._engine = await VllmEngine.start(spec)
        return self._engine.context_length

    async def ended(self) -> str:
        """Return how it ended, once it has."""
        while not self._here.dead:
            await asyncio.sleep(WATCH_S)
        return self._here.ending

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        """As of an engine; a call that is cancelled is aborted."""
        stream = self._here.generate(request_id, prompt_ids, options)
        try:
            async for delta in stream:
                yield delta
        finally:
            await stream.aclose()

    async def order(self, name: str, *arguments: object) -> None:
        """``load_weights``, ``sleep``, ``wake`` or ``close``."""
        await getattr(self._here, name)(*arguments)

    async def version_set(self, version: int) -> None:
        """What it serves is of this version."""
        self._here.version = version

    @property
    def _here(self) -> "VllmEngine":
        assert self._engine is not None, "started before it is used"
        return self._engine


class NodeEngine:
    """interfaces.Engine on ``node`` of the group. Build it with ``start``."""

    def __init__(self, group: Group, node: int, actor: Any, context_length: int) -> None:
        self._group, self._node, self._actor = group, node, actor
        self.context_length, self.shares_device = context_length, False
        self._version, self._ending = 0, ""
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, group: Group, node: int, spec: EngineSpec) -> "NodeEngine":
        """Load its model there. Raises what ``VllmEngine.start`` does."""
        actor = group.actor(EngineActor, node)
        length = await _result(group, actor.start.remote(spec))
        engine = cls(group, node, actor, length)
        engine.shares_device = spec.shares_device
        return engine

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        """Stream one completion; closing it aborts it there. Raises EngineDead, RequestRefused."""
        ray = ray_import()
        running = self._actor.generate.options(num_returns="streaming")
        stream = running.remote(request_id, list(prompt_ids), options)
        is_over = False
        try:
            async for piece in stream:
                yield await _result(self._group, piece)
            is_over = True
        except ray.exceptions.RayError as error:
            raise await _cause(self._group, error) from error
        finally:
            if not is_over:
                with suppress(ray.exceptions.RayError):
                    ray.cancel(stream)

    async def load_weights(self, folder: Path, version: int) -> None:
        """From this node's part of the folder."""
        await self._order("load_weights", handover_part(folder, self._node), version)
        self._version = version

    async def sleep(self) -> None:
        """Raises EngineDead."""
        await self._order("sleep")

    async def wake(self) -> None:
        """Raises EngineDead."""
        await self._order("wake")

    @property
    def version(self) -> int:
        """The policy version being served."""
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        self._version = version
        self._actor.version_set.remote(version)

    @property
    def dead(self) -> bool:
        """Whether it has ended, or its node is lost. Raises EngineDead, which names that."""
        if self._group.lost:
            raise EngineDead(f"node {self._group.lost} is lost, and an engine with it")
        return bool(self._ending)

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        return f"on node {self._group.nodes[self._node].name} {self._ending}"

    async def close(self) -> None:
        """End its processes, and its actor's."""
        ray = ray_import()
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        with suppress(ray.exceptions.RayError, RuntimeFault, TimeoutError):
            async with asyncio.timeout(END_S):
                await self._order("close")
        ray.kill(self._actor)

    async def _order(self, name: str, *arguments: object) -> None:
        await _result(self._group, self._actor.order.remote(name, *arguments))

    async def _watch(self) -> None:
        try:
            self._ending = await _result(self._group, self._actor.ended.remote())
        except EngineDead as error:
            self._ending = f"has ended: {error}"


async def _result(group: Group, reference: Any) -> Any:
    """What a call returned. Raises what it raised, and EngineDead where its process has ended.

    As soon as a node is lost: its actors may answer for a moment, or never.
    """
    ray = ray_import()
    future = asyncio.ensure_future(_awaited(reference))
    try:
        while not future.done():
            await asyncio.wait({future}, timeout=WATCH_S)
            if group.lost and not future.done():
                raise EngineDead(f"node {group.lost} is lost, and an engine with it")
        return future.result()
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, RuntimeFault):
            raise error.cause from None
        raise EngineDead(f"the engine failed: {error.cause!r}") from error
    except ray.exceptions.RayError as error:
        raise await _cause(group, error) from error
    finally:
        future.cancel()


async def _cause(group: Group, error: Exception) -> EngineDead:
    """Of an actor that is not reached: its node is lost, if it is, which Ray finds a little later."""
    if lost := await asyncio.to_thread(group.lost_within, LOST_S):
        return EngineDead(f"node {lost} is lost, and an engine with it")
    return EngineDead(f"an engine on another node has ended: {str(error).splitlines()[0]}")


async def _awaited(reference: Any) -> Any:
    return await reference
