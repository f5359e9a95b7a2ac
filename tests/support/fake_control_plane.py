"""A control plane and an object store on loopback, as far as a runtime sees them, that fail on
demand.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LEASE = "tml-ls-ses_0123456789abcdef." + "a" * 64
Answer = tuple[int, Any]


def error_body(code: str, message: str = "no") -> dict[str, Any]:
    return {
        "error": {"code": code, "message": message, "hint": "", "details": {}},
        "request_id": "r",
    }


class FakeControlPlane:
    """``with FakeControlPlane() as server``. ``answers[path]`` replaces the answer of a path while
    it is set.

    ``store_statuses`` is consumed one status per PUT or GET of the store; when empty, the store
    works. ``clients_die``: one that ends in the middle of a request is expected, and no traceback
    is written.
    """

    def __init__(
        self, *, part_size_bytes: int = 4, port: int = 0, clients_die: bool = False
    ) -> None:
        self.part_size_bytes = part_size_bytes
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Answer | Callable[[dict[str, Any]], Answer]] = {}
        self.store_statuses: list[int] = []
        self.store_requests: list[tuple[str, str, str | None]] = []  # method, path, Range
        self.cut_after_bytes: int | None = None  # the next GET of the store breaks off there
        self.parts: dict[str, bytes] = {}
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[str, Any]] = {}
        self.journal: list[dict[str, Any]] = []  # the files of its copy
        self.entries: dict[str, dict[str, Any]] = {}
        self.episodes: dict[str, dict[str, Any]] = {}  # the last row of each
        self.orders: dict[str, Any] = {"lease_seconds": 15, "stop": None, "checkpoints": []}
        self._port, self._clients_die = port, clients_die

    def __enter__(self) -> "FakeControlPlane":
        handler = type("Handler", (_Handler,), {"plane": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        if self._clients_die:
            self._server.handle_error = lambda *_: None
        self._port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def restart_as_new(self) -> "FakeControlPlane":
        """Another server on the same port with the same store, as after a crash."""
        other = FakeControlPlane(part_size_bytes=self.part_size_bytes, port=self._port)
        other.parts, other.objects, other.uploads = self.parts, self.objects, self.uploads
        other.journal = self.journal
        return other

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for requested, body in list(self.requests) if requested == path]

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        self.requests.append((path, body))
        replaced = self.answers.get(path)
        if replaced is not None:
            return replaced(body) if callable(replaced) else replaced
        name = path.removeprefix("/v1/runtime/")
        if name == "register":
            return 200, self.assignment()
        if name == "heartbeat":
            return 200, self.orders
        if name == "report":
            for entry in body["entries"]:
                self.entries.setdefault(entry["key"], entry)
            return 204, None
        if name in ("episodes", "fail"):
            self.episodes |= {row["episode_id"]: row for row in body.get("rows", [])}
            return 204, None
        if name == "documents":
            return 200, {"items": self.documents_of(body["episode_ids"])}
        if name == "uploads":
            return 200, self.upload_open(body)
        if name.startswith("uploads/") and name.endswith("/commit"):
            return self.upload_commit(name.split("/")[1], body)
        return 404, error_body("not_found")

    def assignment(self) -> dict[str, Any]:
        """What a registration is answered with."""
        return {
            "session_id": "ses_0123456789abcdef",
            "base_model": "tiny",
            "base_model_path": "/models/tiny",
            "config": {},
            "public_url": self.url,
            "episode_signing_key": "00" * 32,
            "relay_key": "relay",
            "lease_seconds": 15.0,
        }

    def upload_open(self, body: dict[str, Any]) -> dict[str, Any]:
        """An upload's targets, as the control plane would make them."""
        upload_id = f"up_{len(self.uploads) + 1}"
        rowless = body["kind"] in ("journal", "archive", "episodes")
        checkpoint_id = None if rowless else body["checkpoint_id"] or f"ckp_{len(self.uploads) + 1}"
        self.uploads[upload_id] = {**body, "checkpoint_id": checkpoint_id, "committed": False}
        files = []
        for file in body["files"]:
            count = max(1, -(-file["size_bytes"] // self.part_size_bytes))
            urls = [f"{self.url}/s3/{upload_id}/{file['path']}?part={n}" for n in range(count)]
            files.append(
                {"path": file["path"], "part_size_bytes": self.part_size_bytes, "part_urls": urls}
            )
        return {"upload_id": upload_id, "checkpoint_id": checkpoint_id, "files": files}

    def upload_commit(self, upload_id: str, body: dict[str, Any]) -> Answer:
        """The answer to a commit."""
        upload = self.uploads[upload_id]
        wanted = {file["path"]: file for file in upload["files"]}
        for file in body["files"]:
            parts = [
                self.parts.get(f"/s3/{upload_id}/{file['path']}?part={n}", b"")
                for n in range(len(file["etags"]))
            ]
            if [f'"{hashlib.md5(part).hexdigest()}"' for part in parts] != file["etags"]:
                return 409, error_body("conflict", "wrong etags")
            whole = b"".join(parts)
            if hashlib.sha256(whole).hexdigest() != wanted.pop(file["path"])["sha256"]:
                return 409, error_body("conflict", "wrong hash")
            folder = upload_id if upload["kind"] == "episodes" else upload["checkpoint_id"]
            self.objects[f"{folder}/{file['path']}"] = whole
        if upload["kind"] == "journal" and not wanted and not self._journal_keep(upload, whole):
            return 409, error_body(
                "conflict", "The journal's copy is not the one that these changes follow."
            )
        if wanted:
            return 409, error_body("conflict", "files are missing")
        upload["committed"] = True
        return 200, {"checkpoint_id": upload["checkpoint_id"]}

    def journal_files(self) -> list[dict[str, Any]]:
        """The copy of the journal as a runtime is given it."""
        return [file | {"url": f"{self.url}/s3/journal/{file['sha256']}"} for file in self.journal]

    def documents_of(self, episode_ids: list[str]) -> list[dict[str, Any]]:
        """Where the documents of these episodes are, as a runtime is told."""
        found = {}
        for upload_id, upload in list(self.uploads.items()):
            if upload["kind"] == "episodes" and upload["committed"]:
                url = f"{self.url}/s3/{upload_id}/{upload['files'][0]['path']}"
                found |= {place["episode_id"]: place | {"url": url} for place in upload["packed"]}
        return [found[each] for each in episode_ids if each in found]

    def _journal_keep(self, upload: dict[str, Any], data: bytes) -> bool:
        (file,), hashes = upload["files"], [file["sha256"] for file in self.journal]
        if upload.get("follows") and upload["follows"] != hashes:
            return False
        self.objects[f"journal/{file['sha256']}"] = data
        self.journal = [*self.journal, file] if upload.get("follows") else [file]
        return True


class _Handler(BaseHTTPRequestHandler):
    plane: FakeControlPlane

    def do_POST(self) -> None:
        body = json.loads(self._body())
        if self.headers["Authorization"] != f"Bearer {LEASE}":
            return self._answer(401, json.dumps(error_body("unauthenticated")).encode())
        status, answer = self.plane.answer(self.path, body)
        return self._answer(status, b"" if answer is None else json.dumps(answer).encode())

    def do_PUT(self) -> None:
        body = self._body()
        assert len(body) == int(self.headers["Content-Length"])
        status = self._store_status()
        if status != 200:
            return self._answer(status, b"")
        self.plane.parts[self.path] = body
        return self._answer(200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def do_GET(self) -> None:
        status, whole = self._store_status(), self.plane.objects.get(self.path.removeprefix("/s3/"))
        if status != 200 or whole is None:
            return self._answer(status if status != 200 else 404, b"")
        first, _, last = (self.headers["Range"] or "bytes=0-").removeprefix("bytes=").partition("-")
        start = int(first)
        body, cut = whole[start : int(last) + 1 if last else None], self.plane.cut_after_bytes
        if cut is not None:
            self.plane.cut_after_bytes = None
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])
            self.close_connection = True
            return None
        return self._answer(206 if self.headers["Range"] else 200, body)

    def _store_status(self) -> int:
        self.plane.store_requests.append((self.command, self.path, self.headers["Range"]))
        return self.plane.store_statuses.pop(0) if self.plane.store_statuses else 200

    def _body(self) -> bytes:
        assert "Content-Length" in self.headers, "S3 takes no chunked bodies"
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # the client gave up on the answer, as it does when it closes
        with suppress(BrokenPipeError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""
