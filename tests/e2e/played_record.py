"""A run's record that a test plays to its page itself, over the page's own WebSocket."""

import json
import re
import time
from typing import Any

from playwright.sync_api import Page, WebSocketRoute

from tinkerscript.wire.reading.points import MEASURES

PLAYED_FROM = 1_000_000  # cursors of what is played, after those of the session's real record


def make_session(page: Page, name: str) -> str:
    """The id of a session that was made and stopped at once."""
    return page.evaluate(
        """async (name) => {
            const token = document.cookie.match(/csrftoken=([^;]+)/)[1];
            const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
            const { items } = await (await fetch("/v1/base-models")).json();
            const body = JSON.stringify({ base_model: items[0].name, name, priority: -100 });
            const { id } = await (await fetch("/v1/sessions", { method: "POST", headers, body })).json();
            await fetch(`/v1/sessions/${id}/stop`, { method: "POST", headers, body: "{}" });
            return id;
        }""",
        name,
    )


def metric(step: int, **other: Any) -> dict[str, Any]:
    fields: dict[str, Any] = dict.fromkeys(MEASURES, 0)
    fields |= {
        "metrics": {},
        "engine_gap_by_position": [0.01, 0.02, None],
        "engine_gap_by_probability": [0.03, 0.02, 0.01, None],
        "step": step,
        "reward_mean": step / 100,
        "reward_p10": 0.0,
        "reward_p90": 1.0,
        "groups": 4,
    } | other
    return {
        "cursor": PLAYED_FROM + step,
        "kind": "metric",
        "at": "2030-01-01T00:00:00Z",
        "data": fields,
    }


class Played:
    """The server's end of the page's live channel, held by the test."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._sockets: list[WebSocketRoute] = []
        page.route_web_socket(re.compile(r"/ws/v1/sessions/"), self._open)

    def _open(self, socket: WebSocketRoute) -> None:
        self._sockets.append(socket)

    def send(self, *items: dict[str, Any]) -> None:
        deadline = time.monotonic() + 60
        while not self._sockets:  # the page reads the history first
            assert time.monotonic() < deadline, "the page has opened no live channel"
            self._page.wait_for_timeout(20)
        self._sockets[-1].send(json.dumps({"items": items, "next_cursor": items[-1]["cursor"]}))
