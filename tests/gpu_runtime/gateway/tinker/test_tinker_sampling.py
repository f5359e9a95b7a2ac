"""Samples: what the engine is asked for, what comes back, and what a mistake gets."""

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_runtime.gateway.tinker.samples.orders import seed_mix
from support.tinker_harness import MODEL, Open, Wire, step, training

BASE = "tnk_ab:sample:7:ses_0123"


def sample(seq_id: int, prompt: tuple[int, ...] = (1, 2, 3), **changes: Any) -> dict[str, Any]:
    return {
        "sampling_session_id": BASE,
        "seq_id": seq_id,
        "num_samples": 1,
        "prompt": {"chunks": [{"tokens": list(prompt), "type": "encoded_text"}]},
        "sampling_params": {"max_tokens": 5},
        "type": "sample",
    } | changes


async def base_sampler(wire: Wire) -> None:
    answer = await wire.post(
        "/tinker/samplers", {"sampling_session_id": BASE, "base_model": "tiny"}
    )
    assert answer.status_code == 200, answer.text


def tokens(response: Any) -> list[list[int]]:
    return [np.frombuffer(sequence.tokens, "<i4").tolist() for sequence in response.sequences]


async def test_samples_come_with_log_probabilities_and_names(wire_open: Open) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        body = sample(0, num_samples=3, topk_sample_logprobs=2)
        promise = (await wire.post("/api/v1/asample", body)).json()
        assert promise["sample_sequence_ids"] == [
            f"{promise['request_id']}#{index}" for index in range(3)
        ]
        response = await wire.do("asample", body)
        assert [len(ids) for ids in tokens(response)] == [5, 5, 5]
        first = response.sequences[0]
        assert len(np.frombuffer(first.logprobs, "<f4")) == 5
        top = first.topk_sampled_logprobs
        assert (top.length, top.k) == (5, 2) and np.frombuffer(top.token_ids, "<i4")[0] == tokens(
            response
        )[0][0]


async def test_one_seed_for_every_request_gives_each_its_own_answer_and_a_retry_the_same(
    wire_open: Open,
) -> None:
    """A known client sends seed 42 with every request: equal answers would teach a group
    nothing.
    """
    async with wire_open() as wire:
        await base_sampler(wire)
        seeded = {"max_tokens": 5, "seed": 42}
        answers = [
            tokens(await wire.do("asample", sample(number, sampling_params=seeded)))
            for number in range(4)
        ]
        assert len({str(answer) for answer in answers}) == 4
        both = tokens(await wire.do("asample", sample(9, num_samples=2, sampling_params=seeded)))
        assert both[0] != both[1]
        assert tokens(await wire.do("asample", sample(0, sampling_params=seeded))) == answers[0]
    async with wire_open() as wire:
        assert tokens(await wire.do("asample", sample(0, sampling_params=seeded))) == answers[0]


async def test_a_client_that_asks_for_seeds_as_they_are_gets_equal_answers(wire_open: Open) -> None:
    """In every one of its samplers, and in another session: of the base, and of its models."""
    answers = []
    for client in ("tnk_ab", "tnk_cd"):
        async with wire_open() as wire:
            base = {"sampling_session_id": f"{client}:sample:8:ses_0123", "base_model": "tiny"}
            await wire.post("/tinker/samplers", base | {"exact_seeds": True})
            body = {"model_id": f"{client}:train:0", "base_model": "tiny", "lora": {"rank": 8}}
            await wire.post("/tinker/models", body | {"exact_seeds": True})
            save = {"model_id": body["model_id"], "seq_id": 1, "sampling_session_seq_id": 0}
            own = (await wire.do("save_weights_for_sampler", save))["sampling_session_id"]
            for sampler, number in ((base["sampling_session_id"], 0), (own, 5), (own, 6)):
                asked = {
                    "sampling_session_id": sampler,
                    "sampling_params": {"max_tokens": 5, "seed": 42},
                }
                answers.append(tokens(await wire.do("asample", sample(number, **asked))))
                assert wire.engine.orders[-1].options.seed == 42
            wrong = asked | {"sampling_params": {"seed": -1}}
            assert "seed is -1" in (await wire.do("asample", sample(9, **wrong)))["error"]
    assert answers[0] == answers[3] and answers[1] == answers[2] == answers[4]


def test_a_seed_is_mixed_with_its_sampling_session_and_its_number() -> None:
    mixed = [seed_mix(*each) for each in (("a", 0, 42), ("b", 0, 42), ("a", 1, 42), ("a", 0, 43))]
    assert len(set(mixed)) == 4 and seed_mix("a", 0, 42) == mixed[0]
    assert all(0 <= seed < 2**62 for seed in mixed)


async def test_a_sample_for_stable_reinforce_is_one_as_every_other(wire_open: Open) -> None:
    """What the loss needs of a sample comes with each: its log-probabilities, and an id that
    provenance can name.
    """
    async with wire_open() as wire:
        await base_sampler(wire)
        body = sample(0, record_stability_info=True, sampling_params={"max_tokens": 5, "seed": 1})
        assert len((await wire.post("/api/v1/asample", body)).json()["sample_sequence_ids"]) == 1
        (sequence,) = (await wire.do("asample", body)).sequences
        assert len(np.frombuffer(sequence.logprobs, "<f4")) == 5


async def test_scores_of_the_prompt_have_no_first_and_can_be_the_last_few(wire_open: Open) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        response = await wire.do("asample", sample(0, prompt_logprobs=True, topk_prompt_logprobs=1))
        scores = np.frombuffer(response.prompt_logprobs, "<f4").tolist()
        assert math.isnan(scores[0]) and scores[1:] == [-2 / 64, -3 / 64]
        assert response.topk_prompt_logprobs.length == 3
        response = await wire.do(
            "asample", sample(1, prompt_logprobs=True, prompt_logprobs_last_n=1)
        )
        assert [math.isnan(score) for score in np.frombuffer(response.prompt_logprobs, "<f4")] == [
            True,
            True,
            False,
        ]


@pytest.mark.parametrize("bound", ["SNAPSHOTS_PART", "MOST_KEPT"])
async def test_adapters_snapshots_are_kept_up_to_a_bound_those_that_are_sampled_the_longest(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    async with wire_open() as wire:
        await wire.model()
        names: list[str] = []
        for number in range(3):
            save = {"model_id": MODEL, "seq_id": number + 1, "sampling_session_seq_id": number}
            names.append((await wire.do("save_weights_for_sampler", save))["sampling_session_id"])
            used = await wire.do("asample", sample(number, sampling_session_id=names[0]))
            assert len(tokens(used)) == 1
        # two are kept whatever their size
        monkeypatch.setattr(f"gpu_runtime.gateway.tinker.checkpoints.snapshots.{bound}", 0)
        save = {"model_id": MODEL, "seq_id": 4, "sampling_session_seq_id": 3}
        await wire.do("save_weights_for_sampler", save)
        gone = await wire.do("asample", sample(9, sampling_session_id=names[1]))
        assert gone["category"] == "user" and "no longer kept" in gone["error"]
        assert len(tokens(await wire.do("asample", sample(9, sampling_session_id=names[0])))) == 1


async def test_no_token_is_made_where_none_is_asked_for(wire_open: Open) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        asked = {"sampling_params": {"max_tokens": 0}, "prompt_logprobs": True, "num_samples": 2}
        response = await wire.do("asample", sample(0, topk_sample_logprobs=1, **asked))
        assert tokens(response) == [[], []] and len(response.prompt_logprobs) == 12
        assert response.prompt_cache_hit_tokens == 2
        refused = await wire.do("asample", sample(1, base_model="another"))
        assert refused["category"] == "user" and "base_model" in refused["error"]


async def test_a_large_result_tells_its_size_before_it_comes(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        promise = await wire.promise("asample", sample(0))
        whole = await wire.result(promise)
        assert "protobuf" in whole.headers["content-type"]
        monkeypatch.setattr(
            "gpu_runtime.gateway.tinker.routes.METADATA_BYTES", len(whole.content) - 1
        )
        told = await wire.result(promise)
        assert told.json() == {
            "status": "complete_metadata",
            "response_payload_size": len(whole.content),
        }
        again = await wire.post(
            "/api/v1/retrieve_future", {"request_id": promise, "allow_metadata_only": False}
        )
        assert again.content == whole.content


async def test_an_adapters_snapshot_stays_as_it_was_and_the_base_is_beside_it(
    wire_open: Open, tmp_path: Path
) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        await wire.model()
        save = {"model_id": MODEL, "kind": "snapshot"}
        first = await wire.do(
            "save_weights_for_sampler", save | {"seq_id": 1, "sampling_session_seq_id": 0}
        )
        assert first == {
            "path": None,
            "sampling_session_id": "tnk_ab:sample:0:ses_0123",
            "type": "save_weights_for_sampler",
        }
        fixed = {"sampling_params": {"max_tokens": 5, "seed": 1}}
        snapshot = fixed | {"sampling_session_id": first["sampling_session_id"]}
        before = tokens(await wire.do("asample", sample(0, **snapshot)))
        await wire.do("forward_backward", training(2))
        await wire.do("optim_step", step(3))
        second = await wire.do(
            "save_weights_for_sampler", save | {"seq_id": 4, "sampling_session_seq_id": 1}
        )
        assert wire.engine.orders[-1].folder is not None
        await wire.do("asample", sample(1, **snapshot))
        assert wire.engine.orders[-1].folder == wire.engine.orders[-2].folder
        await wire.do(
            "asample", sample(0, **(fixed | {"sampling_session_id": second["sampling_session_id"]}))
        )
        assert wire.engine.orders[-1].folder != wire.engine.orders[-2].folder
        await wire.do("asample", sample(0))
        assert wire.engine.orders[-1].folder is None
    async with wire_open() as wire:  # a runtime after a kill has the snapshots still
        assert tokens(await wire.do("asample", sample(0, **snapshot))) == before


@pytest.mark.parametrize("rank", [8, 0])
async def test_every_in_flight_sampler_of_a_model_follows_its_last_save(
    wire_open: Open, rank: int
) -> None:
    """A client gives each save a number of its own; what was saved last is what all of them
    sample.
    """
    names: list[str] = []

    async def sampled(wire: Wire) -> Path:
        fixed = {"sampling_params": {"max_tokens": 5}, "sampling_session_id": names[0]}
        await wire.do("asample", sample(len(wire.engine.orders), **fixed))
        folder = wire.engine.orders[-1].folder
        assert folder is not None
        return folder

    async with wire_open() as wire:
        await wire.model(rank=rank)
        folders: list[Path] = []
        for number in range(4):
            save = {
                "model_id": MODEL,
                "seq_id": 2 * number + 1,
                "sampling_session_seq_id": number,
                "kind": "inflight",
            }
            names.append((await wire.do("save_weights_for_sampler", save))["sampling_session_id"])
            folders.append(await sampled(wire))
            await wire.do("optim_step", step(2 * number + 2))
        assert len(set(names)) == len(set(folders)) == 4
        assert [folder.exists() for folder in folders] == [False, False, True, True]
    async with wire_open() as wire:
        assert await sampled(wire) == folders[-1]


@pytest.mark.parametrize("rank", [8, 0])
async def test_a_saved_training_state_is_sampled_as_a_snapshot_of_it_is(
    wire_open: Open, rank: int
) -> None:
    async with wire_open() as wire:
        await wire.model(rank=rank)
        await wire.do("forward_backward", training(1))
        await wire.do("optim_step", step(2))
        save = {"model_id": MODEL, "kind": "snapshot", "seq_id": 3, "sampling_session_seq_id": 0}
        snapshot = (await wire.do("save_weights_for_sampler", save))["sampling_session_id"]
        path = (await wire.do("save_weights", {"model_id": MODEL, "path": "s1", "seq_id": 4}))[
            "path"
        ]
        of_state = "tnk_ab:sample:1:ses_0123"
        body = {"sampling_session_id": of_state, "base_model": "tiny", "model_path": path}
        await wire.post("/tinker/samplers", body | {"checkpoint_id": f"{MODEL}-weights-s1"})
        fixed = {"sampling_params": {"max_tokens": 5, "seed": 1}}
        for number in range(2):
            await wire.do("asample", sample(number, sampling_session_id=of_state, **fixed))
        await wire.do("asample", sample(0, sampling_session_id=snapshot, **fixed))
        first, again, direct = wire.engine.orders
        assert first == replace(again, options=replace(again.options, seed=first.options.seed))
        assert wire.trainer.calls.count("export_state") == 1
        folders = [order.folder for order in (first, direct)]
        assert (
            len(
                {
                    (folder / ("adapter.json" if rank else "config.json")).read_text()
                    for folder in folders
                }
            )
            == 1
        )


def targets(
    data: list[int], shape: list[int], sparse: tuple[list[int], list[int]] | None = None
) -> dict[str, Any]:
    tensor: dict[str, Any] = {"data": data, "dtype": "int64", "shape": shape}
    if sparse is not None:
        tensor |= {"sparse_crow_indices": sparse[0], "sparse_col_indices": sparse[1]}
    return tensor


async def test_named_tokens_are_scored_in_the_form_that_they_are_named_in(wire_open: Open) -> None:
    """-1 asks for nothing and gets 0; a token that a row names twice is scored once and told
    twice.
    """
    async with wire_open() as wire:
        await base_sampler(wire)
        asked = targets([64, -1, 64, 128, -1, -1], [2, 3])
        dense = (
            await wire.do("asample", sample(0, target_prompt_logprobs=asked))
        ).target_prompt_logprobs
        assert wire.engine.orders[-1].prompt_targets_R == ((64,), (128,))
        assert list(dense.shape) == [2, 3] and dense.WhichOneof("encoding") == "dense"
        assert np.frombuffer(dense.dense, "<f4").tolist() == [-1, 0, -1, -2, 0, 0]
        # Cells that were not sent take no memory, however wide the tensor says that it is.
        asked = targets([64, -1], [2, 10**12], sparse=([0, 0, 2], [7, 8]))
        sparse = (
            await wire.do("asample", sample(1, target_prompt_logprobs=asked))
        ).target_prompt_logprobs
        assert list(sparse.shape) == [2, 10**12] and sparse.WhichOneof("encoding") == "sparse_csr"
        assert np.frombuffer(sparse.sparse_csr.values, "<f4").tolist() == [-1, 0]
        assert np.frombuffer(sparse.sparse_csr.col_indices, "<i8").tolist() == [7, 8]


async def test_tokens_are_drawn_at_each_place_of_the_prompt(wire_open: Open) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        drawn = (await wire.do("asample", sample(0, prompt_alt_tokens_k=2))).prompt_alt_tokens
        assert list(drawn.tokens.shape) == list(drawn.logprobs.shape) == [2, 2]
        assert np.frombuffer(drawn.tokens.dense, "<i8").tolist() == [2, 3, 3, 4]
        assert np.frombuffer(drawn.logprobs.dense, "<f4").tolist() == [
            -2 / 64,
            -2 / 64,
            -3 / 64,
            -3 / 64,
        ]
        alone = await wire.do("asample", sample(1, prompt=(5,), prompt_alt_tokens_k=2))
        assert list(alone.prompt_alt_tokens.tokens.shape) == [0, 2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sampling_params": {"max_tokens": 500}}, "max_tokens is 500"),
        ({"prompt": {"chunks": []}}, "no token"),
        ({"prompt": {"chunks": [{"tokens": [1, 512], "type": "encoded_text"}]}}, "token 512"),
        ({"prompt": {"chunks": [{"data": "aa", "format": "png", "type": "image"}]}}, "'image'"),
        ({"sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"sampling_params": {"min_p": 0.1}}, "min_p"),
        ({"sampling_params": {"stop": [600]}}, "stop"),
        ({"num_samples": 0}, "num_samples"),
        (
            {"target_prompt_logprobs": {"data": [1], "dtype": "int64"}},
            "target_prompt_logprobs.shape",
        ),
        (
            {"target_prompt_logprobs": {"data": [1.5, 2], "dtype": "int64", "shape": [2, 1]}},
            "target_prompt_logprobs",
        ),
        ({"target_prompt_logprobs": targets([1, 2, 3], [3, 1])}, "[2, K]"),
        ({"target_prompt_logprobs": targets([1, 2, 3], [2, 1])}, "holds 3 numbers"),
        ({"target_prompt_logprobs": targets([1], [2, 10**15])}, "holds 1 numbers"),
        ({"target_prompt_logprobs": targets([-1, -1], [2, 1])}, "names no token"),
        ({"target_prompt_logprobs": targets([1, 512], [2, 1])}, "outside -1 to 511"),
        ({"target_prompt_logprobs": targets([1, -2], [2, 1])}, "outside -1 to 511"),
        ({"target_prompt_logprobs": targets([*range(258)], [2, 129])}, "at most 128"),
        ({"target_prompt_logprobs": targets([1], [2, 9], sparse=([0, 2, 1], [0]))}, "crow_indices"),
        ({"target_prompt_logprobs": targets([1], [2, 9], sparse=([0, 0, 1], [9]))}, "crow_indices"),
        ({"target_prompt_logprobs": targets([1], [2, 9], sparse=([0, 0, 10**30], [0]))}, "64 bits"),
        ({"prompt_alt_tokens_k": 129}, "prompt_alt_tokens_k"),
        ({"prompt_logprobs": True, "prompt_logprobs_last_n": 3}, "prompt_logprobs_last_n"),
        ({"sampling_session_id": "tnk_ab:sample:8:ses_0123"}, "no sampling session"),
    ],
)
async def test_a_mistake_in_a_sample_comes_back_through_its_future(
    wire_open: Open, changes: dict[str, Any], said: str
) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        answer = await wire.do("asample", sample(0) | changes)
        assert answer["category"] == "user" and said in answer["error"]
        assert len(wire.engine.orders) == 0


async def test_stops_as_the_wire_says_them(wire_open: Open) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        plain = tokens(
            await wire.do("asample", sample(0, sampling_params={"max_tokens": 9, "seed": 3}))
        )[0]
        many = [f"stop {number % 100}" for number in range(300)]
        stops = ["end", ["a", "b"], [plain[2]], [], None, many, list(range(512))]
        for number, stop in enumerate(stops, start=1):
            await wire.do(
                "asample",
                sample(number, sampling_params={"max_tokens": 9, "seed": 3, "stop": stop}),
            )
        *asked, strings, ids = [order.options for order in wire.engine.orders[1:]]
        assert strings.stop == tuple(many[:100]) and ids.stop_token_ids == tuple(range(512)), (
            "lists of any length, each entry once"
        )
        assert [each.stop for each in asked] == [("end",), ("a", "b"), (), (), ()]
        assert [each.stop_token_ids for each in asked] == [(), (), (plain[2],), (), ()]
        assert [each.ignore_eos for each in asked] == [False, False, False, True, False]


async def test_a_cancelled_sample_ends_and_one_of_an_earlier_runtime_is_gone(
    wire_open: Open,
) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        wire.engine.reach = lambda point: asyncio.Event().wait()
        request_id = await wire.promise("asample", sample(0))
        await asyncio.sleep(0)
        await wire.post("/api/v1/cancel_future", {"request_id": request_id})
        assert "cancelled" in (await wire.result(request_id)).json()["error"]
    async with wire_open() as wire:
        assert (await wire.result(request_id)).status_code == 410


def finished(cursor: int, clone: int = 0, **changes: Any) -> dict[str, Any]:
    target = {"type": "sampling_session", "sampling_session_id": BASE, "cloned_sampler_id": clone}
    return {"target": target, "prev_cursor": cursor, "retrieved_request_ids": []} | changes


async def test_one_question_tells_which_samples_of_a_client_are_done(wire_open: Open) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        ids = [await wire.promise("asample", sample(number)) for number in (0, 1, 2 * 10**9)]
        sizes = [len((await wire.result(request_id)).content) for request_id in ids]
        refused = await wire.promise("asample", sample(3, prompt=()))
        await wire.result(refused)
        answer = (await wire.post("/api/v1/retrieve_futures", finished(0))).json()
        done = {
            each["request_id"]: each.get("response_payload_uncompressed_size")
            for each in answer["completions"]
        }
        assert done == {ids[0]: sizes[0], ids[1]: sizes[1], refused: None}
        assert [each["state"] for each in answer["completions"]] == [
            "finished",
            "finished",
            "failed",
        ]
        of_copy = (await wire.post("/api/v1/retrieve_futures", finished(0, 2))).json()[
            "completions"
        ]
        assert [each["request_id"] for each in of_copy] == [ids[2]]
        later = asyncio.create_task(
            wire.post("/api/v1/retrieve_futures", finished(answer["cursor"]))
        )
        at_once = await wire.post("/api/v1/retrieve_futures", finished(answer["cursor"], timeout=0))
        assert at_once.json() == {"completions": [], "cursor": answer["cursor"]}
        one_more = await wire.promise("asample", sample(4))
        assert [each["request_id"] for each in (await later).json()["completions"]] == [one_more]
        # Not a wait without end for what no other runtime makes.
        assert (await wire.post("/api/v1/retrieve_futures", finished(0, 1))).status_code == 410
    async with wire_open() as wire:
        await wire.promise("asample", sample(5))
        assert (
            await wire.post("/api/v1/retrieve_futures", finished(answer["cursor"]))
        ).status_code == 410


async def test_a_second_request_under_a_number_is_a_mistake(wire_open: Open) -> None:
    async with wire_open() as wire:
        await base_sampler(wire)
        await wire.do("asample", sample(0))
        answer = await wire.do("asample", sample(0, num_samples=2))
        assert "number 0" in answer["error"]
