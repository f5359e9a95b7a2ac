"""``python play.py PROGRAM BASE_URL API_KEY [BASE_URL API_KEY]... [-- PROGRAM ...]``: agents, each
at its addresses.

The agent of PROGRAM.py is played once at each of its addresses. The last line of output is a JSON
list of all answers, with {"error": ...} in the place of one that did not come. One process for
many: importing a framework takes seconds.
"""

import asyncio
import importlib
import inspect
import json
import sys
import traceback


def play(name: str, base_url: str, api_key: str) -> object:
    """The answer of one agent at one address."""
    try:
        answer = importlib.import_module(name).play(base_url, api_key)
        return str(asyncio.run(answer) if inspect.iscoroutine(answer) else answer)
    except Exception as error:  # noqa: BLE001 - the matrix shows it
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


answers, rest = [], sys.argv[1:]
while rest:
    end = rest.index("--") if "--" in rest else len(rest)
    (name, *addresses), rest = rest[:end], rest[end + 1 :]
    answers += [play(name, *pair) for pair in zip(addresses[::2], addresses[1::2], strict=True)]
print("\n" + json.dumps(answers))
