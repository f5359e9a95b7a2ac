"""Several devices of one machine: what ranks and engines compute together is what one alone
computes.

Each test has two cases: on two CUDA devices, with NCCL and FlexAttention, and on a CPU, with gloo.
Below what users are refused on GPUs (console/sessions/limits/places.py, gpu_runtime/placement.py),
until these have passed there: rows that ranks share, and several nodes, which are processes of this
machine here, each with a device of its own.
"""

from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.loop.sample import Sample
from gpu_runtime.placement import gpus_visible
from gpu_runtime.training.ranks import TrainerRanks
from support.rank_batches import batch
from support.rank_steps import gradient, logprobs, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

# vLLM is imported into this process, and its imports warn.
pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("default")]
ODD = Sample(
    (5, 9, 30, 41, 7, 8),
    (0, 0, 1, 1, 1, 1),
    (0.0, 0.0, -4.5, -4.5, -4.5, -4.5),
    advantage=0.5,
    group=9,
)
# Of a gradient, the distance by its norm; of a weight after two steps of 1e-3. Sums over ranks have
# another order, and a GPU's kernels other blocks for other lengths. bfloat16: each rank rounds its
# gradient to 8 bits before the sum.
BOUNDS = {("cpu", "float32"): (1e-5, 2e-5), ("cuda", "float32"): (1e-3, 1e-4)}
BOUNDS |= {(where, "bfloat16"): (3e-2, 4e-3) for where in ("cpu", "cuda")}
PROMPT = (0, 40, 41, 42, 2)


@pytest.fixture(
    params=[
        pytest.param("cuda", marks=pytest.mark.gpu),
        pytest.param("cpu", marks=[pytest.mark.engine, pytest.mark.nightly]),
    ]
)
def where(request: pytest.FixtureRequest) -> str:
    """The kind of device."""
    if request.param == "cuda" and (found := torch.cuda.device_count()) < 2:
        pytest.skip(f"needs two CUDA devices; torch sees {found}")
    return request.param


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model_make(tmp_path_factory.mktemp("tiny"), heads=(4, 2)))


@asynccontextmanager
async def trainer_of(
    model: str, where: str, ranks: int, state: Path | None = None, shares: bool = False, **options
):
    options = {"learning_rate": 1e-3, "micro_batch_tokens": 64, "dtype": "float32"} | options
    if ranks == 1:
        options |= {"sequence_parallel": False, "nodes": 1}
    trainer = TrainerRanks(
        model,
        SessionConfig(trainer_ranks=ranks, **options),
        where,
        shares_device=shares and where == "cuda",
    )
    try:
        if state is not None:
            await trainer.load_state(state)
        yield trainer
    finally:
        await trainer.close()


async def step(trainer: TrainerRanks, number: int) -> dict[str, float]:
    metrics = await gradient(trainer, [*batch(number), ODD], entropy_coef=0.01)
    return metrics | await optim_step(trainer, number)


async def weights(trainer: TrainerRanks, folder: Path) -> dict[str, torch.Tensor]:
    await trainer.export_model(folder)
    return load_file(folder / "model.safetensors")


def gradient_of(state: Path) -> torch.Tensor:
    """Of the one step before ``state``, of one rank: AdamW's first moment is a part of it."""
    moments = load_file(state / "optimizer-00000.safetensors")
    return torch.cat([moments[name] for name in sorted(moments) if name.startswith("exp_avg.")])


def largest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name].float() - other[name].float()).abs().max()) for name in one)


CASES: Sequence[dict[str, object]] = (
    {"zero_stage": 2},
    {"zero_stage": 3, "kl_coef": 0.1},
    {"zero_stage": 2, "sequence_parallel": True},
    {"zero_stage": 3, "sequence_parallel": True, "gradient_checkpointing": True},
    {"zero_stage": 2, "sequence_parallel": True, "dtype": "bfloat16"},
    {"zero_stage": 2, "kl_coef": 0.1, "reference_decay": 0.9},
)


@pytest.mark.parametrize("options", CASES, ids=str)
async def test_two_ranks_have_loss_gradient_and_step_of_one(
    where, model, tmp_path, options
) -> None:
    """And one rank goes on from the state that two have saved."""
    most_gradient, most_weight = BOUNDS[where, str(options.get("dtype", "float32"))]
    async with trainer_of(model, where, 1, **options) as one:
        expected = await step(one, 1)
        await one.save_state(tmp_path / "one")
        await step(one, 2)
        after_one = await weights(one, tmp_path / "after-one")
    async with trainer_of(model, where, 2, **options) as two:
        metrics = await step(two, 1)
        await two.save_state(tmp_path / "two")
        await step(two, 2)
        after_two = await weights(two, tmp_path / "after-two")
    async with trainer_of(model, where, 1, tmp_path / "two", **options) as back:
        await back.save_state(tmp_path / "back")
        await step(back, 2)
        after_back = await weights(back, tmp_path / "after-back")
    for name in ("loss", "grad_norm", "entropy", "tokens_trained", "tokens_computed", "kl_engine"):
        assert metrics[name] == pytest.approx(
            expected[name], rel=max(1e-4, most_gradient), abs=1e-5
        ), name
    of_one, of_two = gradient_of(tmp_path / "one"), gradient_of(tmp_path / "back")
    size = min(len(of_one), len(of_two))  # of ZeRO 2 with what fills it up, a multiple of the ranks
    assert (of_one[:size] - of_two[:size]).norm() / of_one.norm() < most_gradient
    assert largest(after_two, after_one) <= most_weight
    assert largest(after_back, after_one) <= most_weight


@pytest.mark.parametrize("stage", [2, 3])
async def test_a_run_goes_on_over_one_two_and_one_devices(where, model, tmp_path, stage) -> None:
    state: Path | None = None
    for number, count in enumerate((1, 2, 1), start=1):
        async with trainer_of(model, where, count, state, zero_stage=stage) as trainer:
            await step(trainer, number)
            state = tmp_path / f"after-{number}"
            await trainer.save_state(state)
            changed = await weights(trainer, tmp_path / f"weights-{number}")
    async with trainer_of(model, where, 1, zero_stage=stage) as one:
        for number in (1, 2, 3):
            await step(one, number)
        unbroken = await weights(one, tmp_path / "unbroken")
    assert largest(changed, unbroken) <= BOUNDS[where, "float32"][1]


async def greedy(engine: VllmEngine, name: str) -> tuple[list[int], list[float]]:
    options = SamplingOptions(max_tokens=8, temperature=0.0, ignore_eos=True)
    found = [delta async for delta in engine.generate(name, PROMPT, options)]
    return [t for delta in found for t in delta.token_ids_T], [
        p for delta in found for p in delta.logprobs_T
    ]


@pytest.mark.parametrize("stage", [2, 3])
async def test_an_engine_over_two_devices_serves_what_two_ranks_hand_over(
    where, model, tmp_path, stage
) -> None:
    """The tokens and log-probabilities of an engine on one device, before and after; and those are
    the trainer's.
    """
    pytest.importorskip("vllm", reason="vLLM is not installed: there is no engine to test")
    config = SessionConfig(max_context_length=256, max_tokens=16, dtype="float32")
    found = []
    async with trainer_of(
        model, where, 2, shares=True, zero_stage=stage, learning_rate=1e-2
    ) as trainer:
        await trainer.publish(tmp_path / "handover")
        for count in (1, 2):
            gpus = tuple(gpus_visible()) if where == "cuda" else ()
            engine = await VllmEngine.start(
                EngineSpec(
                    model,
                    config,
                    where,
                    shares_device=where == "cuda",
                    tensor_parallel=count,
                    gpus=gpus,
                )
            )
            try:
                before = await greedy(engine, "before")
                if count == 1:
                    await step(trainer, 1)
                    await trainer.publish(tmp_path / "handover")
                await engine.load_weights(tmp_path / "handover", 1)
                found.append((before, await greedy(engine, "after")))
            finally:
                await engine.close()
        ids, sampled = found[1][1]
        sample = Sample(
            (*PROMPT, *ids), (0,) * 5 + (1,) * 8, (0.0,) * 5 + tuple(sampled), advantage=1.0
        )
        (trained_T,) = await logprobs(trainer, [sample])
    close = 1e-4 if where == "cpu" else 1e-3
    for one, two in zip(*found, strict=True):
        assert two[0] == one[0] and two[1] == pytest.approx(one[1], abs=close)
    assert found[0][0][1] != pytest.approx(found[0][1][1], abs=1e-2), (
        "the weights after the step are others"
    )
    assert trained_T[-8:] == pytest.approx(sampled, abs=close)
