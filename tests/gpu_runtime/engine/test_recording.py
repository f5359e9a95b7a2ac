"""What an engine of a mixture records reaches the trainer's samples, and what it is asked for."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpu_runtime.engine import arguments
from gpu_runtime.engine.experts.recorder import SCHEDULERS, experts_added, is_recording
from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.generation.sampling import plain_completion
from gpu_runtime.interfaces import Delta
from gpu_runtime.journal.timelines import agents_of
from gpu_runtime.journal.token_values import experts_pack, experts_unpack, set_pack
from gpu_runtime.loop.batching import batch_samples
from support.gateway_harness import running_gateway
from support.model_families import family_make
from support.trained_batches import batch, call, episode
from tinkerscript.wire.config import SessionConfig


def vllm_config(*, is_moe: bool, is_async: bool) -> Any:
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(async_scheduling=is_async, scheduler_cls=None),
        model_config=SimpleNamespace(is_moe=is_moe),
        parallel_config=SimpleNamespace(),
    )


def test_a_mixtures_engine_records_unless_the_session_turns_it_off() -> None:
    on, off = SessionConfig(), SessionConfig(routing_replay=False)
    assert on.routing_replay
    for is_async, name in ((False, "RecordingScheduler"), (True, "AsyncRecordingScheduler")):
        mixture = vllm_config(is_moe=True, is_async=is_async)
        arguments.record_where_asked(mixture, on, adapters=False)
        assert mixture.scheduler_config.scheduler_cls == f"{SCHEDULERS}.{name}"
        assert is_recording(mixture)
    for kind, config, adapters in ((True, off, False), (True, on, True), (False, on, False)):
        without = vllm_config(is_moe=kind, is_async=False)
        arguments.record_where_asked(without, config, adapters=adapters)
        assert not is_recording(without)


def test_rows_are_read_as_they_come_and_of_the_last_piece_from_the_whole() -> None:
    rows = np.arange(8, dtype=np.uint8).reshape(4, 2)
    state = SimpleNamespace(routed_experts_chunks=[rows[:1], rows[1:2], rows[2:3]])
    processor = SimpleNamespace(external_req_ids={"c": ["in"]}, request_states={"in": state})
    config = vllm_config(is_moe=True, is_async=False)
    llm: Any = SimpleNamespace(output_processor=processor, vllm_config=config)
    two, one = Delta("", (5, 6), (-1.0, -1.0), 0), Delta("", (7,), (-1.0,), 0, "stop")
    going_on: Any = SimpleNamespace(finish_reason=None, routed_experts=None)
    assert experts_added(llm, "c", going_on, two, 1) is two  # an engine that does not record
    arguments.record_where_asked(config, SessionConfig(), adapters=False)
    assert experts_added(llm, "c", going_on, two, 1).experts_T == (b"\2\3", b"\4\5")
    ended: Any = SimpleNamespace(finish_reason="stop", routed_experts=rows)
    assert experts_added(llm, "c", ended, one, 3).experts_T == (b"\6\7",)
    none: Any = SimpleNamespace(finish_reason="stop", routed_experts=None)
    assert experts_added(llm, "c", none, one, 3).experts_T == ()


def test_rows_are_packed_with_the_places_that_have_none() -> None:
    for rows in ((b"ab", None, b"cd"), (None, None), (), (b"abcd",) * 50):
        assert experts_unpack(experts_pack(rows), len(rows)) == rows
    assert len(experts_pack((b"abcd",) * 500)) < 100


def test_what_no_model_sampled_has_no_row_between_tokens_that_have_one() -> None:
    pieces = [
        Delta("a", (1,), (-1.0,), 0, experts_T=(b"xy",)), Delta("b", (2, 3), (0.0, 0.0), 0),
        Delta("c", (4,), (-1.0,), 0, "stop", experts_T=(b"zw",)),
    ]  # fmt: skip
    assert plain_completion(0, pieces).experts_T == (b"xy", None, None, b"zw")
    assert plain_completion(0, pieces[1:2]).experts_T == ()


async def test_rows_are_kept_with_a_trained_call_and_with_no_other(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        engine = gateway.engine
        engine.experts = lambda before: bytes([len(before) % 7, before[-1] % 7])
        begun, evaluated = await gateway.begin(), await gateway.begin(eval=True)
        for each in (begun, evaluated):
            await gateway.chat(each)
        (kept,) = agents_of(gateway.journal.calls.of_episode(begun["episode_id"]))[None]
        ids, first = [*kept.prompt_ids, *kept.token_ids], len(kept.prompt_ids)
        assert kept.experts == tuple(engine.experts(ids[:at]) for at in range(first, len(ids)))
        (shown,) = agents_of(gateway.journal.calls.of_episode(evaluated["episode_id"]))[None]
        assert shown.token_ids and shown.experts == ()


@pytest.mark.parametrize("grammar", [False, True])
def test_a_sample_has_the_rows_of_its_whole_timeline(grammar: bool) -> None:
    """A grammar that left one choice takes the token out of the loss, and not its row."""
    only = (set_pack(b"\x08"), None) if grammar else ()
    one, two = call("a", (1, 2), (3, 4), allowed=only), call("b", (1, 2, 3, 4, 5), (6,))
    rows = (b"ab", b"cd")
    one = replace(one, completions=(replace(one.completions[0], experts_T=rows),))
    members = (episode(1, 1.0, one, two), episode(2, 0.0, call("c", (1, 2), (9,))))
    (sample, other) = batch_samples(batch(members), SessionConfig(grpo_n=2, tasks_per_batch=1))
    assert sample.experts_T == (None, None, *rows, None, None)
    assert sample.mask_T == (0, 0, int(not grammar), 1, 0, 1)
    assert other.experts_T is None


def test_adapters_beside_experts_are_refused_on_a_cpu_alone(tmp_path: Path) -> None:
    mixture = str(family_make(tmp_path / "mixture", "Qwen3-MoE"))
    dense = str(family_make(tmp_path / "dense", "Qwen3"))
    config = SessionConfig(lora_rank=8)
    with pytest.raises(
        ModelUnsupported, match="mixture of experts, and with adapters vLLM.*on no CPU"
    ):
        arguments.engine_arguments(arguments.EngineSpec(mixture, config, "cpu", adapters=True))
    assert "enable_lora" not in arguments.engine_arguments(
        arguments.EngineSpec(mixture, config, "cpu")
    )
    for model, device in ((mixture, "cuda"), (dense, "cpu")):
        given = arguments.engine_arguments(
            arguments.EngineSpec(model, config, device, adapters=True)
        )
        assert given["enable_lora"] and given["enable_mixed_moe_lora_format"]
