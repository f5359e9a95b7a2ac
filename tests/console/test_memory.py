"""Predicted memory: the formula, by hand, of the whole session and of each machine and GPU."""

import pytest

from console.catalogue.memory_estimate import (
    ENGINE_CACHE_BYTES,
    PROCESS_BYTES,
    RAY_BYTES,
    ModelShape,
)
from console.catalogue.memory_places import PARTS, memory_predict, place_least_bytes, place_short
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import MemoryPlace
from tinkerscript.wire.training.device_memory import trainer_kept_bytes

P = 1_000_000
FIXED = ENGINE_CACHE_BYTES + PROCESS_BYTES
SHAPE = ModelShape(P, hidden=64, layers=3, vocabulary=500, token_values=96)


def without_kl(**options: object) -> SessionConfig:
    """Defaults but for the reference, of which tests of its own tell."""
    return SessionConfig(**{"kl_coef": 0.0} | options)


def total(shape: ModelShape = ModelShape(P), **options: object) -> int:
    return memory_predict(shape, without_kl(**options)).total_bytes - FIXED


def places(
    devices: int = 0, shape: ModelShape = SHAPE, device_bytes: int | None = None, **options
) -> list[MemoryPlace]:
    config = without_kl(**options)
    found = memory_predict(shape, config, devices=devices, device_bytes=device_bytes).places
    for place in found:
        assert sum(getattr(place, part) for part in PARTS) == place.total_bytes
    return found


def test_float32_takes_24_bytes_a_weight() -> None:
    # engine; weights, gradients; moments and DeepSpeed's own weights
    assert total() == P * (4 + 4 + 4 + 12)


def test_a_hand_over_that_copies_is_counted() -> None:
    assert total(zero_stage=3) - total() == (4 + 8) * P, (
        "beside what a step has more than under ZeRO 2"
    )


def test_bfloat16_keeps_a_float32_copy_beside_the_moments() -> None:
    # the sum of the gradients is in float32 too
    assert total(dtype="bfloat16") == P * (2 + 2 + 4 + 12)
    on_gpu = memory_predict(ModelShape(P), without_kl(), devices=2)
    assert on_gpu.total_bytes - PROCESS_BYTES == P * (2 + 2 + 4 + 12)


def test_a_reference_is_counted_only_with_kl() -> None:
    assert total(kl_coef=0.1) - total() == 4 * P
    moving = {"kl_coef": 0.1, "reference_decay": 0.9}
    assert total(**moving) == total(kl_coef=0.1), "in float32 the mean is the reference itself"
    assert total(dtype="bfloat16", **moving) - total(dtype="bfloat16", kl_coef=0.1) == 4 * P
    assert total(**moving, kl_base_coef=0.1) - total(**moving) == 4 * P


def test_every_rank_has_its_own_weights_and_reference_below_stage_3() -> None:
    assert total(trainer_ranks=4) - total() == 3 * 4 * P
    assert total(trainer_ranks=4, kl_coef=0.1) - total(trainer_ranks=4) == 4 * 4 * P
    sharded = {"trainer_ranks": 4, "zero_stage": 3}
    assert total(**sharded, kl_coef=0.1) - total(**sharded) == 4 * P
    assert total(**sharded) - total(zero_stage=3) == 4 * 4 * P, (
        "what is put together while a layer computes"
    )


def test_every_rank_has_its_own_gradients_below_stage_2() -> None:
    assert (
        total(trainer_ranks=4, zero_stage=1) - total(trainer_ranks=4, zero_stage=2)
        == 3 * 4 * P + 8 * P
    )


def test_each_engine_has_the_whole_model() -> None:
    one, three = (memory_predict(SHAPE, without_kl(), devices=count + 1) for count in (1, 3))
    assert (one.engines, three.engines) == (1, 3)
    assert three.engine_bytes == 3 * one.engine_bytes == 3 * (2 * P + 2048 * 96 * 2)
    assert memory_predict(SHAPE, without_kl(), devices=4, one_engine=True).engines == 1


def test_adapters_have_no_moments_of_the_whole_model() -> None:
    assert total(lora_rank=8) == P * (4 + 4 + 4)  # engine, trainer, hand-over


@pytest.mark.parametrize(("option", "kept"), [({}, 34), ({"gradient_checkpointing": True}, 2)])
def test_activations_and_head_grow_with_the_micro_batch(option: dict, kept: int) -> None:
    grown = total(SHAPE, micro_batch_tokens=128, **option) - total()
    assert grown == 128 * 64 * 3 * kept * 4 // 2 + 128 * 500 * 8
    most, more = (places(micro_batch_tokens=tokens)[0].head_bytes for tokens in (1024, 4096))
    assert most == more == 1024 * 500 * 8, "logits exist for so many positions at one time"


def test_the_parts_add_up() -> None:
    estimate = memory_predict(SHAPE, without_kl(kl_coef=0.1))
    parts = estimate.model_dump(exclude={"total_bytes", "engines", "places"})
    assert (
        sum(parts.values())
        == estimate.total_bytes
        == sum(place.total_bytes for place in estimate.places)
    )


def test_ranks_and_an_engine_are_on_every_machine_and_the_hand_over_on_a_disk() -> None:
    first, *others = places(nodes=4, trainer_ranks=8, kl_coef=0.1, zero_stage=3)
    assert [place.name for place in others] == [
        "machine 2 of 4",
        "machine 3 of 4",
        "machine 4 of 4",
    ]
    assert {(place.ranks, place.engines) for place in (first, *others)} == {(2, 1)}
    assert {place.total_bytes for place in others} == {first.total_bytes}
    assert first.engine_weights_bytes == 4 * P and first.handover_bytes == 0
    assert first.process_bytes == PROCESS_BYTES + RAY_BYTES
    assert first.optimizer_bytes == 2 * P * 20 // 8 and first.reference_bytes == 2 * P * 4 // 8


def test_an_engine_that_fits_no_machine_is_refused_with_both_numbers() -> None:
    """No part of it goes to another: Ray's executor of vLLM refuses CPUs."""
    config = without_kl(nodes=2, trainer_ranks=2)
    least = place_least_bytes(memory_predict(SHAPE, config).places[0])
    assert place_short(memory_predict(SHAPE, config, machine_bytes=least)) is None
    short = place_short(memory_predict(SHAPE, config, machine_bytes=least - 1))
    assert short is not None and short.name == "machine 1 of 2"
    assert (place_least_bytes(short), short.available_bytes) == (least, least - 1)


def test_engines_and_ranks_have_gpus_of_their_own_where_there_are_enough() -> None:
    *gpus, host = places(devices=4, trainer_ranks=2, zero_stage=1)
    assert [(gpu.engines, gpu.ranks) for gpu in gpus] == [(1, 0), (1, 0), (0, 1), (0, 1)]
    assert gpus[0].total_bytes == 2 * P + 2048 * 96 * 2
    assert place_least_bytes(gpus[3]) == P * (2 + 4) + P * 20 // 2
    assert (host.name, host.total_bytes) == ("host", PROCESS_BYTES)


def test_engine_and_rank_share_a_gpu_and_moments_may_go_to_the_host() -> None:
    engine, step, host = places(devices=1)
    assert [(gpu.engines, gpu.ranks) for gpu in (engine, step)] == [(1, 0), (0, 1)]
    assert engine.total_bytes == P * 2 + 2048 * 96 * 2, "the two take turns"
    assert place_least_bytes(step) == P * (2 + 4 + 12)
    engine, step, host = places(devices=1, offload_optimizer=True)
    assert step.optimizer_bytes == 0 and host.optimizer_bytes == 12 * P


# Weights of Qwen's models, and the GPUs on which engine and trainer share one: of 80 GB, and an
# H200.
B80, H200 = 85_500_000_000, 150_700_000_000
FITS = {
    (494_000_000, B80): 0.5, (494_000_000, H200): 0.5,
    (1_544_000_000, B80): 0.5, (1_544_000_000, H200): 0.5,
    (3_085_000_000, B80): 0.44, (3_085_000_000, H200): 0.5,
    (4_020_000_000, B80): 0.29, (4_020_000_000, H200): 0.5,
    (7_616_000_000, B80): 0.0, (7_616_000_000, H200): 0.26,
}  # fmt: skip


@pytest.mark.parametrize(("weights", "memory"), FITS)
def test_a_shared_gpu_leaves_the_engine_what_the_trainer_does_not_keep(
    weights: int, memory: int
) -> None:
    """Between two steps: weights, their float32 copy and AdamW's moments, 14 bytes a weight, and 4
    GiB.
    """
    shape = ModelShape(weights, hidden=2048, layers=28, vocabulary=151_936, token_values=28_672)
    estimate = memory_predict(shape, without_kl(), devices=1, device_bytes=memory)
    engine, step, _ = estimate.places
    assert engine.available_bytes == min(memory // 2, max(0, memory - 14 * weights - 4 * 2**30))
    assert engine.available_bytes / memory == pytest.approx(FITS[weights, memory], abs=0.01)
    assert step.available_bytes == memory - 4 * 2**30 and place_least_bytes(step) == 18 * weights
    assert (place_short(estimate) is None) == (FITS[weights, memory] > 0)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, 2 + 12), ({"offload_optimizer": True}, 2), ({"lora_rank": 8}, 2), ({"dtype": "float32"}, 4 + 12),
        ({"kl_coef": 0.1}, 2 + 12 + 2), ({"kl_coef": 0.1, "kl_base_coef": 0.1, "reference_decay": 0.9}, 2 + 12 + 8),
        ({"trainer_ranks": 4}, 2 + 3), ({"trainer_ranks": 4, "zero_stage": 3, "kl_coef": 0.1}, (2 + 12 + 2) / 4),
    ],
)  # fmt: skip
def test_what_a_rank_keeps_between_two_steps_follows_from_the_options(
    options: dict, kept: float
) -> None:
    config = without_kl(**options)
    assert trainer_kept_bytes(config, P, 4 if config.dtype == "float32" else 2) == kept * P
    (engine, *_) = places(
        devices=config.trainer_ranks, device_bytes=16 << 30, placement="shared", **options
    )
    assert engine.available_bytes == 8 << 30, "no more than a half"


def test_an_engine_is_spread_over_as_many_gpus_as_its_weights_and_one_context_need() -> None:
    whole = 2 * P + 2048 * 96 * 2
    *gpus, _ = places(devices=5, device_bytes=int(whole / 0.92 / 2) + 10)
    assert [gpu.engines for gpu in gpus] == [1, 0, 1, 0, 0]
    assert [gpu.engine_weights_bytes for gpu in gpus] == [P] * 4 + [0]
    assert (
        gpus[0].available_bytes == int((int(whole / 0.92 / 2) + 10) * 0.92)
        and gpus[4].engine_weights_bytes == 0
    )


def test_the_first_place_that_is_too_small_is_found_without_its_upper_bounds() -> None:
    config = without_kl(trainer_ranks=2, nodes=2)
    least = max(place_least_bytes(place) for place in memory_predict(SHAPE, config).places)
    assert place_short(memory_predict(SHAPE, config, machine_bytes=least)) is None
    short = place_short(memory_predict(SHAPE, config, machine_bytes=least - 1))
    assert short is not None and short.name == "machine 1 of 2"
    rank = P * (2 + 4 + 12)
    assert place_short(memory_predict(SHAPE, without_kl(), devices=2, device_bytes=rank)) is None
    short = place_short(memory_predict(SHAPE, without_kl(), devices=2, device_bytes=rank - 1))
    assert short is not None and (short.name, short.ranks) == ("GPU 2 of 2", 1)
    assert place_short(memory_predict(SHAPE, without_kl(), devices=2)) is None, "not known"
