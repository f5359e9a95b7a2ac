"""What a runtime loads before it has a session, and whom it is for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.engine.vllm_output import WILL_BE_TRACED, keeps_times
from gpu_runtime.loading import both
from gpu_runtime.loading.both import READ_LATER, Loaded, load_before, misfit, open_engine_and_trainer
from gpu_runtime.rehearsal import sample
from gpu_runtime.steps.comparison import Comparison
from gpu_runtime.training.ranks import TrainerRanks
from support.fakes import FakeTrainer
from support.gateway_harness import make_assignment
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.runtime import Assignment

# Each is read where a session is served or trained, and differs from the default.
LATER = {
    "learning_rate": 3e-4, "warmup_steps": 1, "lr_schedule": "linear", "max_steps": 9, "loss": "dr_grpo",
    "max_tokens": 17, "clip_high": 0.3, "grad_norm_limit": 900.0, "entropy_coef": 0.01, "micro_batch_tokens": 64,
    "max_context_length": 128, "grpo_n": 2, "max_staleness": 2, "temperature": 0.5,
}  # fmt: skip


class Part:
    """An engine or a trainer that is loaded already."""

    def __init__(self) -> None:
        self.dead = self.closed = False
        self.configs: list[SessionConfig] = []

    def configure(self, config: SessionConfig) -> "asyncio.Future[None]":
        self.configs.append(config)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def close(self) -> None:
        self.closed = True


def loaded_make(model: str) -> Loaded:
    engine, trainer, parts = Part(), Part(), AsyncExitStack()
    for part in (engine, trainer):
        parts.push_async_callback(part.close)
    return Loaded(model, SessionConfig(), 0, engine, trainer, parts)  # type: ignore[arg-type]


def assignment_of(**options: object) -> Assignment:
    return make_assignment().model_copy(update={"config": SessionConfig(**options)})


def test_what_is_read_later_are_options_that_there_are() -> None:
    assert set(SessionConfig.model_fields) >= READ_LATER


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (LATER, ""),
        ({"max_context_length": 4096}, "max_context_length is 4096, above its 2048"),
        ({"seed": 1, "lora_rank": 8, "temperature": 0.5}, "it has another seed, lora_rank"),
        ({"grad_clip": 0.5}, "it has another grad_clip"),
        ({"kl_coef": 0.1}, "it has another kl_coef"),
    ],
)
async def test_it_fits_a_session_of_the_default_configuration_but_for_what_is_read_later(options, why) -> None:
    assert misfit(loaded_make("m"), "m", SessionConfig(**options), 0) == why


async def test_it_fits_no_other_model_no_other_devices_and_no_session_once_a_process_ended() -> None:
    loaded = loaded_make("m")
    assert "it has m" in misfit(loaded, "other", SessionConfig(), 0)
    assert "it has m" in misfit(loaded, "m", SessionConfig(), 1)
    loaded.trainer.dead = True  # type: ignore[misc]
    assert misfit(loaded, "m", SessionConfig(), 0) == "a process of it has ended"


async def test_a_session_that_it_fits_is_served_by_it_and_ends_it(monkeypatch) -> None:
    assignment = assignment_of(**LATER)
    loaded = loaded_make(assignment.base_model_path)
    async with open_engine_and_trainer(assignment, 0, lambda: None, loaded) as (engine, trainer, comparison):
        assert (engine, trainer) == (loaded.engine, loaded.trainer)
        assert comparison.is_over, "they were compared before there was a session"
        assert engine.configs == trainer.configs == [assignment.config]
        assert not engine.closed
    assert engine.closed and trainer.closed


async def test_several_engines_that_were_loaded_before_are_all_the_sessions(monkeypatch) -> None:
    """With three GPUs for a session the default is two engines."""
    engines = [Part(), Part()]
    named: list[object] = []

    @asynccontextmanager
    async def opened(name: str, *_: object) -> AsyncIterator[tuple[Replicas, Part, Comparison]]:
        named.append(name)
        yield Replicas(engines), Part(), Comparison()  # type: ignore[arg-type]

    monkeypatch.setattr(both, "_both_opened", opened)
    loaded = await load_before("m", 3, "warm-1")
    assert named == ["warm-1"] and not loaded.dead
    await loaded.take(SessionConfig(**LATER))
    assert [each.configs for each in engines] == [[SessionConfig(**LATER)]] * 2
    await loaded.close()


async def test_what_does_not_fit_is_ended_before_the_sessions_own_is_loaded(monkeypatch) -> None:
    assignment = assignment_of(seed=1)
    loaded = loaded_make(assignment.base_model_path)

    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[tuple[str, FakeTrainer, Comparison]]:
        assert loaded.engine.closed and loaded.trainer.closed
        yield "its own", FakeTrainer(), Comparison()

    monkeypatch.setattr(both, "_both_opened", opened)
    async with open_engine_and_trainer(assignment, 0, lambda: None, loaded) as (engine, *_):
        assert engine == "its own"


@pytest.mark.engine
@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_what_was_loaded_before_trains_a_session_to_the_bits_of_what_was_loaded_for_it(tmp_path: Path) -> None:
    model = tiny_model_make(tmp_path / "model")
    config = SessionConfig(**LATER)
    usual = TrainerRanks(str(model), config, "cpu")
    loaded = await load_before(str(model), 0, "warm-1")
    try:
        await loaded.take(config)
        engine = loaded.engine
        assert loaded.config.max_context_length == 1024, "its positions"
        assert engine.context_length == 128 and engine.version == 0
        drawn = [await sample(engine, [5, 7, 11, place], 24) for place in (1, 2)]
        samples = [each.__class__(each.token_ids_T, each.mask_T, each.logprobs_T, advantage=1.0) for each in drawn]
        digests = []
        for trainer in (usual, loaded.trainer):
            await trainer.forward_backward(samples, 0.01)
            digests.append((await trainer.optim_step(1), await trainer.weights_digest()))
        assert digests[0] == digests[1]
        await loaded.trainer.restart()
        await loaded.trainer.forward_backward(samples, 0.01)
        assert (await loaded.trainer.optim_step(1), await loaded.trainer.weights_digest()) == digests[0]
    finally:
        await asyncio.gather(usual.close(), loaded.close())


def test_an_engine_notes_times_where_its_session_will_be_traced_and_nowhere_else(monkeypatch):
    assert not keeps_times()
    monkeypatch.setenv(WILL_BE_TRACED, "1")
    assert keeps_times()
