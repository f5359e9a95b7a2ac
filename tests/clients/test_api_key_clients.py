"""The openai and anthropic packages with an API key: server and gateway are real, the engine is a
fake.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from clients.outside_agents import ENVIRONMENT, PROGRAM_S, PROGRAMS, VENV, call_text

from api.gateway_client import client_close
from console.asgi import application
from console.sessions.models import Session
from console.sessions.runtime.leases import relay_key
from console.users.models import Project, User
from gpu_runtime.gateway.app import serve
from support.factories import BASE_MODEL, key_make
from support.fakes import FakeEngine
from support.light_tokenizer import LightTokenizer
from support.programs import program_output
from support.tinker_client import Client
from support.tinker_harness import Wire, opening
from support.tinker_rows import checkpoint_store
from support.tiny_tokenizers import build_tokenizer

pytestmark = pytest.mark.django_db(transaction=True)
ASKS_PARIS, ASKS_ROME = (
    call_text("get_weather", city="Paris"),
    call_text("get_weather", city="Rome"),
)
PARIS, ROME = "It is sunny in Paris.", "It is as sunny in Rome, and as warm."


@dataclass
class Served:
    """A server and a runtime that serves a saved sampler at ``path``."""

    url: str
    secret: str
    path: str
    wire: Wire
    words: FakeEngine

    async def program(
        self, name: str, base_url: str, *arguments: str, folder: Path
    ) -> dict[str, Any]:
        """What a program of ``programs`` printed last."""
        out = await program_output(
            str(VENV / "bin" / "python"), str(PROGRAMS / f"{name}.py"), self.url + base_url, self.secret, *arguments,
            cwd=folder, env=ENVIRONMENT | {"HOME": str(folder), "MODEL": self.path}, deadline_s=PROGRAM_S,
        )  # fmt: skip
        return json.loads(out.splitlines()[-1])


@pytest.fixture
async def served(project: Project, alice: User, tmp_path: Path) -> AsyncIterator[Served]:
    client = Client(await sync_to_async(key_make)(project, alice))
    made = await client.model(await client.session())
    session_id = made["request_id"].partition("|")[0]
    stored = await sync_to_async(checkpoint_store)(made["model_id"], "final", "sampler_weights")
    build_tokenizer(tmp_path / "tokenizer", "chatml")
    words = FakeEngine(LightTokenizer(tmp_path / "tokenizer"), context_length=8192)
    key = relay_key(session_id=session_id, lease_sha256="")
    async with opening(tmp_path)(words=words, relay_key=key) as wire:
        adapter = wire.store.folder / stored.checkpoint_id
        adapter.mkdir(parents=True)
        (adapter / "adapter.json").write_text('"trained"')
        async with serve(wire.app) as runtime, serve(application) as server:
            await Session.objects.filter(id=session_id).aupdate(
                state="ready", address=runtime, lease_sha256=""
            )
            path = f"tinker://{made['model_id']}/sampler_weights/final"
            yield Served(f"http://{server}", client.secret, path, wire, words)
            await client_close()


def prompts(served: Served) -> list[str]:
    return [
        served.words.tokenizer.decode(seen.prompt_ids, special=True)
        for seen in served.words.requests
    ]


async def test_the_openai_package_samples_a_tinker_path_with_tools_and_streams(
    served: Served, tmp_path: Path
) -> None:
    served.words.say(
        ASKS_PARIS, PARIS, f"let me see\n{ASKS_ROME}", ROME, '{"city": "Paris", "degrees": 21}'
    )
    output = await served.program("openai_package", "/oai/api/v1", "chat", folder=tmp_path)
    assert {BASE_MODEL, served.path} <= set(output["models"])
    assert (output["answer"], output["finish_reason"], output["asked"]) == (PARIS, "stop", ["Rome"])
    assert "".join(output["pieces"]) == f"let me see{ROME}" and len(output["pieces"]) > 5
    assert (
        output["parsed"] == {"city": "Paris", "degrees": 21}
        and served.words.requests[4].options.json_schema
    )
    assert all("get_weather" in prompt for prompt in prompts(served)[:4]), (
        "the model reads of the tools"
    )


async def test_the_anthropic_package_samples_a_tinker_path_with_tools_and_streams(
    served: Served, tmp_path: Path
) -> None:
    served.words.say(ASKS_PARIS, PARIS, f"let me see\n{ASKS_ROME}", ROME, ASKS_PARIS, PARIS)
    # The program takes the end of OpenAI's base_url off; what is left is Anthropic's.
    output = await served.program("anthropic_package", "/anthropic/api/v1", folder=tmp_path)
    assert output["answer"] == output["by_runner"] == PARIS
    assert "".join(output["pieces"]) == f"let me see{ROME}"


async def test_with_the_openai_base_url_of_episodes_a_key_samples_too(served: Served) -> None:
    """The client of this environment, for log-probabilities."""
    from openai import AsyncOpenAI, NotFoundError

    served.words.say(PARIS)
    async with AsyncOpenAI(
        base_url=f"{served.url}/openai/v1", api_key=served.secret, max_retries=0
    ) as client:
        asked = {
            "messages": [{"role": "user", "content": "hello"}],
            "logprobs": True,
            "top_logprobs": 2,
        }
        answer = await client.chat.completions.create(model=served.path, **asked)
        content = answer.choices[0].logprobs.content
        assert answer.choices[0].message.content == PARIS and answer.model == served.path
        assert [token.logprob for token in content] == served.words.requests[0].logprobs
        assert all(len(token.top_logprobs) == 2 for token in content)
        with pytest.raises(NotFoundError, match="There is no checkpoint"):
            await client.chat.completions.create(
                model=served.path.replace("final", "none"), **asked
            )
    assert served.wire.journal.episodes.page(limit=1) == [], (
        "nothing is kept, nothing can be trained"
    )
