"""An OpenAI endpoint on this machine that judges by a rule: for trying the example without a model
that judges well.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_WORDS = 32


def judged(asked: str) -> str:
    """Fewer words score higher; an answer of none, 0."""
    shown = re.split(r"\n\nCandidate (?=\d+:\n)", asked)[1:]
    words = [len(one.partition(":\n")[2].split()) for one in shown]
    scores = [max(0.0, 1 - count / MAX_WORDS) if count else 0.0 for count in words]
    return json.dumps(
        {"scores": [{"candidate": i, "score": score} for i, score in enumerate(scores, 1)]}
    )


class Endpoint(BaseHTTPRequestHandler):
    """POST /v1/chat/completions alone."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": judged(body["messages"][-1]["content"])}
        reply = json.dumps(
            {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@contextmanager
def stand_in() -> Iterator[str]:
    """Its base URL, for the length of a ``with`` block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
