"""Of a token the engine always has a number: a call without one fails, and takes nothing else with
it.
"""

import math

import pytest

from support import fakes
from support.gateway_harness import Gateway


@pytest.mark.parametrize("value", [math.nan, -math.inf])
async def test_a_token_without_a_number_fails_its_call_and_no_other(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    begun = await gateway.begin(task="t")
    await gateway.chat(begun)
    with monkeypatch.context() as now:
        now.setattr(fakes, "_logprob", lambda *_: value)
        answer = await gateway.raw_chat(begun["api_key"])
        assert answer.status_code == 503 and str(value) in answer.json()["error"]["message"]
    await gateway.chat(begun, "again")
    assert (await gateway.end(begun["episode_id"])).status_code == 200
    calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert [call.status for call in calls] == ["completed"] * 2 and gateway.faults == []
    assert all(
        math.isfinite(lp)
        for call in calls
        for answer in call.completions
        for lp in answer.logprobs_T
    )
