"""One key cannot fill the relay: calls and bytes have a bound, per key and in all, and what ended
makes room.
"""

import asyncio
import json

import pytest
from aiohttp import web

from api.relay import limits as bounds
from api.relay.errors import RelayError
from api.relay.limits import RelayLimits, limits
from console.asgi import application
from console.sessions.models import Session
from console.users.models import ApiKey
from support.asgi_calls import Call, FakeGateway, episode_key
from support.waiting import eventually

CHAT = "/openai/v1/chat/completions"


def test_one_key_may_have_half_of_what_the_relay_carries() -> None:
    assert (bounds.MAX_CALLS, bounds.MAX_CALLS_PER_KEY) == (8_192, 4_096)
    assert (bounds.MAX_BYTES, bounds.MAX_BYTES_PER_KEY) == (512 << 20, 256 << 20)


def test_what_ended_makes_room_and_leaves_nothing_behind() -> None:
    counted = RelayLimits()
    with counted.hold("a") as holding:
        holding.add(5)
        assert (counted.calls, counted.bytes) == ({"a": 1}, {"a": 5})
    assert not counted.calls and not counted.bytes


def test_one_key_may_not_have_all_and_others_are_not_refused_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "MAX_BYTES_PER_KEY", 10)
    monkeypatch.setattr(bounds, "MAX_BYTES", 15)
    counted = RelayLimits()
    with counted.hold("greedy") as greedy, counted.hold("modest") as modest:
        greedy.add(10)
        modest.add(5)
        with pytest.raises(RelayError) as refused:
            modest.add(1)
        assert refused.value.status == 503
    with counted.hold("greedy") as greedy, pytest.raises(RelayError) as refused:
        greedy.add(11)
    assert (refused.value.status, refused.value.retry_after_s) == (429, 1)
    assert not counted.bytes  # what was refused is not kept either


def calls_held(gateway: FakeGateway) -> asyncio.Event:
    """What lets the gateway answer."""
    may_end = asyncio.Event()

    async def wait(request: web.Request) -> web.StreamResponse:
        await may_end.wait()
        return web.json_response({"choices": []})

    gateway.answer = wait
    return may_end


@pytest.mark.django_db(transaction=True)
async def test_calls_count_for_the_api_key_that_their_episodes_were_begun_with(
    gateway: FakeGateway, served: Session, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever session they are of: one key may have many."""
    monkeypatch.setattr(bounds, "MAX_CALLS_PER_KEY", 1)
    may_end = calls_held(gateway)
    own = (await ApiKey.objects.aget()).id
    first = Call(application, "POST", CHAT, key=episode_key(served.id, key_id=own), body=b"{}")
    await eventually(lambda: limits.calls[own] == 1)
    second = Call(application, "POST", CHAT, key=episode_key("ses_other", key_id=own), body=b"{}")
    assert (await second.answer())[0] == 429
    may_end.set()
    assert (await first.answer())[0] == 200


@pytest.mark.django_db(transaction=True)
async def test_a_call_too_many_is_refused_in_the_words_of_the_dialect(
    gateway: FakeGateway, served: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_CALLS_PER_KEY", 1)
    may_end = calls_held(gateway)
    key = episode_key(served.id)
    first = Call(application, "POST", CHAT, key=key, body=b"{}")
    await eventually(lambda: limits.calls[served.id] == 1)
    status, headers, body = await Call(application, "POST", CHAT, key=key, body=b"{}").answer()
    assert (status, headers["retry-after"]) == (429, "1")
    assert json.loads(body)["error"]["type"] == "rate_limit_error"
    may_end.set()
    assert (await first.answer())[0] == 200
    assert (await Call(application, "POST", CHAT, key=key, body=b"{}").answer())[0] == 200
    assert not limits.calls and not limits.bytes
