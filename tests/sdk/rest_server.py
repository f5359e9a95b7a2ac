"""A control plane by hand: speaks the REST agreements over real sockets, and fails, drops and
restarts on demand.
"""

import contextlib
import hashlib
import itertools
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from typing import Any

from sdk.http_parts import Answer, Drop, Fault, Handler, Request, error, ranged, reply

from tinkerscript.wire.checkpoints import (
    CheckpointCreate,
    CheckpointDownload,
    CheckpointUpdate,
    CheckpointView,
    DownloadFile,
)
from tinkerscript.wire.episodes import (
    EpisodeAbandon,
    EpisodeAnnotation,
    EpisodeBegin,
    EpisodeBegun,
    EpisodeEnd,
    EpisodeExport,
    EpisodeFile,
    EpisodesHeartbeat,
    EpisodesHeartbeatResult,
    EpisodeView,
    SampleFate,
)
from tinkerscript.wire.events import Evaluation, Event, EventPage
from tinkerscript.wire.reading.calls import CallView, EpisodeCalls, EpisodeReport
from tinkerscript.wire.server import ServerView
from tinkerscript.wire.sessions import Accounting, SessionCreate, SessionList, SessionView
from tinkerscript.wire.version import VERSION

API_KEY = "tml-test-key"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class RestServer:
    """State survives stop() and start(), as a database would; the port stays the same."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionView] = {}
        self.episodes: dict[str, EpisodeView] = {}
        self.ended: dict[str, EpisodeEnd] = {}
        self.checkpoints: dict[str, CheckpointView] = {}
        self.record: list[Event] = []
        self.files: dict[str, bytes] = {
            "config.json": b'{"a": 1}',
            "model.safetensors": bytes(range(256)) * 4000,
        }
        self.parts: list[bytes] = []  # of the archive of episodes
        self.annotations: list[EpisodeAnnotation] = []
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.first_state = "ready"
        self.view: ServerView | None = ServerView(
            version=VERSION, minimum_client=VERSION, capabilities=[]
        )
        self.stop_leads_to = "stopped"
        self.idle_timeout_s = 600.0
        self.calls_per_episode = 1
        self.create_delay_s = 0.0
        self.hold_shows: threading.Event | None = None  # GET of a session waits for it
        self.checkpoint_step = 7
        self.places: int | None = None  # open episodes at once; a begin beyond waits for an end
        self.calls: list[CallView] = []  # of every episode
        self.signature = 1  # a URL signed with another one answers 403
        self.store: Callable[[str, bytes, Request], Answer] | None = None
        self.checkpoint_states = ["requested", "uploading", "committed"]
        self._answers: dict[str, Answer] = {}
        self._ids = itertools.count(1)
        self._changed = threading.Condition(threading.RLock())
        self._http: ThreadingHTTPServer | None = None
        self.sockets: set[socket.socket] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, tls: ssl.SSLContext | None = None) -> None:
        rest = self

        class OfThisServer(Handler):
            server_state = rest

        ThreadingHTTPServer.allow_reuse_address = True
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), OfThisServer)
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """As a killed process: the port closes and every connection breaks."""
        if self._http is None:
            return
        self._http.shutdown()
        self._http.server_close()
        self._http = None
        for connection in list(self.sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with self._changed:
            self._changed.notify_all()

    def seen(self, pattern: str) -> list[Request]:
        return [r for r in list(self.requests) if re.fullmatch(pattern, f"{r.method} {r.path}")]

    def beats(self, episode_id: str) -> list[Request]:
        """The heartbeats that named the episode."""
        named = [
            r
            for r in self.seen("POST .*/heartbeats")
            if episode_id in json.loads(r.body)["episode_ids"]
        ]
        return [*named, *self.seen(f"POST .*/{episode_id}/heartbeat")]

    def fail(
        self, pattern: str, times: int = 1, answer: Answer | None = None, after: bool = False
    ) -> None:
        self.faults.append(Fault(pattern, times, answer, after))

    def set_state(self, session_id: str, state: str, **fields: Any) -> None:
        with self._changed:
            old = self.sessions[session_id]
            self.sessions[session_id] = SessionView.model_validate(
                {**old.model_dump(), "state": state, **fields}
            )
            self.add_event(
                "state", {"from": old.state.value, "to": state, "phase": "", "reason": ""}
            )

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
        if request.path == "/openai/v1/models" and request.headers["authorization"].startswith(
            "Bearer tml-ep-"
        ):
            return Answer(
                200, b'{"object": "list", "data": []}', {"Content-Type": "application/json"}
            )
        if request.headers.get("authorization") != f"Bearer {API_KEY}":
            return error(
                401, "unauthenticated", "This API key is unknown.", "Make one in the console."
            )
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

    def handle_server(self, request: Request) -> Answer:
        return error(404, "not_found", request.path) if self.view is None else reply(200, self.view)

    def handle_create(self, request: Request) -> Answer:
        time.sleep(self.create_delay_s)
        wanted = SessionCreate.model_validate_json(request.body)
        if wanted.base_model == "no-such-model":
            return error(
                400,
                "unknown_base_model",
                "unknown base model",
                "Known: SmolLM2",
                {"known": ["SmolLM2"]},
            )
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

    def handle_list(self, request: Request) -> Answer:
        views = list(self.sessions.values())[::-1]
        start = int(request.query.get("cursor", 0))
        more = str(start + 2) if start + 2 < len(views) else None
        return reply(200, SessionList(items=views[start : start + 2], next_cursor=more))

    def handle_show(self, request: Request, session_id: str) -> Answer:
        if self.hold_shows is not None:
            self.hold_shows.wait(25)
        return reply(200, self.sessions[session_id])

    def handle_stop(self, request: Request, session_id: str) -> Answer:
        if not self.sessions[session_id].state.is_terminal:
            self.set_state(session_id, self.stop_leads_to)
        return reply(200, self.sessions[session_id])

    def handle_suspend(self, request: Request, session_id: str) -> Answer:
        self.set_state(session_id, "suspended")
        return reply(200, self.sessions[session_id])

    def handle_resume(self, request: Request, session_id: str) -> Answer:
        if self.sessions[session_id].state != "suspended":
            return error(409, "conflict", "the session is not suspended")
        self.set_state(session_id, "queued")
        return reply(200, self.sessions[session_id])

    def _events(self, request: Request) -> Answer:
        after, kind = int(request.query.get("after", 0)), request.query.get("kind")
        deadline = time.monotonic() + float(request.query.get("wait_s", 0))
        with self._changed:
            while True:
                items = [
                    e for e in self.record if e.cursor > after and (kind is None or e.kind == kind)
                ][:3]
                left = deadline - time.monotonic()
                if items or left <= 0 or self._http is None:
                    break
                self._changed.wait(left)
        return reply(200, EventPage(items=items, next_cursor=items[-1].cursor if items else after))

    def train(self) -> None:
        """A step: what waits is trained."""
        with self._changed:
            for episode_id, episode in self.episodes.items():
                if episode.fate == "accepted":
                    self.episodes[episode_id] = episode.model_copy(
                        update={"fate": SampleFate.TRAINED}
                    )

    def hold_begins(self) -> None:
        self.places = 0

    def let_begins_go(self) -> None:
        with self._changed:
            self.places = None
            self._changed.notify_all()

    def _open(self) -> int:
        return sum(episode.state == "open" for episode in self.episodes.values())

    def handle_begin(self, request: Request, session_id: str) -> Answer:
        wanted = EpisodeBegin.model_validate_json(request.body)
        while self.places is not None and self._open() >= self.places and self._http is not None:
            self._changed.wait(5)
        if wanted.supersedes in self.episodes:
            self.close_episode(wanted.supersedes, state="abandoned", reason="superseded")
        episode_id = f"ep_{next(self._ids)}"
        self.episodes[episode_id] = EpisodeView(
            episode_id=episode_id, task=wanted.task, group_key=wanted.task, state="open", eval=wanted.eval,
            calls=self.calls_per_episode, begun_at=1.0,
        )  # fmt: skip
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

    def handle_end(self, request: Request, session_id: str, episode_id: str) -> Answer:
        wanted = EpisodeEnd.model_validate_json(request.body)
        episode = self.episodes.get(episode_id)
        if episode is None:
            return error(404, "not_found", "no such episode")
        if episode.state != "open" and self.ended.get(episode_id) != wanted:
            return error(410, "episode_closed", "the episode is over")
        if self.calls_per_episode == 0:
            return error(422, "empty_episode", "no LLM call was captured")
        self.ended[episode_id] = wanted
        said = wanted.output
        output = {"reward": said.reward, "is_success": said.is_success, "metrics": said.measures}
        fate = "eval" if episode.eval else "accepted"
        return self.close_episode(
            episode_id,
            state="completed",
            fate=fate,
            group_key=episode.group_key or "first prompt",
            **output,
        )

    def handle_abandon(self, request: Request, session_id: str, episode_id: str) -> Answer:
        reason = EpisodeAbandon.model_validate_json(request.body).reason
        if self.episodes[episode_id].state != "open":
            return error(410, "episode_closed", "the episode is over")
        return self.close_episode(episode_id, state="abandoned", reason=reason)

    def close_episode(self, episode_id: str, **fields: Any) -> Answer:
        self.episodes[episode_id] = EpisodeView.model_validate(
            {**self.episodes[episode_id].model_dump(), **fields}
        )
        with self._changed:
            self._changed.notify_all()
        return reply(200, self.episodes[episode_id])

    def handle_beat(self, request: Request, session_id: str, episode_id: str) -> Answer:
        if self.episodes[episode_id].state != "open":
            return error(410, "episode_closed", "the episode is over")
        return reply(200, self.episodes[episode_id])

    def handle_beats(self, request: Request, session_id: str) -> Answer:
        named = EpisodesHeartbeat.model_validate_json(request.body).episode_ids
        over = [name for name in named if self.episodes[name].state != "open"]
        warnings = {
            name: self.episodes[name].warning for name in named if self.episodes[name].warning
        }
        return reply(200, EpisodesHeartbeatResult(over=over, warnings=warnings))

    def handle_episode_list(self, request: Request, session_id: str) -> Answer:
        items = [e.model_dump() for e in self.episodes.values()][::-1]
        start = int(request.query.get("cursor", 0))
        more = str(start + 2) if start + 2 < len(items) else None
        return Answer(
            200, json.dumps({"items": items[start : start + 2], "next_cursor": more}).encode()
        )

    def handle_episode_calls(self, request: Request, session_id: str, episode_id: str) -> Answer:
        start = int(request.query.get("cursor", 0))
        more = str(start + 2) if start + 2 < len(self.calls) else None
        counts = {
            "calls": len(self.calls),
            "cancelled_calls": 0,
            "completions": 0,
            "timelines": 1,
            "merged_share": 0.5,
        }
        report = EpisodeReport(**counts, agents=[], drift=[])
        return reply(
            200, EpisodeCalls(report=report, items=self.calls[start : start + 2], next_cursor=more)
        )

    def handle_accounting(self, request: Request, session_id: str) -> Answer:
        states = [e.state.value for e in self.episodes.values()]
        fates = [e.fate.value for e in self.episodes.values() if e.fate is not None]
        counts = {"open": states.count("open"), "waiting": fates.count("accepted")}
        counts |= {fate: fates.count(fate) for fate in ("trained", "stale")}
        return reply(
            200, Accounting(begun=len(states), abandoned=states.count("abandoned"), **counts)
        )

    def handle_checkpoint_create(self, request: Request, session_id: str) -> Answer:
        kind = CheckpointCreate.model_validate_json(request.body).kind
        made = CheckpointView(
            id=f"ckp_{next(self._ids)}",
            session_id=session_id,
            kind=kind,
            state="requested",
            step=self.checkpoint_step,
            created_at=NOW,
        )
        self.checkpoints = {made.id: made, **self.checkpoints}
        return reply(202, made)

    def handle_checkpoint_list(self, request: Request, session_id: str) -> Answer:
        return Answer(
            200,
            json.dumps(
                {"items": [c.model_dump(mode="json") for c in self.checkpoints.values()]}
            ).encode(),
        )

    def handle_checkpoint_show(
        self, request: Request, session_id: str, checkpoint_id: str
    ) -> Answer:
        """Each look moves it one state on."""
        old = self.checkpoints[checkpoint_id]
        at = (
            self.checkpoint_states.index(old.state) + 1
            if old.state in self.checkpoint_states
            else 0
        )
        state = self.checkpoint_states[min(at, len(self.checkpoint_states) - 1)]
        failure = "the disk is on fire" if state == "failed" else ""
        new = CheckpointView.model_validate(
            {**old.model_dump(), "state": state, "failure": failure}
        )
        self.checkpoints[checkpoint_id] = new
        return reply(200, new)

    def handle_checkpoint_update(
        self, request: Request, session_id: str, checkpoint_id: str
    ) -> Answer:
        pinned = CheckpointUpdate.model_validate_json(request.body).pinned
        self.checkpoints[checkpoint_id] = self.checkpoints[checkpoint_id].model_copy(
            update={"pinned": pinned}
        )
        return reply(200, self.checkpoints[checkpoint_id])

    def handle_evaluation(self, request: Request, session_id: str) -> Answer:
        self.add_event("evaluation", Evaluation.model_validate_json(request.body).model_dump())
        return reply(201, self.record[-1])

    def handle_download(self, request: Request, session_id: str, checkpoint_id: str) -> Answer:
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
        return reply(
            200,
            CheckpointDownload(
                checkpoint_id=checkpoint_id,
                step=self.checkpoint_step,
                files=files,
                expires_at=expires_at,
            ),
        )

    def handle_export(self, request: Request, session_id: str) -> Answer:
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
        export = EpisodeExport(
            session_id=session_id, episodes=episodes, files=files, expires_at=expires_at
        )
        start = int(request.query.get("annotations_after", 0))  # pages of two
        end = start + 2
        more = end if self.annotations[end:] else None
        page = {"annotations": self.annotations[start:end], "annotations_cursor": more}
        return reply(200, export.model_copy(update=page))

    def _file(self, request: Request) -> Answer:
        """The object store: no bearer token may reach it, expired signatures answer 403, ranges are
        honoured.
        """
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


S = r"/v1/sessions/(\w+)"
ROUTES: dict[str, Callable[..., Answer]] = {
    r"GET /v1/server": RestServer.handle_server,
    r"POST /v1/sessions": RestServer.handle_create,
    r"GET /v1/sessions": RestServer.handle_list,
    rf"GET {S}": RestServer.handle_show,
    rf"POST {S}/suspend": RestServer.handle_suspend,
    rf"POST {S}/resume": RestServer.handle_resume,
    rf"POST {S}/stop": RestServer.handle_stop,
    rf"POST {S}/episodes": RestServer.handle_begin,
    rf"GET {S}/episodes": RestServer.handle_episode_list,
    rf"GET {S}/episodes/export": RestServer.handle_export,
    rf"POST {S}/episodes/(\w+)/end": RestServer.handle_end,
    rf"POST {S}/episodes/(\w+)/abandon": RestServer.handle_abandon,
    rf"POST {S}/episodes/(\w+)/heartbeat": RestServer.handle_beat,
    rf"POST {S}/heartbeats": RestServer.handle_beats,
    rf"GET {S}/episodes/(\w+)/calls": RestServer.handle_episode_calls,
    rf"GET {S}/accounting": RestServer.handle_accounting,
    rf"POST {S}/checkpoints": RestServer.handle_checkpoint_create,
    rf"GET {S}/checkpoints": RestServer.handle_checkpoint_list,
    rf"GET {S}/checkpoints/(\w+)": RestServer.handle_checkpoint_show,
    rf"PATCH {S}/checkpoints/(\w+)": RestServer.handle_checkpoint_update,
    rf"POST {S}/evaluations": RestServer.handle_evaluation,
    rf"GET {S}/checkpoints/(\w+)/download": RestServer.handle_download,
}
