"""An OpenAI endpoint on this machine whose model is a fixed player, for the dry run: no key, no
GPU, no server.

It tokenizes into words, so what merges with what is that of the agent's own conversation, not of a
tokenizer.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from answerer import CATEGORIES
from search import nouns_of


@dataclass
class Recorded:
    """One call: its tokens, and the call of the same game whose tokens it goes on with, if there is
    one.
    """

    prompt: list[str]
    reply: list[str]
    extends: int | None


@dataclass
class Player:
    """``calls`` of each game, by the key that the game's client was given."""

    base_url: str = ""
    calls: dict[str, list[Recorded]] = field(default_factory=dict)

    def record(self, key: str, messages: list[dict[str, Any]], said: dict[str, Any]) -> None:
        """Keep a call; it extends the latest one whose prompt and reply it begins with."""
        before, prompt = (
            self.calls.setdefault(key, []),
            [word for each in messages for word in words(each)],
        )
        whole = [(number, call.prompt + call.reply) for number, call in enumerate(before)]
        extended = [number for number, tokens in whole if prompt[: len(tokens)] == tokens]
        before.append(Recorded(prompt, words(said), extended[-1] if extended else None))


def words(message: dict[str, Any]) -> list[str]:
    """A message in tokens: its role, its words, its tool calls."""
    said = [call["function"]["arguments"] for call in message.get("tool_calls") or []]
    return [
        f"<{message['role']}>",
        *re.findall(r"\S+", f"{message.get('content') or ''} {' '.join(said)}"),
    ]


def reply_to(messages: list[dict[str, Any]], *, has_tool: bool) -> dict[str, Any]:
    """Asks for each category until one is right, searches for its nouns, then names them one after
    another.
    """
    said = "\n".join(str(message.get("content") or "") for message in messages)
    known = re.findall(r"an? (\w+)\?\s+(?:Answer: )?(yes|no|n/a)", said)
    category = next(
        (word for word, answer in known if answer == "yes" and word in CATEGORIES), None
    )
    if category is None:
        left = [each for each in CATEGORIES if each not in [word for word, _ in known]]
        return {"role": "assistant", "content": f"Is it {with_article(left[0])}?"}
    if has_tool and f'"{category}"' not in json.dumps(
        [m.get("tool_calls") for m in messages]
    ).replace("\\", ""):
        arguments = json.dumps({"query": category})
        call = {
            "id": f"call_{len(messages)}",
            "type": "function",
            "function": {"name": "search", "arguments": arguments},
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    noun = next(noun for noun in nouns_of(category) if f" {noun}?" not in said)
    return {"role": "assistant", "content": f"Is it {with_article(noun)}?"}


def with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


@contextmanager
def canned_player() -> Iterator[Player]:
    """A player that is served on loopback until the block ends."""
    player, lock = Player(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = reply_to(body["messages"], has_tool=bool(body.get("tools")))
            with lock:
                player.record(self.headers["Authorization"].split()[-1], body["messages"], said)
            choice = {
                "index": 0,
                "message": said,
                "finish_reason": "tool_calls" if said["content"] is None else "stop",
            }
            answer = {
                "id": "chatcmpl-0",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
            }
            usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
            content = json.dumps(answer | {"choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        player.base_url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield player
        finally:
            server.shutdown()
