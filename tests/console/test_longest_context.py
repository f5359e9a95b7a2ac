"""A context that the engine's keys and values cannot hold is refused when a session is made, with
the longest, on CPUs and on GPUs.
"""

from types import SimpleNamespace

import pytest

from console.catalogue.memory_estimate import ModelShape, SessionMemory
from console.catalogue.memory_places import context_longest
from console.errors import DoesNotFit, InvalidRequest
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.sessions import dry_run
from console.sessions.dry_run import context_check
from console.sessions.limits import devices as device_limits
from console.sessions.limits.devices import devices_sync
from console.sessions.services import session_create
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import SessionCreate
from tinkerscript.wire.training.device_memory import TokenValues, longest_context, token_values

GIB = 1 << 30
SMOLLM2 = ModelShape(134_515_008, hidden=576, layers=30, token_values=2 * 30 * 3 * 64)
# Qwen2.5-3B, in bfloat16 36,864 bytes a token
THREE = ModelShape(
    3_085_938_688, hidden=2048, layers=36, vocabulary=151_936, token_values=18_432,
    heads=16, key_heads=2, intermediate=11_008,
)  # fmt: skip


def memory(
    length: int, shape: ModelShape = SMOLLM2, *, on_gpu: bool = False, dtype: str = "auto"
) -> SessionMemory:
    return SessionMemory(
        shape, SessionConfig(max_context_length=length, dtype=dtype), on_gpu=on_gpu
    )


def test_the_longest_that_fits_is_taken_and_one_more_is_refused_with_it() -> None:
    longest = memory(1024).longest_on_cpu()
    context_check(SessionConfig(max_context_length=23_168), longest, "a CPU")
    with pytest.raises(
        InvalidRequest, match="max_context_length is 23169, .* hold 23168 tokens on a CPU"
    ) as refused:
        context_check(SessionConfig(max_context_length=23_169), longest, "a CPU")
    assert "to 23168 at most" in refused.value.hint
    assert refused.value.details["fields"][0]["field"] == "config.max_context_length"


def test_halved_numbers_hold_twice_as_much_and_further_machines_no_more() -> None:
    assert memory(1024, dtype="bfloat16").longest_on_cpu() == 46_464
    two = SessionConfig(nodes=2, trainer_ranks=2)
    assert context_longest(SMOLLM2, two) == context_longest(SMOLLM2, SessionConfig()) == 23_168


def test_what_is_not_known_is_not_refused() -> None:
    for unknown in (ModelShape(7), ModelShape(7, token_values=1 << 20, keeps_else=True)):
        assert memory(1024, unknown).longest_on_cpu() is None
        assert context_longest(unknown, SessionConfig(), devices=2, device_bytes=GIB) is None
    assert context_longest(THREE, SessionConfig(), devices=2) is None, "nor a GPU of unknown size"
    context_check(SessionConfig(max_context_length=1 << 20), None, "a GPU")


@pytest.mark.parametrize(
    ("room_gib", "weights_gib", "token_kib", "spread", "key_heads", "longest"),
    [
        (22, 14, 56, 1, 4, 112_336),  # 6 GiB of 56 KiB a token
        (22, 14, 112, 1, 4, 56_160),  # in float32 half as many
        (22, 14, 56, 2, 4, 486_832),  # 13 GiB of 28 KiB
        (22, 14, 56, 8, 4, 1_366_880),  # four heads are copied on eight GPUs: 18.25 GiB of 14 KiB
        (16, 14, 56, 1, 4, 0),  # the weights and what is at work fill it
        (8, 14, 56, 1, 4, 0),
        (8, 14, 56, 4, 1, 46_800),  # one head on four: 2.5 GiB of 56 KiB
    ],
)
def test_the_longest_context_of_gpus_by_hand(
    room_gib: int, weights_gib: int, token_kib: int, spread: int, key_heads: int, longest: int
) -> None:
    room, weights = room_gib * GIB, weights_gib * GIB
    found = longest_context(room, weights, token_kib << 10, spread=spread, key_heads=key_heads)
    assert found == longest
    held = room - (2 * GIB) - weights // spread
    assert (longest + 16) * (token_kib << 10) // min(spread, key_heads) > held, "one block more"


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({}, TokenValues(2 * 24 * 2 * 64)),
        ({"head_dim": 128}, TokenValues(2 * 24 * 2 * 128)),
        ({"num_key_value_heads": None}, TokenValues(2 * 24 * 14 * 64)),
        ({"layer_types": ["full_attention"] * 24}, TokenValues(2 * 24 * 2 * 64)),
        # Qwen3.6: three of four layers keep a state of a fixed size
        (
            {"layer_types": [*["linear_attention"] * 3, "full_attention"] * 6},
            TokenValues(2 * 6 * 2 * 64, is_whole=False),
        ),
        # Gemma 3, in today's form and in that which was published
        (
            {"sliding_window": 512, "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 4},
            TokenValues(2 * 4 * 2 * 64, is_whole=False),
        ),
        ({"sliding_window": 512, "sliding_window_pattern": 6}, TokenValues(2 * 4 * 2 * 64, is_whole=False)),
        ({"sliding_window": 4096}, TokenValues(2 * 24 * 2 * 64, is_whole=False)),
        # DeepSeek-V2: compressed keys, which no GPU has a part of
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, TokenValues(24 * 576, is_whole=False)),
        ({"num_hidden_layers": None}, TokenValues()),
    ],
)  # fmt: skip
def test_what_is_kept_of_a_token_by_the_models_file(told: dict, kept: TokenValues) -> None:
    fields = {
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896,
    } | told  # fmt: skip
    assert token_values(fields, has_windows="sliding_window" in told) == kept


def body(length: int, **config: object) -> SessionCreate:
    given = SessionConfig(max_context_length=length, **config)
    return SessionCreate(base_model="SmolLM2-135M-Instruct", config=given)


@pytest.mark.parametrize(
    ("gib", "options", "longest"),
    [
        (24, {"devices": 2, "lora_rank": 8}, 417440),  # 22.1 - 2 - 5.7 GiB of 36 KiB a token
        (16, {"devices": 3, "lora_rank": 8}, 573568),  # over two: 14.7 - 2 - 2.9 GiB of 18 KiB
        (80, {"devices": 1, "kl_coef": 0.0}, 816016),  # beside the trainer: 80 - 40.2 - 4 - 2 - 5.7 GiB
    ],
)  # fmt: skip
def test_a_context_too_long_for_the_gpus_of_the_driver_is_refused_with_the_longest(
    db, project, settings, monkeypatch, gib: int, options: dict, longest: int
) -> None:
    settings.MAX_RUNTIMES = 1
    settings.LAUNCHER = LauncherOptions(
        name="process", resources=Resources(gpus=options["devices"])
    )
    devices_sync(ids=[str(number) for number in range(options["devices"])])
    device_limits.gpus_least_bytes.cache_clear()
    driver = SimpleNamespace(least_memory_bytes=lambda: gib * GIB)
    monkeypatch.setattr(device_limits, "nvml_open", lambda visible: driver)
    monkeypatch.setattr(dry_run, "base_model_shape", lambda model: THREE)
    monkeypatch.setattr(dry_run, "lengths_check", lambda model, config: None)
    with pytest.raises(InvalidRequest, match=f"hold {longest} tokens on a GPU") as refused:
        session_create(project=project, body=body(longest + 1, **options))
    assert f"to {longest} at most" in refused.value.hint
    assert dry_run.dry_run(project=project, body=body(longest, **options)).memory is not None
    driver.least_memory_bytes = lambda: 4 * GIB  # not even the weights
    device_limits.gpus_least_bytes.cache_clear()
    with pytest.raises(DoesNotFit, match=r"on GPU \d"):
        session_create(project=project, body=body(2048, **options))
    device_limits.gpus_least_bytes.cache_clear()
