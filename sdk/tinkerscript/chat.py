"""A conversation with a session's model in the terminal: one evaluated episode, of which nothing is
trained.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx

from .connection.http_client import http_client_for
from .episodes.episode import Episode
from .errors import InvalidRequest, ServerUnreachable

ANSWER_TIMEOUT_S = 600.0


class Chat:
    """``say(text)`` yields the model's answer piece by piece; the conversation goes on with it."""

    def __init__(self, episode: Episode) -> None:
        self._model = episode.model
        self._url = f"{episode.base_url}/chat/completions"
        self._headers = {"Authorization": f"Bearer {episode.api_key}"}
        self._http = http_client_for(episode.base_url)
        self._messages: list[dict[str, str]] = []

    def say(self, text: str) -> Iterator[str]:
        """Raises InvalidRequest with the server's words, such as those about a conversation that is
        too long.
        """
        messages = [*self._messages, {"role": "user", "content": text}]
        body = {"model": self._model, "messages": messages, "stream": True}
        answer = ""
        try:
            with self._http.stream(
                "POST", self._url, json=body, headers=self._headers, timeout=ANSWER_TIMEOUT_S
            ) as reply:
                if not reply.is_success:
                    raise InvalidRequest(_problem(reply.read(), reply.status_code))
                for piece in _pieces(reply.iter_lines()):
                    answer += piece
                    yield piece
        except httpx.RequestError as failure:
            raise ServerUnreachable(f"The answer broke off: {failure!r}") from failure
        self._messages = [*messages, {"role": "assistant", "content": answer}]

    def close(self) -> None:
        """End the connection."""
        self._http.close()


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    """The text of a stream of events, and the thoughts before it."""
    for line in lines:
        data = line.removeprefix("data: ")
        if data == line or data == "[DONE]":
            continue
        event: dict[str, Any] = json.loads(data)
        if "error" in event:
            raise InvalidRequest(str(event["error"].get("message", event["error"])))
        for choice in event.get("choices", []):
            delta = choice["delta"]
            yield (delta.get("reasoning_content") or "") + (delta.get("content") or "")


def _problem(body: bytes, status: int) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The server returned {status}."
