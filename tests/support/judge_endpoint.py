"""A judge's endpoint by hand: a chat completion whose text a function makes of the request's
messages.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answers = Callable[[list[dict[str, str]]], "str | int | bytes"]


@contextmanager
def judge_endpoint(answers: Answers) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its base URL and the bodies that it was sent. A number is returned as that HTTP status, bytes
    as they are.
    """
    seen: list[dict[str, Any]] = []

    class Endpoint(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append({**body, "authorization": self.headers["authorization"], "path": self.path})
            said = answers(body["messages"])
            status = said if isinstance(said, int) else 200
            reply = (
                said
                if isinstance(said, bytes)
                else json.dumps({"choices": [{"message": {"content": said}}]}).encode()
            )
            self.send_response(status)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
    finally:
        server.shutdown()
        server.server_close()


def shorter_is_better(messages: list[dict[str, str]]) -> str:
    """Scores by length, worst 0 and best 1, in the form that was asked for."""
    shown = messages[-1]["content"].split("\n\nCandidate ")[1:]
    lengths = [len(one.partition(":\n")[2]) for one in shown]
    scores = [1 - length / (max(lengths) or 1) for length in lengths]
    entries = [
        {"candidate": number, "why": "length", "score": score}
        for number, score in enumerate(scores, 1)
    ]
    return "Here it is:\n" + json.dumps({"scores": entries})
