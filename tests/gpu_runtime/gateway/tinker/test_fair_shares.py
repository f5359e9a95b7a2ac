"""Clients that share a runtime: whose turn it is, and what goes with a client that is over."""

import asyncio

from gpu_runtime.gateway.tinker.fair_shares import FairRoom, FairShares
from gpu_runtime.journal.model_table import ModelTable
from support.tinker_harness import MODEL, Open, step, training

OTHER = "tnk_cd:train:0"


def test_the_client_with_the_fewest_tokens_is_next_and_absence_is_no_claim() -> None:
    shares = FairShares()
    turns = []
    for arrival in range(12):
        waiting = [("much", arrival), ("little", 100 + arrival)]
        if arrival >= 6:
            waiting.append(("late", 200 + arrival))
        first = shares.first(waiting)
        assert first is not None
        turns.append(first[0])
        shares.begin(first[0])
        shares.charge(first[0], {"much": 30, "little": 10, "late": 10}[first[0]])
    assert turns[:6].count("little") >= 2 * turns[:6].count("much")
    assert turns[6:].count("late") <= 3, "what it did not ask for before is not made up for"
    assert shares.first([]) is None


async def test_a_flood_of_one_client_holds_up_no_other_and_who_leaves_gives_its_place_back() -> (
    None
):
    room, order = FairRoom(2), list[str]()

    async def sample(client: str, sequences: int = 1) -> None:
        async with room.of(client, sequences):
            order.append(client)
            await asyncio.sleep(0)
            room.charge(client, 100)

    flood = [asyncio.create_task(sample("flood")) for _ in range(20)]
    await asyncio.sleep(0)
    left = asyncio.create_task(sample("left"))
    late = [asyncio.create_task(sample("late")) for _ in range(3)]
    large = asyncio.create_task(sample("large", 900))  # more than there is room for: all of it
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.wait_for(asyncio.gather(*flood, *late, large), 10)
    assert order.count("flood") == 20 and left.cancelled()
    assert max(at for at, client in enumerate(order) if client == "late") < 12
    assert order.index("large") < 12 and room.waiting == 0
    async with asyncio.timeout(5):
        async with room.of("after", 2):
            assert room.waiting == 0, "all of the room is free again"


async def test_operations_of_two_clients_take_turns_by_their_tokens(wire_open: Open) -> None:
    """Of a trainer that joins none; ``test_joined_operations.py`` has one that does."""
    async with wire_open(joins=False) as wire:
        await wire.model()
        await wire.model(OTHER)
        held = asyncio.Event()

        async def reach(point: str) -> None:
            await held.wait()

        wire.trainer.reach = reach
        promises = [
            await wire.promise("forward_backward", training(seq_id, list(range(3, 43))))
            for seq_id in (1, 2, 3, 4)
        ]
        promises += [
            await wire.promise("forward_backward", training(seq_id, model_id=OTHER))
            for seq_id in (1, 2, 3)
        ]
        held.set()
        for promise in promises:
            await wire.result(promise)
        done = [call.split()[1] for call in wire.trainer.calls if call.startswith("forward")]
        assert done[:5] == [MODEL, OTHER, OTHER, OTHER, MODEL], "three of 3 tokens, then 40 again"


async def test_what_a_client_had_goes_when_it_is_over_and_a_kill_brings_nothing_back(
    wire_open: Open,
) -> None:
    async with wire_open() as wire:
        for model_id in (MODEL, OTHER):
            await wire.model(model_id)
            await wire.do("forward_backward", training(1, model_id=model_id))
            await wire.do("optim_step", step(2, model_id=model_id))
        assert wire.ledger.clients == {"tnk_ab", "tnk_cd"}
        ahead = await wire.promise("optim_step", step(4))  # 3 never comes
        wire.ledger.client_over("tnk_ab")
        assert (await wire.result(ahead)).status_code == 410
        assert (await wire.post("/api/v1/optim_step", step(3))).status_code == 404
        assert [*wire.trainer.models] == [OTHER] and wire.ledger.clients == {"tnk_cd"}
        assert (await wire.do("optim_step", step(3, model_id=OTHER)))["metrics"]
        assert wire.journal.models.steps_done() == 3, "steps of a client that left stay counted"
    async with wire_open() as wire:
        assert wire.ledger.clients == {"tnk_cd"} and wire.ledger.steps_done == 3
        table: ModelTable = wire.journal.models
        assert [row.id for row in table.models()] == [OTHER]
