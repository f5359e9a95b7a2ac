"""An episode of a session that runs is erased: no file of the runtime and no copy of its journal
has a byte of it.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpu_runtime.episodes.batches import LEVEL
from gpu_runtime.errors import ControlPlaneRefused, DiskFull, RuntimeFault
from gpu_runtime.gateway.app import app_of
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion, EpisodeRecord
from gpu_runtime.journal.removal import NotErasable, episode_scrub, episodes_prune, erasable_check
from gpu_runtime.loop.batching import batch_samples
from gpu_runtime.loop.sample import Sample
from gpu_runtime.refusals import GatewayError
from gpu_runtime.trajectories import reporter as reporter_module
from gpu_runtime.trajectories import stored_calls
from gpu_runtime.trajectories.erasure import EpisodeErasure
from gpu_runtime.trajectories.outbox import Due, documents_stored
from gpu_runtime.trajectories.rows import step_advantages
from support.fake_control_plane import FakeControlPlane, error_body
from support.gateway_harness import running_gateway
from support.runtime_harness import Running, batches_of, episode_complete
from support.waiting import eventually
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import WorkflowOutput

MARK = "a person's own words 7f3a"


async def play_marked(it: Running, task: str, reward: float) -> str:
    """An episode that has MARK wherever an agent can put it; its id."""
    begun = await it.post("/episodes", json={"task": task})
    chat = {
        "model": "tiny",
        "messages": [{"role": "user", "content": f"{MARK} said"}],
        "temperature": 0.9,
    }
    await it.post(
        "/v1/chat/completions", json=chat, headers={"Authorization": f"Bearer {begun['api_key']}"}
    )
    output = {"reward": reward, "metadata": {"note": f"{MARK} noted"}}
    await it.post(f"/episodes/{begun['episode_id']}/end", json={"output": output})
    return begun["episode_id"]


async def erase(it: Running, episode_id: str) -> tuple[int, str]:
    url = f"http://{it.status['address']}/episodes/{episode_id}"
    answer = await it.http.request("DELETE", url, headers={"X-Relay-Key": "relay"})
    return answer.status_code, answer.text


async def get(it: Running, path: str) -> Any:
    return await it.http.get(
        f"http://{it.status['address']}{path}", headers={"X-Relay-Key": "relay"}
    )


def places_of_mark(plane: FakeControlPlane, volume: Path) -> list[str]:
    """Every file of the volume, and every file of the journal's copy, that has it: deleted pages
    and logs included.
    """
    found = [
        path.name
        for path in volume.rglob("*")
        if path.is_file() and MARK.encode() in path.read_bytes()
    ]
    kept = [f"journal/{file['sha256']}" for file in plane.journal]
    return found + [name for name in kept if MARK.encode() in plane.objects[name]]


@pytest.mark.system
async def test_an_erased_episode_leaves_no_byte_and_the_session_goes_on(
    plane, runtime, monkeypatch
) -> None:
    monkeypatch.setattr(stored_calls, "SMALL_BYTES", 0)
    monkeypatch.setattr(reporter_module, "ROWS_EVERY_S", 0.05)
    monkeypatch.setattr(reporter_module, "PACK_EVERY_S", 0.0)
    async with runtime(plane) as it:
        begun = await it.post("/episodes", json={"task": "open"})
        status, text = await erase(it, begun["episode_id"])
        assert status == 409 and "end it or abandon it" in text
        await it.post(f"/episodes/{begun['episode_id']}/abandon", json={"reason": "over"})
        trained, waits = await play_marked(it, "a", 0.0), await play_marked(it, f"{MARK} task", 1.0)
        await it.play("a", 1.0)
        await it.play_groups("b")
        await it.stepped(1)
        status, text = await erase(it, trained)
        assert status == 409 and "Order 2 more" in text
        assert places_of_mark(plane, it.volume)
        for name in ("ckp_1", "ckp_2"):
            it.order(name, "state")
            await it.committed(name)
        async with asyncio.timeout(25):  # the runtime hears of a commit after the store has it
            while (await erase(it, trained))[0] == 409:
                await asyncio.sleep(0.02)
        assert [(await erase(it, name))[0] for name in (trained, waits, trained)] == [204, 204, 204]
        assert places_of_mark(plane, it.volume) == []
        assert [
            (await get(it, f"/episodes/{name}/calls")).status_code for name in (trained, waits)
        ] == [404, 404]
        listed = {item["episode_id"] for item in (await get(it, "/episodes")).json()["items"]}
        assert len(listed) == 4 and not listed & {trained, waits}
        assert (await get(it, "/batches/1")).status_code == 200, (
            "the others of its batch are read on"
        )
        accounting = (await get(it, "/accounting")).json()
        assert (
            accounting["begun"],
            accounting["trained"],
            accounting["stale"],
            accounting["waiting"],
        ) == (6, 4, 1, 0)
        it.task.cancel()
    async with runtime(plane) as it:  # and of the next runtime
        assert (await erase(it, "epi_unknown"))[0] == 404
        await it.play_groups("c", "d")
        await it.stepped(2)
        await it.end("stop")
        assert places_of_mark(plane, it.volume) == []
        assert {row["fate"] for row in plane.episodes.values()} >= {"trained"}


async def test_an_erasure_whose_copy_could_not_be_stored_says_so_and_is_completed_by_the_next(
    plane, runtime
) -> None:
    async with runtime(plane) as it:
        waits = await play_marked(it, "a", 1.0)
        plane.answers["/v1/runtime/uploads"] = (409, error_body("conflict"))
        status, text = await erase(it, waits)
        assert status == 503 and "may still have the episode" in text
        del plane.answers["/v1/runtime/uploads"]
        assert (await erase(it, waits))[0] == 204
        await eventually(lambda: places_of_mark(plane, it.volume) == [])
        await it.end("stop")
    assert places_of_mark(plane, it.volume) == []


async def test_an_erasure_whose_caller_gave_up_is_finished_and_the_next_try_uploads_nothing(
    plane, runtime
) -> None:
    went_on = threading.Event()

    def slowly(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        assert body["kind"] != "journal" or went_on.wait(20.0)
        return 200, plane.upload_open(body)

    def copies() -> int:
        return len(
            [body for body in plane.bodies("/v1/runtime/uploads") if body["kind"] == "journal"]
        )

    async with runtime(plane) as it:
        waits = await play_marked(it, "a", 1.0)
        plane.answers["/v1/runtime/uploads"] = slowly
        caller = asyncio.create_task(erase(it, waits))
        await eventually(lambda: copies() == 1)
        caller.cancel()
        went_on.set()
        assert [(await erase(it, waits))[0] for _ in range(2)] == [204, 204]
        assert places_of_mark(plane, it.volume) == [] and copies() == 1
        await it.end("stop")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty one."""
    journal = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    yield journal
    journal.close()


def test_an_episode_of_the_batch_that_is_trained_has_to_wait(journal: Journal) -> None:
    for name in ("a", "b"):
        episode_complete(journal, name, task="t", reward=1.0)
    journal.batches.record(1, [["a", "b"]], 0)
    with pytest.raises(NotErasable, match="in the batch of step 1"):
        erasable_check(journal.database, journal.episodes.get("a"), states=(0, 0))
    journal.batches.step_done(1, {})
    # the last one may be taken back
    for states, missing in (((0, 0), "2 more"), ((0, 1), "1 more")):
        with pytest.raises(NotErasable, match=f"of step 1 or later are committed. Order {missing}"):
            erasable_check(journal.database, journal.episodes.get("a"), states=states)
    erasable_check(journal.database, journal.episodes.get("a"), states=(1, 2))


async def test_a_group_that_is_filled_again_is_looked_at_again(journal: Journal) -> None:
    def played(name: str, task: str, reward: float) -> EpisodeRecord:
        episode_complete(journal, name, task=task, reward=reward)
        return journal.episodes.get(name)

    batches = batches_of(journal, SessionConfig(grpo_n=2, tasks_per_batch=2, dynamic_sampling=True))
    await batches.add(played("a", "t", 0.0))
    await batches.add(played("b", "t", 1.0))
    coming = asyncio.create_task(batches.next_batch())
    for _ in range(3):  # it begins to look at the group, which the erasure waits for
        await asyncio.sleep(0)
    await batches.erase(journal.episodes.get("b"), states=(0, 0))
    for name, task, reward in (
        ("c", "t", 0.0),
        ("d", "u", 0.0),
        ("e", "u", 1.0),
        ("f", "v", 0.0),
        ("g", "v", 1.0),
    ):
        await batches.add(played(name, task, reward))
    batch = await asyncio.wait_for(coming, 25)
    assert [group.key for group in batch.groups] == ["u", "v"]
    assert journal.episodes.get("a").reason == LEVEL


OF_AGENTS = {
    "advantage_baseline": "batch", "kl_coef": 0.5, "kl_in": "reward", "max_tokens": 16, "overlong_buffer": 12,
}  # fmt: skip


def played_by_agents(journal: Journal, name: str, task: str, number: int) -> None:
    """An episode of two agents whose rewards, answers and distance to the reference are its own."""
    journal.episodes.begin(name, task=task, eval=False, deadline_at=2e9)
    for agent, length in (("solver", 5 + 2 * number), ("critic", 4 + number)):
        answer = Completion(
            choice=0, token_ids_T=(number,) * length, logprobs_T=(-0.5,) * length, versions_T=(0,) * length, text="",
            finish_reason="stop", message={},
        )  # fmt: skip
        call_id = f"call-{name}-{agent}"
        journal.calls.record(
            CallRecord(call_id, name, (1, 2), (answer,), begun_at=1.0, ended_at=2.0, agent=agent)
        )
    rewards = {"solver": 0.3 * number, "critic": 1.0 - 0.7 * number}
    journal.episodes.end(
        name, WorkflowOutput(reward=0.1 * number, rewards_by_agent=rewards), {"timelines": 2}
    )
    journal.batches.record_gaps({name: 0.01 * number})


@pytest.mark.parametrize("is_refused", [False, True], ids=["trained", "refused"])
async def test_the_others_of_its_batch_keep_their_advantages_to_the_bit(
    journal: Journal, is_refused: bool
) -> None:
    for number, name in enumerate("abcd"):
        played_by_agents(journal, name, "tu"[number // 2], number)
    journal.batches.record(1, [["a", "b"], ["c", "d"]], 0)
    if is_refused:
        journal.batches.discard(1, "a loss that is not finite")
    else:
        journal.batches.step_done(1, {})
    config = SessionConfig(grpo_n=2, tasks_per_batch=2, **OF_AGENTS)
    documents = {name: tuple(journal.calls.of_episode(name)) for name in "abcd"}
    documents_stored(journal, [Due(name, 1) for name in "abcd"])

    async def recall(names: Sequence[str]) -> dict[str, tuple[CallRecord, ...]]:
        return {name: documents[name] for name in names}

    batches = batches_of(journal, config, recall=recall)

    async def shown() -> tuple[dict[str, dict[str, float]], list[Sample]]:
        kept = await batches.kept("refused-a" if is_refused else "1")
        return step_advantages(kept.batch, config), batch_samples(kept.batch, config)

    advantages, samples = await shown()
    assert (
        len({advantage for by_call in advantages.values() for advantage in by_call.values()}) == 8
    )
    for erased in ("a", "c"):
        await batches.erase(journal.episodes.get(erased), states=(1, 1))
        # by the next runtime, as it was cut off
        await batches.erase(journal.episodes.get(erased), states=(0, 1))
        advantages[erased] = {}
        samples = [
            sample for sample in samples if not sample.call_ids[0].startswith(f"call-{erased}-")
        ]
        assert await shown() == (advantages, samples)
        episodes_prune(journal.database, ["b", "c", "d"])  # their calls are in the store alone
    assert len(samples) == 4


def test_earlier_rewards_and_who_gave_them_go_with_the_episode(journal: Journal) -> None:
    # builds of SQLite differ in whether a deletion overwrites what it deletes
    journal.database.connection.execute("PRAGMA secure_delete = OFF")
    episode_complete(journal, "a", task="t", reward=1.0)
    journal.rewards.rescore({"a": 0.5}, "person@example.org")
    episode_scrub(journal.database, journal.episodes.get("a"), {})
    assert journal.rewards.changes_of("a") == []
    journal.database.rewrite()
    assert b"person@example.org" not in journal.path.read_bytes()


async def test_an_episode_that_was_erased_is_on_no_page(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        kept, erased = [(await gateway.begin(eval=True))["episode_id"] for _ in range(2)]
        await gateway.internal("POST", f"/episodes/{erased}/abandon", json={"reason": "over"})
        answer = await gateway.internal("DELETE", f"/episodes/{erased}")
        assert answer.status_code == 204, answer.text
        listed = (await gateway.internal("GET", "/episodes")).json()["items"]
        assert [item["episode_id"] for item in listed] == [kept]


@dataclass
class Failing:
    """The parts of a runtime that an erasure uses, of which some fail."""

    of_journal: RuntimeFault | None = None
    of_copy: RuntimeFault | None = None
    states: tuple[int, int] = (0, 0)
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def replica(self) -> "Failing":
        return self

    async def erase(self, episode_id: str, *, states: tuple[int, int]) -> None:
        if self.of_journal:
            raise self.of_journal

    async def renew(self, *, whole: bool) -> None:
        if self.of_copy:
            raise self.of_copy


@pytest.mark.parametrize(
    ("parts", "status", "words"),
    [
        (Failing(of_journal=ControlPlaneRefused("no")), 503, "nothing was erased"),
        (Failing(of_copy=ControlPlaneRefused("no")), 503, "may still have the episode"),
        (Failing(of_copy=DiskFull("no room")), 507, "may still have the episode"),
    ],
)
async def test_what_an_erasure_lacks_is_said(
    tmp_path: Path, parts: Failing, status: int, words: str
) -> None:
    erasure = EpisodeErasure(parts, parts, Failing(), parts, tmp_path)
    with pytest.raises(GatewayError, match=words) as refused:
        await erasure.erase("a")
    assert refused.value.status == status and not parts.sending.locked()


async def test_a_control_plane_that_refuses_to_name_a_document_is_no_fault_of_the_service() -> None:
    async def recall(_: Request) -> Response:
        raise ControlPlaneRefused("the lease is of another session")

    app = httpx.ASGITransport(app_of([Route("/batches/1", recall)]))
    async with httpx.AsyncClient(transport=app, base_url="http://gateway") as http:
        answer = await http.get("/batches/1")
    assert answer.status_code == 503 and "of another session" in answer.text
