"""A template that writes the date writes that of the episode's begin: midnight changes no
conversation.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpu_runtime.journal.timelines import agents_of, merge
from support.gateway_harness import MODEL, running_gateway
from support.waiting import FakeClock

EVENING = datetime(2031, 2, 3, 23, 59, tzinfo=UTC)
LONG = {
    "max_tokens": 64,
    "max_context_length": 4096,
    "episode_timeout_s": 86400,
    "episode_idle_timeout_s": 86400,
}


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is where the day has begun already; a runtime before it may have been
    elsewhere.
    """
    with monkeypatch.context() as there:
        there.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(("family", "day", "next_day"), [
    ("llama3_2", "Today Date: 03 Feb 2031", "Today Date: 04 Feb 2031"),
    ("gptoss", "Current date: 2031-02-03", "Current date: 2031-02-04"),
])  # fmt: skip
async def test_a_conversation_that_crosses_midnight_goes_on_wherever_the_runtime_is(
    tmp_path: Path, far_east: None, family: str, day: str, next_day: str
) -> None:
    clock = FakeClock(EVENING.timestamp())
    async with running_gateway(tmp_path, family=family, now=clock, **LONG) as gateway:
        begun, messages = await gateway.begin(), [{"role": "user", "content": "hello"}]
        for question in ("and now?", "and then?"):
            answer = (await gateway.chat(begun, messages=messages)).choices[0].message
            messages += [
                {"role": "assistant", "content": answer.content},
                {"role": "user", "content": question},
            ]
            clock.now += timedelta(minutes=2).total_seconds()
        counted = {"model": MODEL, "messages": messages}
        headers = {"X-Api-Key": begun["api_key"]}
        await gateway.http.post("/v1/messages", json=counted | {"max_tokens": 8}, headers=headers)
        told = await gateway.http.post(
            "/v1/tokenize", json=counted, headers={"Authorization": f"Bearer {begun['api_key']}"}
        )
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        prompts = [*(call.prompt_ids_P for call in calls), told.json()["tokens"]]
        assert [day in gateway.renderer.decode(ids) for ids in prompts] == [True] * 4
        if family != "gptoss":  # its template ends a turn of the history in another way
            assert [call.drift for call in calls] == [None] * 3
            assert sum(len(merge(pieces)) for pieces in agents_of(calls).values()) == 1
        later = await gateway.begin()
        await gateway.chat(later, messages=messages, **_variables(family))
        assert next_day in gateway.renderer.decode(gateway.engine.requests[-1].prompt_ids)


def _variables(family: str) -> dict[str, object]:
    """A variable of the template, under which it has the episode's day too."""
    name = "reasoning_effort" if family == "gptoss" else "tools_in_user_message"
    return {"extra_body": {"chat_template_kwargs": {name: "low" if family == "gptoss" else False}}}
