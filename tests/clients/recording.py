"""Records what a team of agents asks, call by call, so that the run can be played again without
their packages.

``PYTHONPATH=.:sdk:tests .venv/bin/python -m clients.recording`` writes
``recordings/autogen_team.json`` anew.
"""

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from clients.outside_agents import Run, call_text, run_program

from gpu_runtime.gateway.openai import routes as openai
from support.gateway_harness import Gateway, running_gateway

FILE = Path(__file__).with_name("recordings") / "autogen_team.json"
PARIS, POEM = "It is sunny in Paris.", "Sun on the Seine."
LONGER_POEM = "Sun on the Seine, and no rain."
ANSWERS = [
    *("forecaster", call_text("get_weather", city="Paris"), PARIS),
    *("writer", POEM),
    *("critic", "Too short."),
    *("writer", LONGER_POEM),
    *("critic", "APPROVE"),
]
ROOM = {"max_context_length": 32_768, "max_tokens": 512}
CALL_ID = re.compile("call_[0-9a-f]{24}")


async def record(gateway: Gateway, folder: Path) -> tuple[Run, list[dict[str, Any]]]:
    """Run the team; each call's agent, body and answer. Ids of tool calls are numbered: they differ
    from run to run.
    """
    bodies: list[bytes] = []
    read = openai.read_body

    async def read_and_keep(request: Any) -> bytes:
        bodies.append(await read(request))
        return bodies[-1]

    gateway.engine.say(*ANSWERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai, "read_body", read_and_keep)
        run = await run_program(gateway, "autogen_team", folder=folder)
    calls = [
        {"agent": call.agent, "body": json.loads(body), "answer": answer}
        for call, body, answer in zip(run.calls, bodies, ANSWERS, strict=True)
    ]
    return run, json.loads(_numbered(json.dumps(calls)))


def _numbered(text: str) -> str:
    names: dict[str, str] = {}
    return CALL_ID.sub(lambda found: names.setdefault(found[0], f"call_{len(names)}"), text)


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        async with running_gateway(Path(name), **ROOM) as gateway:
            run, calls = await record(gateway, Path(name))
    lines = ",\n".join(json.dumps(call) for call in calls)  # one call, one line: what changes shows
    FILE.write_text(f'{{"timelines": {json.dumps(run.timelines)},\n"calls": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    asyncio.run(main())
