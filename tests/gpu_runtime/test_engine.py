"""The real vLLM on a CPU: tokens under the version that sampled them, sleep and wake, stacks, a
death with a name.
"""

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import EngineDead, RequestRefused, WeightsRefused
from gpu_runtime.health.stack_dumps import stacks_collect
from gpu_runtime.interfaces import Delta, SamplingOptions
from support.tiny_model import tiny_model_make
from support.trace_collector import Collector, traced
from support.waiting import eventually
from tinkerscript.processes.tracing import span, tracing_end
from tinkerscript.wire.config import SessionConfig

# What vLLM imports warns of its own future.
pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
PROMPT = [0, 40, 41, 42, 2]


@pytest.fixture
def max_staleness() -> int:
    """Strictly on-policy unless a test says otherwise."""
    return 0


@pytest.fixture
def collector() -> Iterator[Collector]:
    """What this process traces goes to it."""
    with traced("runtime") as collector:
        yield collector


@pytest.fixture
async def engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_staleness: int, collector: Collector
) -> AsyncIterator[VllmEngine]:
    monkeypatch.setenv("TINKERSCRIPT_RUNTIME_DIR", str(tmp_path))
    model = tiny_model_make(tmp_path / "model")
    config = SessionConfig(
        max_context_length=256 + 256 * max_staleness, seed=41, max_staleness=max_staleness
    )
    engine = await VllmEngine.start(EngineSpec(str(model), config, "cpu"))
    try:
        yield engine
    finally:
        await engine.close()


async def sample(engine: VllmEngine, name: str, tokens: int = 4) -> tuple[list[float], set[int]]:
    """Log-probabilities of greedy tokens, which tell weights apart, and the versions that they were
    recorded under.
    """
    logprobs: list[float] = []
    versions = set()
    async for delta in engine.generate(
        name, PROMPT, SamplingOptions(max_tokens=tokens, temperature=0.0)
    ):
        logprobs += delta.logprobs_T
        versions.add(delta.version)
    return logprobs, versions


async def seeded(engine: VllmEngine, name: str, row: int) -> list[int]:
    """Tokens of a prompt of its own, and a seed of its own."""
    prompt = [4 + (row * 31 + place * 7) % 90 for place in range(200)]
    asked = engine.generate(name, prompt, SamplingOptions(max_tokens=4, temperature=1.0, seed=row))
    return [token async for delta in asked for token in delta.token_ids_T]


async def test_a_call_has_the_parts_that_the_core_knows_as_spans(
    engine: VllmEngine, collector: Collector
) -> None:
    began = time.time()
    with span("sample"):
        await sample(engine, "call", tokens=5)
    ended = time.time()
    await asyncio.to_thread(tracing_end)
    call, parts = (
        collector.named("sample"),
        [collector.named(f"engine {it}") for it in ("queue", "prefill", "decode")],
    )
    assert {(part.trace_id, part.parent_id) for part in parts} == {(call.trace_id, call.span_id)}
    assert parts[2].attributes == {"sampled_tokens": 5}
    edges = [began, *(edge for part in parts for edge in (part.began_at, part.ended_at)), ended]
    assert edges == sorted(edges), "of one clock, one after the other"


async def test_a_seed_gives_the_same_tokens_though_its_prompt_was_computed_in_pieces(
    engine: VllmEngine,
) -> None:
    """Prompts that come together and are longer than a batch: some are computed in two pieces. Its
    end is no error.
    """
    rows = range(engine.llm.vllm_config.scheduler_config.max_num_batched_tokens // 200 + 8)
    together = await asyncio.gather(*(seeded(engine, f"together-{row}", row) for row in rows))
    await engine.llm.reset_prefix_cache()
    assert together == [await seeded(engine, f"alone-{row}", row) for row in rows]
    assert len(set(map(tuple, together))) > len(rows) // 2, "they were sampled"
    listening, shut_down = engine.llm.output_handler, engine.llm.shutdown
    listened = []

    def shutdown(timeout: float) -> None:
        listened.append(not listening.cancelling())
        shut_down(timeout=timeout)

    engine.llm.shutdown = shutdown
    await engine.close()
    assert listened == [False], (
        "nobody waits for vLLM's processes when they end: that would be reported as an error"
    )


async def test_a_grammar_without_an_end_is_refused_while_other_calls_are_sampled(
    engine: VllmEngine,
) -> None:
    engine._trial._cpu_s = 2.0  # noqa: SLF001 - not the ten seconds of a server
    words = " | ".join(f'"{number * 7919:x}"' for number in range(300_000))
    tag = json.dumps(
        {"type": "structural_tag", "format": {"type": "grammar", "grammar": f"root ::= {words}\n"}}
    )
    stream = engine.generate("endless", PROMPT, SamplingOptions(max_tokens=4, structural_tag=tag))
    refused, sampled = asyncio.create_task(anext(stream)), 0
    while not refused.done():
        await sample(engine, f"beside-{sampled}")
        sampled += 1
    with pytest.raises(
        RequestRefused, match=r"cannot be made and followed within 2 s of a core.*ask for fewer"
    ):
        await refused
    assert sampled > 3
    bound = SamplingOptions(max_tokens=8, json_schema='{"enum": ["yes"]}')
    assert (
        "".join([delta.text async for delta in engine.generate("bound", PROMPT, bound)]) == '"yes"'
    )


async def test_a_grammar_that_grows_slow_later_ends_its_own_call_alone(engine: VllmEngine) -> None:
    bound = SamplingOptions(max_tokens=64, json_schema='{"type": "string", "minLength": 200}')
    # the budget of a call: used up at once
    await engine.llm.collective_rpc("grammars_bound", args=(-1.0,))
    free = asyncio.create_task(sample(engine, "free"))
    with pytest.raises(
        RequestRefused,
        match="to be followed, and more with each token: write rules that read a text",
    ):
        await anext(engine.generate("slow", PROMPT, bound))
    await free
    await engine.llm.collective_rpc("grammars_bound")
    assert "".join(
        [delta.text async for delta in engine.generate("quick", PROMPT, bound)]
    ).startswith('"')


def other_weights(folder: Path, target: Path) -> Path:
    """The model's weights, turned round: another model of the same shape."""
    weights = load_file(folder / "model.safetensors")
    target.mkdir()
    save_file(
        {name: tensor.flip(0).contiguous() for name, tensor in weights.items()},
        target / "weights.safetensors",
    )
    return target


async def test_a_life_of_the_engine(engine: VllmEngine, tmp_path: Path) -> None:
    before, versions = await sample(engine, "first")
    assert versions == {0}
    told = engine.llm.vllm_config.model_config
    assert (told.seed, told.max_model_len, told.dtype) == (41, 256, torch.float32), (
        "the session's options"
    )
    sockets = Path(os.environ["VLLM_RPC_BASE_PATH"])
    assert any(path.is_socket() for path in sockets.iterdir()), "vLLM's sockets are in our folder"

    await engine.sleep()
    waiting = asyncio.create_task(sample(engine, "while it sleeps"))
    assert not (await asyncio.wait({waiting}, timeout=0.5))[0], (
        "calls wait while the trainer has the device"
    )
    await engine.wake()
    assert await waiting == (pytest.approx(before, abs=1e-4), {0}), (
        "it woke with the weights as they were"
    )

    during = asyncio.create_task(sample(engine, "in flight", tokens=200))
    await eventually(lambda: engine.turns.running)
    handover = asyncio.create_task(
        engine.load_weights(other_weights(tmp_path / "model", tmp_path / "other"), 1)
    )
    await eventually(lambda: engine.turns.is_held)
    late = asyncio.create_task(sample(engine, "came during the hand-over"))
    await handover
    logprobs, versions = await during
    assert versions == {0}, "what began under version 0 ended under version 0"
    assert logprobs[:4] == pytest.approx(before, abs=1e-4)
    logprobs, versions = await late
    assert versions == {1}, "what came meanwhile was sampled by the new weights, and says so"
    assert logprobs != pytest.approx(before, abs=1e-2)

    stacks = await asyncio.to_thread(stacks_collect, tmp_path / "stacks")
    assert stacks.startswith("== engine.") and "vllm" in stacks
    (file,) = (tmp_path / "stacks").glob("engine.*.process")
    core = int(file.name.split(".")[1])
    assert core != os.getpid()

    doomed = asyncio.create_task(sample(engine, "doomed", tokens=240))
    await eventually(lambda: engine.turns.running)
    os.kill(core, signal.SIGKILL)
    with pytest.raises(EngineDead, match="the engine's process was killed while generating"):
        await asyncio.wait_for(doomed, 60)
    await eventually(lambda: engine.dead)
    assert engine.ending == "was killed"
    shutil.rmtree(tmp_path / "other")


# of more than one block of cached keys and values
LONG_PROMPT = [4 + (place * 7) % 90 for place in range(300)]


async def follow(engine: VllmEngine, name: str, into: list[Delta], **options) -> list[Delta]:
    """All pieces of a call of LONG_PROMPT, in ``into`` as they come."""
    async for delta in engine.generate(
        name, LONG_PROMPT, SamplingOptions(temperature=1.0, seed=7, **options)
    ):
        into.append(delta)
    return into


def recomputed(model: Path, weights: Path | None, ids: list[int]) -> list[float]:
    """Log-probabilities of all tokens but the first by the library's own forward, under other
    weights where named.
    """
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    if weights is not None:
        plain.load_state_dict(load_file(weights / "weights.safetensors"), strict=False)
    with torch.no_grad():
        logits_TV = plain(torch.tensor([ids])).logits[0, :-1].double()
    return logits_TV.log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


@pytest.mark.parametrize("max_staleness", [1])
async def test_a_call_goes_on_through_a_handover_and_each_token_is_of_the_weights_that_are_recorded(
    engine: VllmEngine, tmp_path: Path
) -> None:
    model, other = tmp_path / "model", other_weights(tmp_path / "model", tmp_path / "other")
    pieces: list[Delta] = []
    during = asyncio.create_task(
        follow(engine, "in flight", pieces, max_tokens=200, ignore_eos=True)
    )
    await eventually(lambda: len(pieces) > 20)
    await engine.load_weights(other, 5)
    assert not during.done(), "the hand-over did not wait for it"
    assert engine.version == 5
    await during
    ids = [token for piece in pieces for token in piece.token_ids_T]
    logprobs = [logprob for piece in pieces for logprob in piece.logprobs_T]
    versions = [piece.version for piece in pieces for _ in piece.token_ids_T]
    new = versions.index(5)
    assert 20 < new < 200 and versions == [0] * new + [5] * (200 - new)
    of_both = [recomputed(model, weights, LONG_PROMPT + ids)[-200:] for weights in (None, other)]
    assert logprobs[:new] == pytest.approx(of_both[0][:new], abs=2e-5)
    assert logprobs[new:] == pytest.approx(of_both[1][new:], abs=2e-5)
    assert logprobs[:new] != pytest.approx(of_both[1][:new], abs=1e-2), "the two differ"

    later = await follow(engine, "the same prompt again", [], max_tokens=8)
    assert {piece.version for piece in later} == {5}
    ids, logprobs = (
        [each for piece in later for each in getattr(piece, name)]
        for name in ("token_ids_T", "logprobs_T")
    )
    fresh = recomputed(model, other, LONG_PROMPT + ids)[-len(ids) :]
    assert logprobs == pytest.approx(fresh, abs=2e-5), (
        "nothing that the old weights computed was reused"
    )

    pieces = []
    asleep = asyncio.create_task(
        follow(engine, "while it sleeps", pieces, max_tokens=100, ignore_eos=True)
    )
    await eventually(lambda: len(pieces) > 5)
    await engine.sleep()
    seen = len(pieces)
    assert not (await asyncio.wait({asleep}, timeout=0.5))[0] and len(pieces) <= seen + 1, (
        "the trainer has the device"
    )
    await engine.wake()
    engine.version = 6  # a step that had nothing to learn: the same weights, the next number
    await asleep
    ids, logprobs = (
        [each for piece in pieces for each in getattr(piece, name)]
        for name in ("token_ids_T", "logprobs_T")
    )
    assert logprobs == pytest.approx(recomputed(model, other, LONG_PROMPT + ids)[-100:], abs=2e-5)
    assert [pieces[0].version, pieces[-1].version] == [5, 6]

    (tmp_path / "bad").mkdir()
    save_file({"nothing.weight": torch.zeros(2)}, tmp_path / "bad" / "weights.safetensors")
    pieces = []
    held = asyncio.create_task(
        follow(engine, "in flight again", pieces, max_tokens=200, ignore_eos=True)
    )
    await eventually(lambda: pieces)
    with pytest.raises(WeightsRefused):
        await engine.load_weights(tmp_path / "bad", 7)
    seen = len(pieces)
    assert not (await asyncio.wait({held}, timeout=0.5))[0] and len(pieces) <= seen + 1, (
        "of which weights is not known"
    )
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)


@pytest.mark.parametrize("max_staleness", [1])
async def test_what_the_cache_had_of_a_prompt_is_counted_and_nothing_of_older_weights(
    engine: VllmEngine, tmp_path: Path
) -> None:
    other = other_weights(tmp_path / "model", tmp_path / "other")

    async def cached(name: str) -> int:
        return (await follow(engine, name, [], max_tokens=2))[0].cached_tokens

    assert [await cached(name) for name in ("first", "again")] == [0, 256], "two blocks of 128"
    await engine.load_weights(other, 5)
    assert [await cached(name) for name in ("later", "later again")] == [0, 256]
