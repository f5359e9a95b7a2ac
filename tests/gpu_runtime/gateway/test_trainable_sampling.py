"""A training episode samples only what the trainer can compute; what it sampled at is kept with
each call.
"""

from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.episodes.call_views import episode_calls
from gpu_runtime.journal.timelines import agents_of
from gpu_runtime.journal.token_values import set_bits
from support.gateway_harness import Gateway, running_gateway


@pytest.mark.parametrize(
    ("options", "param", "advice"),
    [
        ({"temperature": 0}, "temperature", "eval=True"),
        ({"temperature": 0.05}, "temperature", "0.1 or more"),
        ({"top_p": 0.9}, "top_p", "lower the temperature"),
    ],
)
async def test_sampling_that_cannot_be_trained_is_refused_with_advice_and_allowed_in_eval_episodes(
    gateway: Gateway, options: dict[str, Any], param: str, advice: str
) -> None:
    trained, evaluated = await gateway.begin(), await gateway.begin(eval=True)
    refused = await gateway.raw_chat(trained["api_key"], **options)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["param"] == param and advice in str(error)
    assert gateway.engine.requests == [], "nothing was sampled"
    assert (await gateway.raw_chat(evaluated["api_key"], **options)).status_code == 200


async def test_a_greedy_session_sees_it_at_its_first_training_call(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, temperature=0.0) as gateway:
        begun = await gateway.begin()
        refused = await gateway.raw_chat(begun["api_key"])
        assert refused.status_code == 400 and "not 0" in refused.json()["error"]["message"]
        assert "in the session's options" in refused.json()["error"]["message"]
        for trained in (0.1, 1.0):
            answer = await gateway.raw_chat(begun["api_key"], temperature=trained)
            assert answer.status_code == 200, answer.text


async def test_of_a_call_under_a_grammar_is_kept_what_each_token_was_chosen_from(
    gateway: Gateway,
) -> None:
    begun, evaluated = await gateway.begin(), await gateway.begin(eval=True)
    await gateway.chat(begun)
    for each in (begun, evaluated):
        gateway.engine.say("{}")
        await gateway.chat(each, content="again", response_format={"type": "json_object"})
    assert [request.options.for_training for request in gateway.engine.requests] == [
        True,
        True,
        False,
    ]
    free, bound = agents_of(gateway.journal.calls.of_episode(begun["episode_id"]))[None]
    assert free.allowed == () and len(bound.allowed) == len(bound.token_ids)
    chosen = [int.from_bytes(set_bits(each), "little") for each in bound.allowed]
    assert chosen == [3 << token for token in bound.token_ids]


async def test_beside_what_was_sampled_from_are_the_log_probabilities_of_temperature_1(
    gateway: Gateway,
) -> None:
    """Recorded where the two differ; of a call that is not trained they are not known then."""
    begun, evaluated = await gateway.begin(), await gateway.begin(eval=True)
    for each in (begun, evaluated):
        await gateway.chat(each)
        await gateway.chat(each, content="again", temperature=0.5)
    of_trained, of_evaluated = (
        gateway.journal.calls.of_episode(each["episode_id"]) for each in (begun, evaluated)
    )
    shown = [
        call.completions[0]
        for call in episode_calls([*of_trained, *of_evaluated], start=0, limit=4).items
    ]
    plain, tempered = shown[:2]
    assert plain.raw_logprobs == plain.logprobs
    assert tempered.raw_logprobs == pytest.approx([logprob - 1.5 for logprob in tempered.logprobs])
    plain, tempered = shown[2:]
    assert (plain.raw_logprobs, tempered.raw_logprobs) == (plain.logprobs, None)
    (kept,) = gateway.journal.database.rows("SELECT call_id FROM raw_logprobs")
    assert kept["call_id"] == of_trained[1].id, "equal ones are kept once"


async def test_each_call_keeps_the_temperature_and_the_limit_that_it_was_sampled_with(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path, temperature=0.7) as gateway:
        begun = await gateway.begin()
        await gateway.chat(begun)
        await gateway.chat(begun, temperature=1.3, content="again", max_tokens=3)
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert [call.options["sampling"] for call in calls] == [
        {"max_tokens": 32, "temperature": 0.7, "top_p": 1.0},
        {"max_tokens": 3, "temperature": 1.3, "top_p": 1.0},
    ]
    assert [segment.temperature for segment in agents_of(calls)[None]] == [0.7, 1.3]
