"""The client packages themselves, in whatever version they install: each runs a tool loop and
streams another turn.
"""

from pathlib import Path

from clients.outside_agents import call_text, run_program

from support.gateway_harness import MODEL, SESSION, Gateway

ASKS_PARIS, ASKS_ROME = (
    call_text("get_weather", city="Paris"),
    call_text("get_weather", city="Rome"),
)
PARIS, ROME = "It is sunny in Paris.", "It is as sunny in Rome, and as warm."
TYPED = '{"city": "Paris", "degrees": 21}'
REPORT = {"city": "Paris", "degrees": 21}


def tool_results(gateway: Gateway) -> list[str]:
    """What of each prompt stands in its last tool turn."""
    texts = [
        gateway.renderer.decode(seen.prompt_ids, special=True) for seen in gateway.engine.requests
    ]
    return [
        text.rpartition("<|im_start|>tool\n")[2].partition("<|im_end|>")[0]
        for text in texts
        if "tool\n" in text
    ]


async def test_openai_chat(gateway: Gateway, tmp_path: Path) -> None:
    gateway.engine.say(ASKS_PARIS, PARIS, f"let me see\n{ASKS_ROME}", ROME, TYPED)
    run = await run_program(gateway, "openai_package", "chat", folder=tmp_path)
    assert run.output["models"] == [MODEL, SESSION]
    assert (run.output["answer"], run.output["finish_reason"]) == (PARIS, "stop")
    assert "".join(run.output["pieces"]) == f"let me see{ROME}"
    assert len(run.output["pieces"]) > 5
    assert run.output["asked"] == ["Rome"]
    assert run.output["tokens"] == len(gateway.engine.requests[3].token_ids)
    assert run.output["parsed"] == REPORT
    assert run.timelines == [[0, 1, 2, 3], [4]]
    assert gateway.engine.requests[4].options.json_schema
    assert "Sunny in Rome, 21 degrees." in tool_results(gateway)


async def test_openai_responses(gateway: Gateway, tmp_path: Path) -> None:
    gateway.engine.say(f"{ASKS_PARIS}\n{ASKS_ROME}", PARIS, ROME, TYPED)
    run = await run_program(gateway, "openai_package", "responses", folder=tmp_path)
    assert "".join(run.output["pieces"]) == PARIS
    assert (run.output["answer"], run.output["parsed"]) == (ROME, REPORT)
    assert run.timelines == [[0, 1, 2], [3]]


async def test_anthropic(gateway: Gateway, tmp_path: Path) -> None:
    gateway.engine.say(ASKS_PARIS, PARIS, f"let me see\n{ASKS_ROME}", ROME, ASKS_PARIS, PARIS)
    run = await run_program(gateway, "anthropic_package", folder=tmp_path)
    assert run.output["answer"] == run.output["by_runner"] == PARIS
    assert "".join(run.output["pieces"]) == f"let me see{ROME}"
    # The runner describes its tool in words of its own: another prompt, another timeline.
    assert run.timelines == [[0, 1, 2, 3], [4, 5]]


async def test_litellm(gateway: Gateway, tmp_path: Path) -> None:
    turns = [ASKS_PARIS, PARIS, ASKS_ROME, ROME]
    gateway.engine.say(*turns, *turns, PARIS)
    run = await run_program(gateway, "litellm_package", folder=tmp_path)
    for dialect in ("openai", "anthropic"):
        assert run.output[dialect]["answer"] == PARIS
        assert "".join(run.output[dialect]["pieces"]) == ROME
    assert run.output["responses"] == PARIS
    assert run.timelines == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
