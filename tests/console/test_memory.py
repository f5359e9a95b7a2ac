"""Predicted memory: the formula, by hand."""

import pytest

from console.catalogue.memory_estimate import (
    ENGINE_CACHE_BYTES,
    PROCESS_BYTES,
    ModelShape,
    machine_least_bytes,
    memory_predict,
)
from tinkerscript.wire.config import SessionConfig

P = 1_000_000
FIXED = ENGINE_CACHE_BYTES + PROCESS_BYTES


def total(shape: ModelShape = ModelShape(P), *, on_gpu: bool = False, **options: object) -> int:
    return memory_predict(shape, SessionConfig(**options), on_gpu=on_gpu).total_bytes - FIXED


def test_float32_takes_twenty_bytes_a_weight() -> None:
    assert total() == P * (4 + 4 + 4 + 8)  # engine; weights, gradients, moments


def test_a_hand_over_that_copies_is_counted() -> None:
    assert total(zero_stage=3) - total() == 4 * P


def test_bfloat16_keeps_a_float32_copy_beside_the_moments() -> None:
    assert total(on_gpu=True) == total(dtype="bfloat16") == P * (2 + 2 + 2 + 12)


def test_a_reference_is_counted_only_with_kl() -> None:
    assert total(kl_coef=0.1) - total() == 4 * P
    moving = {"kl_coef": 0.1, "reference_decay": 0.9}
    assert total(**moving) == total(kl_coef=0.1), "in float32 the mean is the reference itself"
    assert total(dtype="bfloat16", **moving) - total(dtype="bfloat16", kl_coef=0.1) == 4 * P
    assert total(**moving, kl_base_coef=0.1) - total(**moving) == 4 * P


def test_every_rank_has_its_own_weights_below_stage_3() -> None:
    assert total(trainer_ranks=3) - total() == 2 * 4 * P
    assert total(trainer_ranks=3, zero_stage=3) == total(zero_stage=3)


def test_each_engine_has_the_whole_model() -> None:
    one, three = (memory_predict(ModelShape(P), SessionConfig(), on_gpu=True, engines=count) for count in (1, 3))
    assert (one.engines, three.engines) == (1, 3)
    assert three.engine_bytes == 3 * one.engine_bytes == 3 * (2 * P + ENGINE_CACHE_BYTES)


def test_adapters_have_no_moments_of_the_whole_model() -> None:
    assert total(lora_rank=8) == P * (4 + 4 + 4)  # engine, trainer, hand-over


@pytest.mark.parametrize(("option", "kept"), [({}, 34), ({"gradient_checkpointing": True}, 2)])
def test_activations_grow_with_the_micro_batch(option: dict, kept: int) -> None:
    shape = ModelShape(P, hidden=64, layers=3)
    assert total(shape, micro_batch_tokens=128, **option) - total() == 128 * 64 * 3 * kept * 4 // 2


def test_the_parts_add_up() -> None:
    estimate = memory_predict(ModelShape(P, 64, 3), SessionConfig(kl_coef=0.1), on_gpu=False)
    parts = estimate.model_dump(exclude={"total_bytes", "engines"})
    assert sum(parts.values()) == estimate.total_bytes


def test_the_first_of_several_machines_holds_all_but_the_ranks_of_the_others() -> None:
    options = {"trainer_ranks": 4, "kl_coef": 0.1, "zero_stage": 3}
    estimate = memory_predict(ModelShape(P, 64, 3), SessionConfig(**options), on_gpu=False)
    alone = machine_least_bytes(estimate, nodes=1)
    assert alone == estimate.total_bytes - estimate.activation_bytes
    assert alone - machine_least_bytes(estimate, nodes=4) == 3 * P * (4 + 4 + 8 + 4) // 4
