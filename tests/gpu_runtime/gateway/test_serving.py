"""A model that is served and not trained: every dialect with a key of the session, and nothing of
episodes.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_runtime.gateway.serving import ServedModel
from gpu_runtime.rendering.renderer import Renderer
from support.fakes import FakeEngine
from support.gateway_harness import MODEL, RELAY_KEY, SESSION, make_assignment
from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import build_tokenizer
from support.waiting import eventually
from tinkerscript.wire.episode_key import EpisodeClaim, sign
from tinkerscript.wire.runtime import ResumePoint

SIGNING = bytes.fromhex("ab" * 32)
MESSAGES = [{"role": "user", "content": "hello"}]


@dataclass
class Served:
    http: httpx.AsyncClient
    engine: FakeEngine
    model: ServedModel
    faults: list[Exception]

    async def chat(self, key: str = "", **body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key or key_of()}"}
        return await self.http.post(
            "/v1/chat/completions",
            json={"model": MODEL, "messages": MESSAGES} | body,
            headers=headers,
        )


def key_of(session_id: str = SESSION, *, lives_s: float = 600, signing: bytes = SIGNING) -> str:
    return sign(signing, EpisodeClaim(session_id, "serving", int(time.time() + lives_s), "key_1"))


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A checkpoint of step 8."""
    build_tokenizer(tmp_path)
    engine = FakeEngine(LightTokenizer(tmp_path))
    engine.version = 8
    point = ResumePoint(checkpoint_id="ckp_1", step=8, files=[])
    assignment = make_assignment().model_copy(update={"serves": point})
    faults: list[Exception] = []
    renderer = Renderer(engine.tokenizer)
    model = ServedModel(engine, renderer, assignment, version=8, on_fault=faults.append)
    transport = httpx.ASGITransport(model.app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://runtime", timeout=30
    ) as http:
        yield Served(http, engine, model, faults)


async def test_both_dialects_sample_under_its_own_key_by_every_name_that_it_has(
    served: Served,
) -> None:
    served.engine.say("one", "two", "three", "four")
    for name, said in ((MODEL, "one"), (SESSION, "two"), ("ckp_1", "three")):
        answer = await served.chat(model=name)
        assert answer.json()["choices"][0]["message"]["content"] == said
        assert answer.headers["X-Policy-Version"] == "8", "the step of the checkpoint"
    body = {"model": "ckp_1", "messages": MESSAGES, "max_tokens": 16}
    answer = await served.http.post("/v1/messages", json=body, headers={"X-Api-Key": key_of()})
    assert answer.json()["content"][0]["text"] == "four"
    wrong = await served.chat(model="another")
    assert wrong.status_code == 404 and "'ckp_1'" in wrong.json()["error"]["message"]


async def test_a_stream_brings_the_log_probability_of_each_token(served: Served) -> None:
    served.engine.say("hello there")
    answer = await served.chat(stream=True, logprobs=True, top_logprobs=1)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert '"logprob"' in answer.text and answer.text.rstrip().endswith("[DONE]")


async def test_the_control_plane_calls_with_the_relays_key_and_no_one_else_without_one(
    served: Served,
) -> None:
    body = {"model": MODEL, "messages": MESSAGES}
    relayed = await served.http.post(
        "/v1/chat/completions", json=body, headers={"X-Relay-Key": RELAY_KEY}
    )
    assert relayed.status_code == 200
    for key in (
        key_of("ses_other"),
        key_of(signing=b"x" * 32),
        key_of(lives_s=-1),
        "tml-sk-nothing",
    ):
        assert (await served.chat(key)).status_code in (401, 410)
    refused = await served.http.post(
        "/v1/chat/completions", json=body, headers={"X-Relay-Key": "wrong"}
    )
    assert refused.status_code == 401
    assert (await served.http.get("/v1/models")).status_code == 401


async def test_its_models_are_listed_with_their_length(served: Served) -> None:
    headers = {"Authorization": f"Bearer {key_of()}"}
    listed = (await served.http.get("/v1/models", headers=headers)).json()["data"]
    assert [model["id"] for model in listed] == ["ckp_1", MODEL, SESSION]
    assert {(model["max_model_len"], model["policy_version"]) for model in listed} == {(512, 8)}
    one = await served.http.get("/v1/models/ckp_1", headers=headers)
    assert one.json() == listed[0]
    assert (await served.http.get("/v1/models/other", headers=headers)).status_code == 404


async def test_calls_count_as_activity_and_none_continues_another(served: Served) -> None:
    before, said = served.model.last_activity_at, "The capital is Paris."
    odd, fresh = (
        [token for letter in said for token in served.engine.encode(letter)],
        served.engine.encode(said),
    )
    # in ids that encoding it would never make
    served.engine.say([*odd, served.engine.end_id], "two")
    await served.chat()
    assert served.model.last_activity_at > before
    await served.chat(messages=[*MESSAGES, {"role": "assistant", "content": said}, *MESSAGES])
    prompt = served.engine.requests[1].prompt_ids
    assert odd != fresh and holds(prompt, fresh) and not holds(prompt, odd)


async def test_an_id_that_requests_have_in_common_joins_a_request_to_its_retry_alone(
    served: Served,
) -> None:
    """A trace's id, say, of one client or of clients that know nothing of each other."""
    served.engine.hang = True
    one, another = (
        {"Authorization": f"Bearer {key_of(lives_s=lives_s)}"} for lives_s in (600, 700)
    )
    relayed = [
        {"X-Relay-Key": RELAY_KEY, "X-Tinker-Caller": caller} for caller in ("key_1", "key_2")
    ]
    body = {"model": MODEL, "messages": MESSAGES}
    sent = [(one, body), (one, body), (one, body | {"max_tokens": 9})]
    sent += [(headers, body) for headers in (another, *relayed)]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                served.http.post(
                    "/v1/chat/completions",
                    json=content,
                    headers=headers | {"X-Request-Id": "trace"},
                )
            )
            for headers, content in sent
        ]
        await eventually(lambda: len(served.engine.requests) >= 5)
        served.engine.released.set()
    assert [task.result().status_code for task in tasks] == [200] * 6 and len(
        served.engine.requests
    ) == 5
    assert tasks[0].result().json()["id"] == tasks[1].result().json()["id"]


def holds(ids: Sequence[int], part: Sequence[int]) -> bool:
    """Whether ``part`` is somewhere in ``ids``, without a gap."""
    return any(list(ids[start : start + len(part)]) == list(part) for start in range(len(ids)))


async def test_it_has_no_episodes(served: Served) -> None:
    answer = await served.http.post("/episodes", json={}, headers={"X-Relay-Key": RELAY_KEY})
    assert answer.status_code == 404


async def test_a_call_that_finds_the_engine_dead_says_so(served: Served) -> None:
    served.engine.dead = True
    assert (await served.chat()).status_code == 503
    assert len(served.faults) == 1
