"""The real trainer of many models and the real vLLM on a CPU: adapters are sampled from as they
were trained.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import EngineTrainerMismatch, RequestRefused
from gpu_runtime.interfaces import Delta, SampleOrder, SampleOutcome, SamplingOptions
from gpu_runtime.loading.rehearsal import rehearse_models
from gpu_runtime.model_interfaces import AdamParams, Datum, LoraConfig
from gpu_runtime.training.models.process import ModelTrainerProcess
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = [
    pytest.mark.engine, pytest.mark.timeout(400), pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]  # fmt: skip
PROMPT = (0, 40, 41, 42, 2, 50, 51, 60)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def parts(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[VllmEngine, ModelTrainerProcess]]:
    """One engine and one trainer for all tests of this file: each test frees the models that it
    made.
    """
    folder = tmp_path_factory.mktemp("tiny")
    model, config = (
        str(tiny_model_make(folder / "model")),
        SessionConfig(max_context_length=256, lora_rank=32),
    )
    trainer = ModelTrainerProcess(model, config, "cpu")
    try:
        engine = await VllmEngine.start(EngineSpec(model, config, "cpu", adapters=True))
        try:
            await trainer.ready()
            yield engine, trainer
        finally:
            await engine.close()
    finally:
        await trainer.close()


def data(tokens: tuple[int, ...] = PROMPT) -> list[Datum]:
    ids = np.array(tokens)
    return [
        Datum(ids[:-1], {"target_tokens": ids[1:], "weights": np.ones(len(ids) - 1, np.float32)})
    ]


async def scores(trainer: ModelTrainerProcess, model_id: str) -> np.ndarray:
    result = await trainer.model(model_id).forward(data(), "cross_entropy", {})
    return result.outputs[0]["logprobs"]


async def streamed(engine: VllmEngine, folder: Path | None) -> list[Delta]:
    options = SamplingOptions(max_tokens=4, temperature=0.0, prompt_logprobs=0)
    return [delta async for delta in engine.generate(f"stream-{folder}", PROMPT, options, folder)]


async def sampled(engine: VllmEngine, folder: Path | None, **changes: Any) -> SampleOutcome:
    """``changes`` are of fields of an order, or of its options."""
    of_order = {field.name for field in fields(SampleOrder)} & changes.keys()
    given = {name: changes.pop(name) for name in of_order}
    options = SamplingOptions(**{"max_tokens": 8, "prompt_logprobs": 0, "seed": 7} | changes)
    return await engine.sample(replace(SampleOrder(PROMPT, options, folder=folder), **given))


def scored(outcome: SampleOutcome, prompt: tuple[int, ...] = PROMPT) -> list[float]:
    """The log-probability of each token of the prompt but the first."""
    assert outcome.prompt_logprobs_P[0] == {}
    return [of[token] for token, of in zip(prompt[1:], outcome.prompt_logprobs_P[1:], strict=True)]


class BrokenEngine:
    """A real engine that samples otherwise than it is asked to."""

    def __init__(self, engine: VllmEngine, change: Callable[[SampleOrder], SampleOrder]) -> None:
        self._engine, self._change = engine, change
        self.context_length = engine.context_length

    async def sample(self, order: SampleOrder) -> SampleOutcome:
        return await self._engine.sample(self._change(order))


async def test_a_rehearsal_passes_leaves_no_model_and_names_what_differs(
    parts: tuple[VllmEngine, ModelTrainerProcess], tmp_path: Path
) -> None:
    engine, trainer = parts
    model = tiny_model_make(tmp_path / "model")
    await trainer.create_model("a", LoraConfig(rank=8))
    before = await scores(trainer, "a")
    await rehearse_models(engine, trainer, model, tmp_path / "one")
    assert np.array_equal(await scores(trainer, "a"), before)
    await trainer.unload("a")
    await trainer.create_model("w", None)  # all weights: no other model is there
    await trainer.unload("w")
    broken: dict[str, Callable[[SampleOrder], SampleOrder]] = {
        "with the base weights": lambda order: replace(
            order, options=replace(order.options, temperature=1.2)
        ),
        "with an adapter": lambda order: replace(order, folder=None),
        "in the scores of a prompt with an adapter": lambda order: replace(
            order, folder=None if order.prompt_targets_R else order.folder
        ),
    }
    for when, change in broken.items():
        with pytest.raises(EngineTrainerMismatch, match=f"differ {when}"):
            await rehearse_models(BrokenEngine(engine, change), trainer, model, tmp_path / when)


async def test_two_adapters_and_the_base_are_scored_as_the_trainer_scores_them(
    parts: tuple[VllmEngine, ModelTrainerProcess], tmp_path: Path
) -> None:
    engine, trainer = parts
    rest = {"train_unembed": False}
    await trainer.create_model("a", LoraConfig(rank=8, **rest))
    base = await scores(trainer, "a")
    await trainer.create_model("b", LoraConfig(rank=4, train_mlp=False, **rest))
    folders = {}
    for name in ("a", "b"):
        for _ in range(3):
            await trainer.model(name).forward_backward(data(), "cross_entropy", {})
            await trainer.model(name).optim_step(AdamParams(learning_rate=0.02))
        folders[name] = tmp_path / name
        await trainer.model(name).publish(folders[name])
    wanted = {name: await scores(trainer, name) for name in folders}
    assert all(np.abs(wanted[name] - base).max() > 0.1 for name in folders), "training changed them"
    outcomes = await asyncio.gather(
        *(sampled(engine, adapter) for adapter in (None, folders["a"], folders["b"]))
    )
    for outcome, expected in zip(outcomes, (base, wanted["a"], wanted["b"]), strict=True):
        assert np.allclose(scored(outcome), expected, atol=2e-3)
    # So are they in the other dialects, which stream what is sampled.
    for adapter, expected in ((None, base), (folders["a"], wanted["a"])):
        deltas = await streamed(engine, adapter)
        assert (
            sum(len(delta.token_ids_T) for delta in deltas) == 4
            and deltas[-1].finish_reason == "length"
        )
        of_prompt = [
            of[token] for token, of in zip(PROMPT[1:], deltas[0].prompt_logprobs_P[1:], strict=True)
        ]
        assert np.allclose(of_prompt, expected, atol=2e-3)
    # A later snapshot of one leaves the earlier as it was.
    await trainer.model("a").forward_backward(data(), "cross_entropy", {})
    await trainer.model("a").optim_step(AdamParams(learning_rate=0.05))
    await trainer.model("a").publish(tmp_path / "a2")
    await trainer.model("a").export_model(tmp_path / "external")
    merged = await sampled(engine, tmp_path / "external" / "merged")
    assert np.allclose(scored(merged), await scores(trainer, "a"), atol=2e-3)
    later = await sampled(engine, tmp_path / "a2")
    assert np.allclose(scored(later), await scores(trainer, "a"), atol=2e-3)
    assert np.allclose(scored(await sampled(engine, folders["a"])), wanted["a"], atol=2e-3)
    for name in ("a", "b"):
        await trainer.unload(name)


async def test_named_tokens_and_draws_of_a_prompt_are_of_the_weights_that_are_asked(
    parts: tuple[VllmEngine, ModelTrainerProcess], tmp_path: Path
) -> None:
    """Beside each other in one batch: scores of named tokens, draws, and the likeliest tokens of an
    ordinary prompt.
    """
    engine, trainer = parts
    await trainer.create_model("p", LoraConfig(rank=8))
    for _ in range(3):
        await trainer.model("p").forward_backward(data(), "cross_entropy", {})
        await trainer.model("p").optim_step(AdamParams(learning_rate=0.02))
    await trainer.model("p").publish(tmp_path / "p")
    named = tuple((token, 5, 7) for token in PROMPT[1:])
    asked = {"prompt_targets_R": named, "prompt_draws": 64, "temperature": 2.0}
    outcomes = await asyncio.gather(
        sampled(engine, tmp_path / "p", **asked), sampled(engine, None, **asked),
        sampled(engine, None, prompt_logprobs=3), sampled(engine, tmp_path / "p", **asked, num_samples=3),
    )  # fmt: skip
    plain = scored(outcomes[2])
    for outcome in outcomes[:2]:
        own = [row[0] for row in outcome.prompt_targets_R]
        assert np.allclose(own, scored(outcome), atol=1e-5)
    assert np.allclose(scored(outcomes[1]), plain, atol=1e-5)
    assert (
        outcomes[3].prompt_draws_R == outcomes[0].prompt_draws_R and len(outcomes[3].answers) == 3
    )
    assert np.allclose(
        [row[0] for row in outcomes[0].prompt_targets_R], await scores(trainer, "p"), atol=2e-3
    )
    # Of each drawn token the same score comes back when it is named; what has no score to speak of
    # is not drawn.
    drawn = outcomes[0].prompt_draws_R
    again = await sampled(
        engine, tmp_path / "p", prompt_targets_R=tuple(tuple(t for t, _ in row) for row in drawn)
    )
    assert np.allclose(
        again.prompt_targets_R, [[score for _, score in row] for row in drawn], atol=1e-5
    )
    assert all(len({token for token, _ in row}) > 1 for row in drawn)
    # A token's share of many draws is its probability at the temperature of the request.
    one = await sampled(engine, tmp_path / "p", prompt_draws=128, temperature=0.25, seed=11)
    likeliest = [max(row, key=lambda pair: pair[1])[0] for row in one.prompt_draws_R]
    greedy = await sampled(engine, tmp_path / "p", prompt_draws=2, temperature=0.0)
    assert [[token] * 2 for token in likeliest] == [
        [token for token, _ in row] for row in greedy.prompt_draws_R
    ]
    await trainer.unload("p")


async def test_an_adapter_of_all_parts_is_what_a_client_asks_for_by_default(
    parts: tuple[VllmEngine, ModelTrainerProcess], tmp_path: Path
) -> None:
    """``train_unembed`` too: an adapter of the layer that gives the logits."""
    engine, trainer = parts
    await trainer.create_model("c", LoraConfig(rank=8))
    for _ in range(3):
        await trainer.model("c").forward_backward(data(), "cross_entropy", {})
        await trainer.model("c").optim_step(AdamParams(learning_rate=0.02))
    await trainer.model("c").publish(tmp_path / "c")
    outcome = await sampled(engine, tmp_path / "c")
    assert np.allclose(scored(outcome), await scores(trainer, "c"), atol=2e-3)
    await trainer.unload("c")


async def test_snapshots_of_all_weights_are_sampled_from_exactly_those_weights(
    parts: tuple[VllmEngine, ModelTrainerProcess], tmp_path: Path
) -> None:
    """Two snapshots, the base and an adapter on it, asked for at once and one after another, with
    one prompt.

    Cached prefixes of other weights would show: the scores of the same prompt differ, and so does
    what follows it.
    """
    engine, trainer = parts
    await trainer.create_model("x", LoraConfig(rank=8))
    wanted: dict[str, np.ndarray] = {"base": await scores(trainer, "x")}
    await trainer.model("x").forward_backward(data(), "cross_entropy", {})
    await trainer.model("x").optim_step(AdamParams(learning_rate=0.05))
    await trainer.model("x").publish(tmp_path / "adapter")
    wanted["adapter"] = await scores(trainer, "x")
    await trainer.model("x").export_model(tmp_path / "with a head of its own")
    await trainer.unload("x")
    await trainer.create_model("w", None)
    for name in ("one", "two"):
        for _ in range(2):
            await trainer.model("w").forward_backward(data(), "cross_entropy", {})
            await trainer.model("w").optim_step(AdamParams(learning_rate=2e-3))
        await trainer.model("w").publish(tmp_path / name)
        wanted[name] = await scores(trainer, "w")
    await trainer.unload("w")

    async def is_right(name: str) -> None:
        folder = None if name == "base" else tmp_path / name
        outcome = await sampled(engine, folder)
        assert np.allclose(scored(outcome), wanted[name], atol=2e-3), name
        first = outcome.answers[0]
        longer = (*PROMPT, *first.token_ids_T[:4])
        again = await sampled(engine, folder, prompt_ids=longer)
        last = scored(again, longer)[len(PROMPT) - 1 :]
        assert np.allclose(last, first.logprobs_T[:4], atol=2e-3), (
            "what it sampled is what it scores"
        )

    assert all(
        np.abs(wanted[name] - wanted["base"]).max() > 0.1 for name in ("adapter", "one", "two")
    )
    assert np.abs(wanted["one"] - wanted["two"]).max() > 0.1
    for name in ("one", "base", "two", "adapter", "one"):
        await is_right(name)
    with pytest.raises(RequestRefused, match="a head of their own"):
        await sampled(engine, tmp_path / "with a head of its own" / "merged")
    await asyncio.gather(*(is_right(name) for name in (*wanted, *wanted)))


async def test_a_folder_of_another_model_is_refused_and_the_base_still_serves(
    parts: tuple[VllmEngine, ModelTrainerProcess], tmp_path: Path
) -> None:
    engine, _ = parts
    before = await sampled(engine, None)
    (tmp_path / "config.json").write_text("{}")  # and no weights
    with pytest.raises(RequestRefused, match="could not be served"):
        await sampled(engine, tmp_path)
    assert (await sampled(engine, None)).prompt_logprobs_P == before.prompt_logprobs_P


async def test_samples_are_of_the_tempered_distribution_and_stops_are_in_them(
    parts: tuple[VllmEngine, ModelTrainerProcess],
) -> None:
    """log p_T(i) - log p_T(j) = (log p_1(i) - log p_1(j)) / T, over the ten likeliest tokens."""
    engine, _ = parts
    plain = (await sampled(engine, None, max_tokens=1, top_logprobs=10)).answers[0]
    hot = (await sampled(engine, None, max_tokens=1, top_logprobs=10, temperature=2.0)).answers[0]
    at_one, at_two = dict(plain.top_logprobs_T[0]), dict(hot.top_logprobs_T[0])
    both = sorted(at_one.keys() & at_two.keys())
    assert len(both) >= 5
    for token in both[1:]:
        gap = at_one[token] - at_one[both[0]]
        assert at_two[token] - at_two[both[0]] == pytest.approx(gap / 2, abs=1e-3)
    greedy = (await sampled(engine, None, temperature=0.0, ignore_eos=True)).answers[0]
    third = greedy.token_ids_T[2]
    stopped = (
        await sampled(engine, None, temperature=0.0, ignore_eos=True, stop_token_ids=(third,))
    ).answers[0]
    assert (
        stopped.finish_reason == "stop"
        and stopped.token_ids_T[-1] == third
        and len(stopped.token_ids_T) <= 3
    )
    several = await sampled(engine, None, num_samples=4, prompt_logprobs=None)
    again = await sampled(engine, None, num_samples=4, prompt_logprobs=None)
    assert len({answer.token_ids_T for answer in several.answers}) > 1
    assert [answer.token_ids_T for answer in several.answers] == [
        answer.token_ids_T for answer in again.answers
    ]


async def test_an_adapter_of_a_larger_rank_is_sampled_after_the_smaller_ones(
    parts: tuple[VllmEngine, ModelTrainerProcess], tmp_path: Path
) -> None:
    """The engine began with room for rank 32: it is loaded again, once the calls in flight ended."""
    engine, trainer = parts
    wanted = {}
    for name, rank in (("small", 8), ("large", 64)):
        await trainer.create_model(name, LoraConfig(rank=rank))
        await trainer.model(name).forward_backward(data(), "cross_entropy", {})
        await trainer.model(name).optim_step(AdamParams(learning_rate=0.05))
        await trainer.model(name).publish(tmp_path / name)
        wanted[name] = await scores(trainer, name)
        await trainer.unload(name)
    small = await sampled(engine, tmp_path / "small")
    asked = [asyncio.create_task(sampled(engine, tmp_path / name)) for name in ("small", "large")]
    gone = asyncio.create_task(sampled(engine, tmp_path / "large"))
    await asyncio.sleep(0.2)
    gone.cancel()  # whoever asked first may leave
    again, large = await asyncio.gather(*asked)
    assert not engine.dead and engine.waiting == ""
    for outcome, name in ((small, "small"), (again, "small"), (large, "large")):
        assert np.abs(np.array(scored(outcome)) - wanted[name]).max() < 2e-3, name
    assert np.abs(wanted["large"] - wanted["small"]).max() > 0.05
