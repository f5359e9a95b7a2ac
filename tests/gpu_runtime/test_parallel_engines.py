"""Two real engines in one runtime, and one engine over two processes: both take a real trainer's
weights, all of them.

On a CPU a session has one engine in one process. What is changed here is only what the plan of its
devices says.
"""

import asyncio
from pathlib import Path

import pytest

from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.engine.tensor_parallel import EngineDevices
from gpu_runtime.interfaces import Delta, Engine, SamplingOptions, TokenSource
from gpu_runtime.loading import engine_and_trainer
from gpu_runtime.loop.sample import Sample
from gpu_runtime.placement import Placement
from support.gateway_harness import make_assignment, session_of
from support.rank_steps import gradient, optim_step
from support.tiny_model import tiny_model_make
from support.waiting import eventually

pytestmark = [
    pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]  # fmt: skip
PROMPT = (0, 40, 41, 42, 2)


async def greedy(source: TokenSource, name: str) -> tuple[list[int], list[float], set[int]]:
    """Tokens, their log-probabilities, and the versions that they were recorded under."""
    options = SamplingOptions(max_tokens=8, temperature=0.0, ignore_eos=True)
    found = [delta async for delta in source.generate(name, PROMPT, options)]
    ids = [token for delta in found for token in delta.token_ids_T]
    return (
        ids,
        [logprob for delta in found for logprob in delta.logprobs_T],
        {delta.version for delta in found},
    )


async def follow(engine: Engine, episode: str, into: list[Delta]) -> None:
    options = SamplingOptions(max_tokens=200, seed=7, ignore_eos=True, episode_id=episode)
    async for delta in engine.generate(f"of {episode}", PROMPT, options):
        into.append(delta)


@pytest.mark.parametrize(
    ("engines", "tensor_parallel"), [(2, 1), (1, 2)], ids=["two engines", "tensor parallel"]
)
async def test_a_hand_over_reaches_every_process_and_each_token_has_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines: int, tensor_parallel: int
) -> None:
    plan = Placement("cpu", engine_gpus=tuple(map(str, range(engines * tensor_parallel))))
    monkeypatch.setattr(engine_and_trainer, "placement_choose", lambda *_: plan)
    monkeypatch.setattr(
        engine_and_trainer, "engine_devices_plan", lambda *_: EngineDevices(tensor_parallel)
    )
    model = tiny_model_make(tmp_path / "model")
    assignment = make_assignment(max_context_length=256, max_staleness=1, learning_rate=1e-2)
    assignment = assignment.model_copy(update={"base_model_path": str(model)})
    progress: list[int] = []
    opened = engine_and_trainer.open_engine_and_trainer(
        session_of(assignment, lambda: progress.append(1))
    )
    async with opened as (engine, trainer, comparison):
        await comparison.passed()  # they were compared three times, with hand-overs
        parts = Replicas.of(engine).parts
        assert len(parts) == engines and len(progress) > engines
        assert [part.context_length for part in parts] == [256] * engines
        before = [await greedy(part, "before") for part in parts]
        assert all(
            each == (before[0][0], pytest.approx(before[0][1], abs=1e-5), {0}) for each in before
        )

        pieces: list[list[Delta]] = [[] for _ in range(2)]
        calls = [
            asyncio.create_task(follow(engine, str(number), into))
            for number, into in enumerate(pieces)
        ]
        await eventually(lambda: all(len(into) > 20 for into in pieces))
        sample = Sample(
            (*PROMPT, *before[0][0]),
            (0,) * 5 + (1,) * 8,
            (0.0,) * 5 + tuple(before[0][1]),
            advantage=1.0,
        )
        await gradient(trainer, [sample])
        await optim_step(trainer, 1)
        await trainer.publish(tmp_path / "handover")
        assert not any(call.done() for call in calls), "200 tokens take longer than a step of 13"
        await engine.load_weights(tmp_path / "handover", 1)
        await asyncio.gather(*calls)
        for into in pieces:
            versions = [delta.version for delta in into]
            assert set(versions) == {0, 1} and versions == sorted(versions), (
                "kept in flight through the hand-over"
            )

        after = [await greedy(part, "after") for part in parts]
        assert all(
            each == (after[0][0], pytest.approx(after[0][1], abs=1e-5), {1}) for each in after
        )
        ids, logprobs, _ = after[0]
        assert logprobs != pytest.approx(before[0][1], abs=1e-2), "these weights are others"
        again = Sample(
            (*PROMPT, *ids), (0,) * 5 + (1,) * 8, (0.0,) * 5 + tuple(logprobs), advantage=1.0
        )
        (trained_T,) = await logprobs(trainer, [again])
        assert trained_T[-8:] == pytest.approx(logprobs, abs=1e-4), "and they are the trainer's"
        assert not engine.dead and engine.version == 1
