"""session.update: one request with what is given, and refusals before it."""

import json

import pytest
from sdk.http_parts import Answer
from sdk.rest_server import RestServer, reply

from sdk import rest_server
from tinkerscript import AsyncTinkerScript, InvalidRequest, UnknownOption
from tinkerscript.wire.training.changes import ConfigChange


@pytest.fixture
def asked(server, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """The body of each request."""
    bodies: list[dict[str, float]] = []

    def answer(self: RestServer, request, session_id: str) -> Answer:
        bodies.append(body := json.loads(request.body))
        return reply(200, ConfigChange(seq=1, first_step=3, options=body, was={}, at=1.0))

    monkeypatch.setitem(rest_server.ROUTES, rf"PATCH {rest_server.S}/config", answer)
    return bodies


async def test_what_is_given_is_sent_and_the_first_step_comes_back(session, server, asked) -> None:
    assert session.update(learning_rate=2e-6).first_step == 3
    beside = AsyncTinkerScript(
        session_id=session.id, base_url=server.url, api_key=rest_server.API_KEY
    )
    async with beside:
        assert (await beside.update(kl_coef=0, learning_rate=1e-6)).options["kl_coef"] == 0
    assert asked == [{"learning_rate": 2e-6}, {"kl_coef": 0.0, "learning_rate": 1e-6}]


def test_options_that_stay_are_refused_with_those_that_can_change(session, asked) -> None:
    for options, words in (
        ({"grpo_n": 4}, "learning_rate and kl_coef can"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": None}, "must have a value"),
        ({}, "nothing to change"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            session.update(**options)
    with pytest.raises(UnknownOption, match="rate") as refusal:
        session.update(rate=1e-6)
    assert "learning_rate, kl_coef" in refusal.value.hint
    assert asked == []
