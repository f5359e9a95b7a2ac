#!/usr/bin/env python3
"""Firefox as a system's package has it, for Playwright: started in Firefox's place, with its
arguments.

Playwright speaks WebDriver BiDi to such a Firefox, and does two things that do not work with it.
It begins each context with a command that a release of long support does not have yet: that is
answered here, and what a page is asked to prefer stays as the browser has it. It types by setting a
field's value, which React takes for its own doing: each page types by the browser's command
instead. All else passes unchanged.
"""

import asyncio
import json
import shutil
import signal
import sys

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

PROGRAMS = ("firefox-esr", "firefox")
LISTENING = "WebDriver BiDi listening on "
NOT_THERE = "emulation.setMediaFeaturesOverride"
TYPING = {
    "id": 2**40,  # far from those that Playwright counts
    "method": "script.addPreloadScript",
    "params": {
        "functionDeclaration": """() => Object.defineProperty(window, "__pw_bidiInsertText", {
            get: () => (text) => { document.execCommand("insertText", false, text); },
            set: () => {},
        })"""
    },
}


def firefox_path() -> str | None:
    """Where the system's own Firefox is; None where it has none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


async def main(arguments: list[str]) -> int:
    """Run Firefox to its end; its status."""
    firefox = await asyncio.create_subprocess_exec(
        firefox_path() or PROGRAMS[0], *arguments, stderr=asyncio.subprocess.PIPE
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, firefox.terminate)
    address = ""
    async with serve(
        lambda client: relay(client, address), "127.0.0.1", 0, max_size=None
    ) as server:
        (port,) = {socket.getsockname()[1] for socket in server.sockets}
        async for line in firefox.stderr:
            told = line.decode(errors="replace").rstrip("\n")
            if told.startswith(LISTENING):
                address, told = told.removeprefix(LISTENING), f"{LISTENING}ws://127.0.0.1:{port}"
            print(told, file=sys.stderr, flush=True)
        return await firefox.wait()


async def relay(client: ServerConnection, address: str) -> None:
    """Playwright's commands to the Firefox at an address, and what it answers, to their end."""
    async with connect(address + client.request.path, max_size=None) as browser:
        answering = asyncio.create_task(answers(browser, client))
        async for message in client:
            asked = json.loads(message)
            if asked["method"] == NOT_THERE:
                answer = {"type": "success", "id": asked["id"], "result": {}}
                await client.send(json.dumps(answer))
                continue
            await browser.send(message)
            if asked["method"] == "session.subscribe":  # there is a session
                await browser.send(json.dumps(TYPING))
        answering.cancel()


async def answers(browser: ClientConnection, client: ServerConnection) -> None:
    async for message in browser:
        if json.loads(message).get("id") != TYPING["id"]:
            await client.send(message)
    await client.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
