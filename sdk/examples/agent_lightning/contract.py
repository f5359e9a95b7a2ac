"""Runs an agent written for Agent-lightning 1.0 in an episode, by its contract of three environment
variables.

AGL_OPENAI_BASE_URL and AGL_KEY are the episode's; AGL_EVENT_URL is on this machine and takes the
agent's rewards (``POST {"event_type": "reward", "data": {"value": 1.0}}``). Nothing of
Agent-lightning is needed or changed.
"""

import json
import math
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tinkerscript import WorkflowOutput

MAX_BODY = 1_000_000  # bytes of an event


def run(
    command: Sequence[str],
    episode: Any,
    *,
    timeout_s: float = 300.0,
    host: str = "127.0.0.1",
    public_url: str = "",
    **variables: str,
) -> WorkflowOutput:
    """The agent's reward, its last one where it sends several. ``variables`` are those of its task.

    An agent that the command starts elsewhere, in a container or on another machine, sends its
    reward to ``public_url`` (``"http://10.0.0.5:{port}"``, with the port that is listened on), and
    ``host`` is where: ``"0.0.0.0"``.

    Raises RuntimeError when it fails or sends no reward, TimeoutExpired when it does not end: the
    attempt is then abandoned and counted, never a reward of 0.
    """
    with events(episode.api_key, host, public_url) as (url, rewards):
        contract = {
            "AGL_OPENAI_BASE_URL": episode.base_url,
            "AGL_KEY": episode.api_key,
            "AGL_EVENT_URL": url,
        }
        ran = subprocess.run(
            command,
            env=os.environ | variables | contract,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    if ran.returncode != 0:
        raise RuntimeError(f"the agent ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    if not rewards:
        raise RuntimeError("the agent sent no reward to AGL_EVENT_URL")
    return WorkflowOutput(reward=rewards[-1])


@contextmanager
def events(
    key: str, host: str = "127.0.0.1", public_url: str = ""
) -> Iterator[tuple[str, list[float]]]:
    """The address that takes events under ``key``, and the rewards that came; other events are
    taken and not kept.
    """
    rewards: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), MAX_BODY))
            if self.headers.get("Authorization") != f"Bearer {key}":
                self._reply(401, {"detail": "another key"})
                return
            try:
                event = json.loads(body)
                if event["event_type"] == "reward":
                    rewards.append(reward_of(event["data"]["value"]))
            except (ValueError, TypeError, KeyError) as error:
                self._reply(422, {"detail": f"no event: {error!r}"})
                return
            self._reply(200, event)

        def _reply(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((host, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = (public_url or f"http://{host}:{{port}}").replace(
            "{port}", str(server.server_port)
        )
        try:
            yield f"{address.rstrip('/')}/events", rewards
        finally:
            server.shutdown()


def reward_of(value: Any) -> float:
    """A finite number; a text or a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"a reward is a finite number, not {value!r}")
    return float(value)
