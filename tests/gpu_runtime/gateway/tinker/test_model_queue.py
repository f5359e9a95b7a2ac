"""What waits is taken out in its turn, once, and whoever waits for it gets its end."""

import asyncio

import pytest

from gpu_runtime.gateway.tinker.model_queue import (
    JOINABLE,
    JOINED_BYTES,
    MISSING,
    SHORT_BYTES,
    ModelQueue,
    ModelQueues,
)
from gpu_runtime.journal.model_table import Operation
from gpu_runtime.refusals import NotFound
from support.tinker_harness import MODEL


def operation(seq_id: int, result_kind: str | None = None) -> Operation:
    request_id = f"{MODEL}:{seq_id}"
    return Operation(MODEL, seq_id, request_id, "optim_step", b"{}", "0", result_kind)


def queues_open(*seq_ids: int, gap_s: float = 60.0) -> ModelQueues:
    queues = ModelQueues(gap_s)
    queues.open(MODEL, ModelQueue())
    for seq_id in seq_ids:
        queues.add(operation(seq_id))
    return queues


def taken(queues: ModelQueues) -> list[int]:
    return [turn[1].seq_id for turns in iter(queues.take_next, []) for turn in turns]


async def test_an_operation_that_comes_as_its_number_is_given_up_waits_once() -> None:
    queues = queues_open(0, 2, gap_s=0.0)
    assert taken(queues) == [0]
    (unused,) = queues.give_up()
    assert [(each.seq_id, each.kind) for each in unused] == [(1, MISSING)]
    # the journal has the operation that came: it is added for the number and for its request
    queues.add(operation(1))
    waits = asyncio.create_task(queues.wait(operation(1).request_id, 60.0))
    await asyncio.sleep(0)
    queues.add(operation(1))
    assert taken(queues) == [1, 2]
    queues.end(operation(1).request_id)
    async with asyncio.timeout(0.5):
        await waits


async def test_what_comes_before_a_change_is_waited_for_is_one() -> None:
    queues = queues_open(1, gap_s=0.0)
    assert await queues.change()
    assert not await queues.change(), "number 0 was waited for long enough"


def test_a_model_is_settled_while_nothing_of_it_is_under_way() -> None:
    queues = queues_open()
    assert list(queues.settled()) == [], "it was never made"
    queues.add(operation(0))
    ((queue, begun),) = queues.take_next()
    assert list(queues.settled()) == []
    queue.unfinished.discard(begun.seq_id)
    assert list(queues.settled()) == [(MODEL, 0)]


def test_a_client_that_is_finished_takes_what_waits_of_its_models_along() -> None:
    queues = queues_open(0, 1, 2)
    assert queues.take_finished() is None
    assert queues.take_next()
    queues.client_over("tnk_ab")
    assert queues.take_finished() == ("tnk_ab", [MODEL])
    assert [each.seq_id for each in queues.remove(MODEL)] == [1, 2]
    assert taken(queues) == [] and queues.take_finished() is None and queues.clients == set()
    with pytest.raises(NotFound, match=f"there is no model {MODEL} in this session"):
        queues.number_check(MODEL, 3)


def test_what_an_earlier_runtime_did_is_done_again_and_nobody_waits_for_it() -> None:
    queues = queues_open()
    queues.add(operation(0, "json"))
    assert queues.is_idle and taken(queues) == [0]


def short(model_id: str, seq_id: int = 0, size: int = 100, kind: str = JOINABLE) -> Operation:
    return Operation(model_id, seq_id, f"{model_id}:{seq_id}", kind, bytes(size), "0")


def turns(queues: ModelQueues) -> list[list[str]]:
    return [
        [operation.request_id for _, operation in taken] for taken in iter(queues.take_next, [])
    ]


def test_short_operations_of_several_models_are_taken_together() -> None:
    queues = ModelQueues(60.0)
    for operation in (
        short("a:0"), short("a:0", 1), short("b:0", size=SHORT_BYTES + 1),
        short("c:0"), short("c:0", 1, kind="optim_step"), short("d:0", kind="optim_step"),
        short("e:0", 1),
    ):  # fmt: skip
        queues.add(operation)
    assert turns(queues) == [["a:0:0", "c:0:0"], ["b:0:0"], ["d:0:0"], ["a:0:1"], ["c:0:1"]], (
        "one of a model at a time; number 0 of e has not come"
    )


def test_a_client_with_many_models_leaves_room_for_the_others() -> None:
    queues, size = ModelQueues(60.0), JOINED_BYTES // 4
    for model in range(6):
        queues.add(short(f"many:{model}", size=size))
    for client in ("one", "two"):
        queues.add(short(f"{client}:0", size=size))
    assert turns(queues) == [
        ["many:0:0", "one:0:0", "two:0:0", "many:1:0"],
        ["many:2:0", "many:3:0", "many:4:0", "many:5:0"],
    ]


def test_what_could_not_be_joined_waits_for_a_turn_of_its_own_before_what_came_later() -> None:
    queues = ModelQueues(60.0)
    for model_id in ("a:0", "a:1", "a:2"):
        queues.add(short(model_id))
        queues.add(short(model_id, 1))
    taken = queues.take_next()
    assert [operation.request_id for _, operation in taken] == ["a:0:0", "a:1:0", "a:2:0"]
    queues.put_back(taken[1:])
    assert turns(queues) == [["a:1:0"], ["a:2:0"], ["a:0:1", "a:1:1", "a:2:1"]]
