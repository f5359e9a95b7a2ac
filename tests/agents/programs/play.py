"""``python play.py PROGRAM BASE_URL API_KEY [BASE_URL API_KEY]...``: the agent of PROGRAM.py, once at each address.

The last line of output is a JSON list of its answers, with {"error": ...} in the place of one that did not come. One
process for all addresses: importing a framework takes seconds.
"""

import asyncio
import importlib
import inspect
import json
import sys
import traceback

name, *addresses = sys.argv[1:]
play = importlib.import_module(name).play
answers = []
for base_url, api_key in zip(addresses[::2], addresses[1::2], strict=True):
    try:
        answer = play(base_url, api_key)
        answers.append(str(asyncio.run(answer) if inspect.iscoroutine(answer) else answer))
    except Exception as error:  # noqa: BLE001 - the matrix shows it
        traceback.print_exc()
        answers.append({"error": f"{type(error).__name__}: {error}"})
print("\n" + json.dumps(answers))
