"""A model is served without a trainer: SDK, server, relay and gateway are real, the engine is a
fake.
"""

import subprocess
import sys
from pathlib import Path

import anthropic
import httpx
import openai
import pytest
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer, until
from e2e.playing import play

import tinkerscript
from tinkerscript import Conflict, TinkerScript

MESSAGES = [{"role": "user", "content": "Tell me about rain."}]


@pytest.fixture
def at(loop_server: LoopServer) -> dict[str, str]:
    return {"base_url": loop_server.url, "api_key": loop_server.api_key}


def say(client: openai.OpenAI, model: str) -> str:
    answer = client.chat.completions.create(
        model=model, messages=MESSAGES, temperature=0, max_tokens=16
    )
    return answer.choices[0].message.content


def test_a_base_model_answers_in_both_dialects_sleeps_when_idle_and_wakes_at_a_call(
    loop_server: LoopServer, at: dict[str, str]
) -> None:
    with tinkerscript.serve(BASE_MODEL, name="asked", **at) as served, served.openai() as client:
        assert served.status().kind == "serving" and served.model == BASE_MODEL
        said = say(client, served.model)
        stream = client.chat.completions.create(
            model=served.id,
            messages=MESSAGES,
            temperature=0,
            max_tokens=16,
            stream=True,
            logprobs=True,
        )
        pieces = [chunk.choices[0] for chunk in stream]
        assert "".join(piece.delta.content or "" for piece in pieces) == said
        assert all(
            token.logprob <= 0
            for piece in pieces
            if piece.logprobs
            for token in piece.logprobs.content
        )
        with anthropic.Anthropic(
            base_url=served.anthropic_base_url, api_key=served.api_key
        ) as other:
            answer = other.messages.create(
                model=served.model, messages=MESSAGES, max_tokens=16, extra_body={"temperature": 0}
            )
            assert answer.content[0].text == said
        with openai.OpenAI(
            base_url=f"{loop_server.url}/oai/api/v1", api_key=loop_server.api_key
        ) as by_key:
            assert say(by_key, served.id) == say(by_key, BASE_MODEL) == said, (
                "no other runtime is started for it"
            )
        headers = {"Authorization": f"Bearer {loop_server.api_key}"}
        httpx.post(
            f"{loop_server.url}/v1/sessions/{served.id}/suspend", headers=headers, timeout=90
        ).raise_for_status()
        until(lambda: served.status().state == "suspended", "it is suspended")
        assert say(client, served.model) == said, "the call woke it"
        begun = httpx.post(
            f"{loop_server.url}/v1/sessions/{served.id}/episodes",
            json={},
            headers=headers,
            timeout=90,
        )
        assert begun.status_code == 409 and "serves a model" in begun.json()["error"]["message"]
        assert loop_server.get(f"/v1/sessions/{served.id}")["accounting"]["begun"] == 0
    until(
        lambda: loop_server.get(f"/v1/sessions/{served.id}")["state"] == "stopped",
        "the block stopped it",
    )
    with pytest.raises(openai.APIStatusError) as ended, served.openai(max_retries=0) as client:
        say(client, served.model)
    assert ended.value.status_code == 410
    usage = [row for row in loop_server.get("/v1/usage")["items"] if row["session_id"] == served.id]
    assert usage[0]["runtime_s"] > 0


def test_a_checkpoint_of_a_session_that_ended_answers_as_what_was_trained(
    loop_server: LoopServer, at: dict[str, str], tmp_path: Path
) -> None:
    remote: TinkerScript = loop_server.session()
    for task in ("sun", "moon"):
        play(remote, task, 4)
    tuned = remote.download_tuned_model(tmp_path / "tuned", progress=False)
    remote.close()
    said = {}
    for model in (BASE_MODEL, tuned):
        with tinkerscript.serve(model, **at) as served, served.openai() as client:
            said[served.model] = say(client, served.model)
            if model is tuned:
                view = served.status()
                assert (view.served_checkpoint_id, view.policy_version) == (tuned.checkpoint_id, 1)
                with pytest.raises(Conflict, match=served.id):
                    remote_delete(loop_server, remote.id)
    assert len(set(said.values())) == 2, "other weights, another answer"


def remote_delete(server: LoopServer, session_id: str) -> None:
    until(
        lambda: server.get(f"/v1/sessions/{session_id}")["state"] == "stopped", "its session ended"
    )
    headers = {"Authorization": f"Bearer {server.api_key}"}
    answer = httpx.delete(f"{server.url}/v1/sessions/{session_id}", headers=headers, timeout=90)
    if answer.status_code == 409:
        raise Conflict(answer.json()["error"]["message"])


def test_the_command_line_prints_an_address_and_a_key_that_work(loop_server: LoopServer) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tinkerscript", "serve", BASE_MODEL],
        env=loop_server.environment | {
            "TINKERSCRIPT_BASE_URL": loop_server.url, "TINKERSCRIPT_API_KEY": loop_server.api_key,
        },
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = dict(line.split("\t") for line in done.stdout.splitlines())
    try:
        with openai.OpenAI(base_url=told["base_url"], api_key=told["api_key"]) as client:
            assert say(client, told["model"])
    finally:
        headers = {"Authorization": f"Bearer {loop_server.api_key}"}
        httpx.post(
            f"{loop_server.url}/v1/sessions/{told['session']}/stop", headers=headers, timeout=90
        ).raise_for_status()
