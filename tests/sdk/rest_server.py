"""A control plane by hand: speaks the REST agreements over real sockets, and fails, drops and restarts when told."""

import contextlib
import hashlib
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tinkerscript.wire.calls import CallView, EpisodeCalls, EpisodeReport
from tinkerscript.wire.checkpoints import CheckpointCreate, CheckpointDownload, CheckpointView, DownloadFile
from tinkerscript.wire.episodes import (
    EpisodeAbandon,
    EpisodeBegin,
    EpisodeBegun,
    EpisodeEnd,
    EpisodeExport,
    EpisodeFile,
    EpisodeView,
)
from tinkerscript.wire.events import Event, EventPage
from tinkerscript.wire.sessions import Accounting, SessionCreate, SessionList, SessionView

API_KEY = "tml-test-key"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


@dataclass
class Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Drop(Exception):
    """Close the connection without an answer."""


@dataclass
class Fault:
    """What happens to the next ``times`` requests whose "METHOD path" matches ``pattern``.

    ``after``: the request is carried out first and its answer is lost.
    """

    pattern: str
    times: int
    answer: Answer | None = None  # None: the connection is dropped
    after: bool = False


def error(status: int, code: str, message: str = "told to fail", hint: str = "", details: Any = None) -> Answer:
    body = {
        "error": {"code": code, "message": message, "hint": hint, "details": details or {}},
        "request_id": "req_test",
    }
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def not_ready(state: str = "loading", position: int | None = None) -> Answer:
    answer = error(503, "session_not_ready", "not ready", details={"state": state, "queue_position": position})
    answer.headers["Retry-After"] = "0"
    return answer


def wait_until(true: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Wait for a condition; a test that waits in vain fails with it."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.005)


class RestServer:
    """State survives stop() and start(), as a database would; the port stays the same."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionView] = {}
        self.episodes: dict[str, EpisodeView] = {}
        self.ended: dict[str, EpisodeEnd] = {}
        self.checkpoints: dict[str, CheckpointView] = {}
        self.record: list[Event] = []
        self.files: dict[str, bytes] = {"config.json": b'{"a": 1}', "model.safetensors": bytes(range(256)) * 4000}
        self.parts: list[bytes] = []  # of the archive of episodes
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.first_state = "ready"
        self.stop_leads_to = "stopped"
        self.idle_timeout_s = 600.0
        self.calls_per_episode = 1
        self.calls: list[CallView] = []  # of every episode
        self.signature = 1  # a URL signed with another one answers 403
        self.store: Callable[[str, bytes, Request], Answer] | None = None
        self.checkpoint_states = ["requested", "uploading", "committed"]
        self._answers: dict[str, Answer] = {}
        self._ids = itertools.count(1)
        self._changed = threading.Condition(threading.RLock())
        self._http: ThreadingHTTPServer | None = None
        self._sockets: set[socket.socket] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        rest = self

        class Handler(_Handler):
            server_state = rest

        ThreadingHTTPServer.allow_reuse_address = True
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """As a killed process: the port closes and every connection breaks."""
        if self._http is None:
            return
        self._http.shutdown()
        self._http.server_close()
        self._http = None
        for connection in list(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with self._changed:
            self._changed.notify_all()

    def seen(self, pattern: str) -> list[Request]:
        return [r for r in list(self.requests) if re.fullmatch(pattern, f"{r.method} {r.path}")]

    def fail(self, pattern: str, times: int = 1, answer: Answer | None = None, after: bool = False) -> None:
        self.faults.append(Fault(pattern, times, answer, after))

    def set_state(self, session_id: str, state: str, **fields: Any) -> None:
        with self._changed:
            old = self.sessions[session_id]
            self.sessions[session_id] = SessionView.model_validate({**old.model_dump(), "state": state, **fields})
            self.add_event("state", {"from": old.state.value, "to": state, "phase": "", "reason": ""})

    def add_event(self, kind: str, data: dict[str, Any]) -> None:
        with self._changed:
            self.record.append(Event(cursor=len(self.record) + 1, kind=kind, at=NOW, data=data))
            self._changed.notify_all()

    def answer(self, request: Request) -> Answer:
        with self._changed:
            self.requests.append(request)
            fault = self._next_fault(request)
        if fault is not None and not fault.after:
            if fault.answer is None:
                raise Drop
            return fault.answer
        result = self._once(request)
        if fault is not None:
            raise Drop
        return result

    def _next_fault(self, request: Request) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and re.fullmatch(fault.pattern, f"{request.method} {request.path}"):
                fault.times -= 1
                return fault
        return None

    def _once(self, request: Request) -> Answer:
        """A POST that was answered is not carried out again under the same key."""
        if request.path.startswith("/store/"):
            return self._file(request)
        if request.path == "/openai/v1/models" and request.headers["authorization"].startswith("Bearer tml-ep-"):
            return Answer(200, b'{"object": "list", "data": []}', {"Content-Type": "application/json"})
        if request.headers.get("authorization") != f"Bearer {API_KEY}":
            return error(401, "unauthenticated", "This API key is unknown.", "Make one in the console.")
        if request.path.endswith("/events"):
            return self._events(request)
        with self._changed:
            if request.method == "POST":
                if not request.key:
                    return error(400, "invalid_request", "no Idempotency-Key")
                if request.key not in self._answers:
                    self._answers[request.key] = self._route(request)
                return self._answers[request.key]
            return self._route(request)

    def _route(self, request: Request) -> Answer:
        for pattern, handle in ROUTES.items():
            if found := re.fullmatch(pattern, f"{request.method} {request.path}"):
                if found.groups() and found[1] not in self.sessions:
                    return error(404, "not_found", "no such session")
                return handle(self, request, *found.groups())
        return error(404, "not_found", request.path)

    def _create(self, request: Request) -> Answer:
        wanted = SessionCreate.model_validate_json(request.body)
        if wanted.base_model == "no-such-model":
            return error(400, "unknown_base_model", "unknown base model", "Known: SmolLM2", {"known": ["SmolLM2"]})
        view = SessionView(
            id=f"ses_{next(self._ids)}",
            project_id="prj_1",
            name=wanted.name,
            base_model=wanted.base_model,
            state=self.first_state,
            queue_position=2 if self.first_state == "queued" else None,
            config=wanted.config,
            created_at=NOW,
            updated_at=NOW,
        )
        self.sessions[view.id] = view
        return reply(201, view)

    def _list(self, request: Request) -> Answer:
        views = list(self.sessions.values())[::-1]
        start = int(request.query.get("cursor", 0))
        more = str(start + 2) if start + 2 < len(views) else None
        return reply(200, SessionList(items=views[start : start + 2], next_cursor=more))

    def _show(self, request: Request, session_id: str) -> Answer:
        return reply(200, self.sessions[session_id])

    def _stop(self, request: Request, session_id: str) -> Answer:
        if not self.sessions[session_id].state.is_terminal:
            self.set_state(session_id, self.stop_leads_to)
        return reply(200, self.sessions[session_id])

    def _events(self, request: Request) -> Answer:
        after, kind = int(request.query.get("after", 0)), request.query.get("kind")
        deadline = time.monotonic() + float(request.query.get("wait_s", 0))
        with self._changed:
            while True:
                items = [e for e in self.record if e.cursor > after and (kind is None or e.kind == kind)][:3]
                left = deadline - time.monotonic()
                if items or left <= 0 or self._http is None:
                    break
                self._changed.wait(left)
        return reply(200, EventPage(items=items, next_cursor=items[-1].cursor if items else after))

    def _begin(self, request: Request, session_id: str) -> Answer:
        wanted = EpisodeBegin.model_validate_json(request.body)
        if wanted.supersedes in self.episodes:
            self._close(wanted.supersedes, state="abandoned", reason="superseded")
        episode_id = f"ep_{next(self._ids)}"
        self.episodes[episode_id] = EpisodeView(
            episode_id=episode_id, task=wanted.task, group_key=wanted.task, state="open", eval=wanted.eval, begun_at=1.0
        )
        return reply(
            201,
            EpisodeBegun(
                episode_id=episode_id,
                api_key=f"tml-ep-{episode_id}",
                base_url=f"{self.url}/openai/v1",
                model="SmolLM2",
                policy_version=3,
                idle_timeout_s=self.idle_timeout_s,
                deadline_s=3600,
            ),
        )

    def _end(self, request: Request, session_id: str, episode_id: str) -> Answer:
        wanted = EpisodeEnd.model_validate_json(request.body)
        episode = self.episodes.get(episode_id)
        if episode is None:
            return error(404, "not_found", "no such episode")
        if episode.state != "open" and self.ended.get(episode_id) != wanted:
            return error(410, "episode_closed", "the episode is over")
        if self.calls_per_episode == 0:
            return error(422, "empty_episode", "no LLM call was captured")
        self.ended[episode_id] = wanted
        return self._close(episode_id, state="completed", fate="accepted", reward=wanted.output.reward)

    def _abandon(self, request: Request, session_id: str, episode_id: str) -> Answer:
        reason = EpisodeAbandon.model_validate_json(request.body).reason
        if self.episodes[episode_id].state != "open":
            return error(410, "episode_closed", "the episode is over")
        return self._close(episode_id, state="abandoned", reason=reason)

    def _close(self, episode_id: str, **fields: Any) -> Answer:
        self.episodes[episode_id] = EpisodeView.model_validate({**self.episodes[episode_id].model_dump(), **fields})
        return reply(200, self.episodes[episode_id])

    def _beat(self, request: Request, session_id: str, episode_id: str) -> Answer:
        if self.episodes[episode_id].state != "open":
            return error(410, "episode_closed", "the episode is over")
        return reply(200, self.episodes[episode_id])

    def _episode_list(self, request: Request, session_id: str) -> Answer:
        items = [e.model_dump() for e in self.episodes.values()][::-1]
        start = int(request.query.get("cursor", 0))
        more = str(start + 2) if start + 2 < len(items) else None
        return Answer(200, json.dumps({"items": items[start : start + 2], "next_cursor": more}).encode())

    def _episode_calls(self, request: Request, session_id: str, episode_id: str) -> Answer:
        start = int(request.query.get("cursor", 0))
        more = str(start + 2) if start + 2 < len(self.calls) else None
        counts = {"calls": len(self.calls), "cancelled_calls": 0, "completions": 0, "timelines": 1, "merged_share": 0.5}
        report = EpisodeReport(**counts, agents=[], drift=[])
        return reply(200, EpisodeCalls(report=report, items=self.calls[start : start + 2], next_cursor=more))

    def _accounting(self, request: Request, session_id: str) -> Answer:
        states = [e.state.value for e in self.episodes.values()]
        counts = {"open": states.count("open"), "waiting": states.count("completed")}
        return reply(200, Accounting(begun=len(states), abandoned=states.count("abandoned"), **counts))

    def _checkpoint_create(self, request: Request, session_id: str) -> Answer:
        kind = CheckpointCreate.model_validate_json(request.body).kind
        made = CheckpointView(
            id=f"ckp_{next(self._ids)}", session_id=session_id, kind=kind, state="requested", step=7, created_at=NOW
        )
        self.checkpoints = {made.id: made, **self.checkpoints}
        return reply(202, made)

    def _checkpoint_list(self, request: Request, session_id: str) -> Answer:
        return Answer(
            200, json.dumps({"items": [c.model_dump(mode="json") for c in self.checkpoints.values()]}).encode()
        )

    def _checkpoint_show(self, request: Request, session_id: str, checkpoint_id: str) -> Answer:
        """Each look moves it one state on."""
        old = self.checkpoints[checkpoint_id]
        at = self.checkpoint_states.index(old.state) + 1 if old.state in self.checkpoint_states else 0
        state = self.checkpoint_states[min(at, len(self.checkpoint_states) - 1)]
        failure = "the disk is on fire" if state == "failed" else ""
        new = CheckpointView.model_validate({**old.model_dump(), "state": state, "failure": failure})
        self.checkpoints[checkpoint_id] = new
        return reply(200, new)

    def _download(self, request: Request, session_id: str, checkpoint_id: str) -> Answer:
        files = [
            DownloadFile(
                path=path,
                size_bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                url=f"{self.url}/store/{path}?sig={self.signature}",
            )
            for path, data in self.files.items()
        ]
        expires_at = NOW + timedelta(hours=1)
        return reply(200, CheckpointDownload(checkpoint_id=checkpoint_id, step=7, files=files, expires_at=expires_at))

    def _export(self, request: Request, session_id: str) -> Answer:
        if not self.parts:
            return error(409, "conflict", "No episode of this session has been archived yet.")
        files = [
            EpisodeFile(
                part=number,
                episodes=2,
                path=part_name(number),
                size_bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                url=f"{self.url}/store/{part_name(number)}?sig={self.signature}",
            )
            for number, data in enumerate(self.parts, start=1)
        ]
        expires_at, episodes = NOW + timedelta(hours=1), 2 * len(files)
        return reply(200, EpisodeExport(session_id=session_id, episodes=episodes, files=files, expires_at=expires_at))

    def _file(self, request: Request) -> Answer:
        """The object store: no bearer token may reach it, expired signatures answer 403, ranges are honoured."""
        if "authorization" in request.headers:
            return Answer(400, b"two ways of authentication")
        if request.query.get("sig") != str(self.signature):
            return Answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        parts = {part_name(number): data for number, data in enumerate(self.parts, start=1)}
        data = (self.files | parts)[request.path.removeprefix("/store/")]
        if self.store is not None:
            return self.store(request.path.removeprefix("/store/"), data, request)
        return ranged(data, request)


def part_name(number: int) -> str:
    return f"part-{number:06d}.parquet"


def ranged(data: bytes, request: Request) -> Answer:
    found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
    if not found:
        return Answer(200, data)
    start = int(found[1])
    headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
    return Answer(206, data[start:], headers)


def reply(status: int, message: Any) -> Answer:
    return Answer(status, message.model_dump_json().encode(), {"Content-Type": "application/json"})


S = r"/v1/sessions/(\w+)"
ROUTES: dict[str, Callable[..., Answer]] = {
    r"POST /v1/sessions": RestServer._create,
    r"GET /v1/sessions": RestServer._list,
    rf"GET {S}": RestServer._show,
    rf"POST {S}/stop": RestServer._stop,
    rf"POST {S}/episodes": RestServer._begin,
    rf"GET {S}/episodes": RestServer._episode_list,
    rf"GET {S}/episodes/export": RestServer._export,
    rf"POST {S}/episodes/(\w+)/end": RestServer._end,
    rf"POST {S}/episodes/(\w+)/abandon": RestServer._abandon,
    rf"POST {S}/episodes/(\w+)/heartbeat": RestServer._beat,
    rf"GET {S}/episodes/(\w+)/calls": RestServer._episode_calls,
    rf"GET {S}/accounting": RestServer._accounting,
    rf"POST {S}/checkpoints": RestServer._checkpoint_create,
    rf"GET {S}/checkpoints": RestServer._checkpoint_list,
    rf"GET {S}/checkpoints/(\w+)": RestServer._checkpoint_show,
    rf"GET {S}/checkpoints/(\w+)/download": RestServer._download,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet
    server_state: RestServer

    def setup(self) -> None:
        super().setup()
        self.server_state._sockets.add(self.connection)

    def finish(self) -> None:
        self.server_state._sockets.discard(self.connection)
        with contextlib.suppress(OSError):  # what was left to send when the connection broke
            super().finish()

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the client, or stop(), broke the connection
            self.close_connection = True

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(
            method=self.command,
            path=url.path,
            query={name: values[0] for name, values in parse_qs(url.query).items()},
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )
        try:
            answer = self.server_state.answer(request)
        except Drop:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        except Exception as failure:  # noqa: BLE001 - a bug in a test; a dropped connection would only be retried
            answer = error(500, "internal", f"the fake server failed: {failure!r}")
        self.send_response(answer.status)
        announced = int(answer.headers.pop("X-Announce-Length", len(answer.body)))
        for name, value in {**answer.headers, "Content-Length": str(announced)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
        if announced != len(answer.body):  # a body cut short
            self.close_connection = True

    do_GET = do_POST = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
