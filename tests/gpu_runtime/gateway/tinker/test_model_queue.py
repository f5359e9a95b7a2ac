"""What waits is taken out in its turn, once, and whoever waits for it gets its end."""

import asyncio

import pytest

from gpu_runtime.gateway.tinker.model_queue import MISSING, ModelQueue, ModelQueues
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
    return [turn[1].seq_id for turn in iter(queues.take_next, None)]


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
    turn = queues.take_next()
    assert turn is not None
    queue, begun = turn
    assert list(queues.settled()) == []
    queue.unfinished.discard(begun.seq_id)
    assert list(queues.settled()) == [(MODEL, 0)]


def test_a_client_that_is_finished_takes_what_waits_of_its_models_along() -> None:
    queues = queues_open(0, 1, 2)
    assert queues.take_finished() is None
    assert queues.take_next() is not None
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
