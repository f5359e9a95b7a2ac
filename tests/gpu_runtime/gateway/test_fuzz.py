"""Whatever is sent, the answer is a proper one and the episode lives on."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gateway_harness import MODEL, running_gateway
from support.generated import any_speed_shared

pytestmark = pytest.mark.system

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
OPTIONS = [
    *(
        "max_tokens",
        "temperature",
        "top_p",
        "n",
        "stop",
        "seed",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
    ),
    *(
        "response_format",
        "stream_options",
        "metadata",
        "user",
        "top_k",
        "logit_bias",
        "return_token_ids",
    ),
    *("parallel_tool_calls", "max_completion_tokens", "functions"),
]
parts = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "image_url", "x"]), "text": junk}),
    max_size=2,
)
message = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool", "x"]),
        "content": st.text(max_size=20) | parts | junk,
    },
    optional={"tool_calls": junk, "tool_call_id": junk, "name": junk},
)
chat = st.fixed_dictionaries(
    {"model": st.just(MODEL), "messages": st.lists(message, max_size=4) | junk},
    optional={name: junk for name in OPTIONS},
)


@settings(any_speed_shared, max_examples=12)
@given(bodies=st.lists(chat, min_size=8, max_size=8))
async def test_chat_bodies_are_served_or_refused_by_name(tmp_path_factory, bodies: list) -> None:
    async with running_gateway(_folder(tmp_path_factory), max_staleness=1) as gateway:
        begun = await gateway.begin()
        headers = {"Authorization": f"Bearer {begun['api_key']}"}
        for body in bodies:
            answer = await gateway.http.post(
                "/v1/chat/completions", content=json.dumps(body), headers=headers
            )
            assert answer.status_code in (200, 400), answer.text
            if answer.status_code == 400:
                assert answer.json()["error"]["message"]
        assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
        assert gateway.faults == []


def _folder(tmp_path_factory) -> Path:
    """One tokenizer for all examples, a fresh journal for each."""
    shared = tmp_path_factory.getbasetemp() / "fuzz"
    shared.mkdir(exist_ok=True)
    for old in shared.glob("journal*"):
        old.unlink()
    return shared
