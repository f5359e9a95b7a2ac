"""A server that speaks as much of the Hugging Face Hub's API as a push and a download need, on a
free port.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_of_the_test"
UNKNOWN = 401, {"error": "Invalid credentials in Authorization header"}


class Hub:
    """``repositories``: each with its files; ``put`` are the hashes of large files in the order of
    coming.

    ``cut`` lets the next large files fail in the middle. ``gated`` repositories show themselves and
    no file. ``moved_to``: the server that every request is sent on to. ``tokens`` are those that
    came.
    """

    def __init__(self) -> None:
        self.address = ""
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.large: dict[str, bytes] = {}
        self.put: list[str] = []
        self.cut = False
        self.gated: set[str] = set()
        self.moved_to = ""
        self.tokens: list[str | None] = []

    def post(self, path: str, body: bytes) -> tuple[int, Any]:
        if path == "/api/repos/create":
            wanted = json.loads(body)
            name = "/".join(filter(None, (wanted["organization"], wanted["name"])))
            if name in self.repositories:
                return 409, {
                    "error": "You already created this model repo",
                    "url": f"{self.address}/{name}",
                }
            self.repositories[name], self.private[name] = {}, wanted["visibility"] == "private"
            return 200, {"url": f"{self.address}/{name}"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if found := re.fullmatch(r"/api/models/(.+)/preupload/main", path):
            files = json.loads(body)["files"]
            modes = {
                it["path"]: "lfs" if it["path"].endswith(".safetensors") else "regular"
                for it in files
            }
            return 200, {
                "files": [
                    {"path": p, "uploadMode": mode, "shouldIgnore": False}
                    for p, mode in modes.items()
                ]
            }
        if re.fullmatch(r"/(.+)[.]git/info/lfs/objects/batch", path):
            return 200, {
                "transfer": "basic",
                "objects": [self._action(it) for it in json.loads(body)["objects"]],
            }
        if found := re.fullmatch(r"/api/models/(.+)/commit/main", path):
            return 200, self._commit(found[1], [json.loads(line) for line in body.splitlines()])
        return 404, {"error": f"no {path}"}

    def get(self, path: str) -> tuple[int, Any]:
        if path == "/api/whoami-v2":
            return 200, {"type": "user", "name": "my-team"}
        name, _, revision = path.removeprefix("/api/models/").partition("/revision/")
        if name not in self.repositories or revision not in ("", "main", self.revision(name)):
            return 404, {"error": f"no {path}"}
        siblings = [
            {"rfilename": file, "size": len(content)}
            for file, content in self.repositories[name].items()
        ]
        return 200, {
            "id": name,
            "private": self.private[name],
            "sha": self.revision(name),
            "siblings": siblings,
        }

    def file(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers of ``/OWNER/NAME/resolve/REVISION/FILE``."""
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        if name in self.gated:
            return (
                403,
                b"",
                {
                    "X-Error-Code": "GatedRepo",
                    "X-Error-Message": f"Access to model {name} is restricted",
                },
            )
        content = self.repositories.get(name, {}).get(file)
        if content is None or revision != self.revision(name):
            return 404, b"", {"X-Error-Code": "EntryNotFound"}
        etag = hashlib.sha256(content).hexdigest()
        return 200, content, {"X-Repo-Commit": revision, "ETag": f'"{etag}"'}

    def revision(self, name: str) -> str:
        """The commit that a repository is at."""
        return hashlib.sha1(repr(sorted(self.repositories[name].items())).encode()).hexdigest()

    def _action(self, wanted: dict[str, Any]) -> dict[str, Any]:
        upload = {"upload": {"href": f"{self.address}/large/{wanted['oid']}"}}
        return wanted | ({} if wanted["oid"] in self.large else {"actions": upload})

    def _commit(self, name: str, lines: list[dict[str, Any]]) -> dict[str, str]:
        files = self.repositories[name]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.large[value["oid"]]
        oid = hashlib.sha1(repr(sorted(files)).encode()).hexdigest()
        return {"commitUrl": f"{self.address}/{name}/commit/{oid}", "commitOid": oid}


class Handler(BaseHTTPRequestHandler):
    """A request to the server's hub; without TOKEN it is refused, but where it has a link of its
    own.
    """

    server: "HubServer"

    def parse_request(self) -> bool:
        """Whether it is to be looked at: not one that is sent on."""
        if not super().parse_request():
            return False
        self.server.hub.tokens.append(self.headers["Authorization"])
        if not (elsewhere := self.server.hub.moved_to):
            return True
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(307)
        self.send_header("Location", elsewhere + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return False

    def do_GET(self) -> None:
        if "/resolve/" in self.path and self._is_known():
            self._send_file()
        else:
            self._send(
                *(self.server.hub.get(self.path.partition("?")[0]) if self._is_known() else UNKNOWN)
            )

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self._body()
        self._send(
            *(
                self.server.hub.post(self.path.partition("?")[0], body)
                if self._is_known()
                else UNKNOWN
            )
        )

    def do_PUT(self) -> None:
        body, oid, hub = self._body(), self.path.rpartition("/")[2], self.server.hub
        if hub.cut:
            self._send(400, {"error": "cut off"})
            return
        assert hashlib.sha256(body).hexdigest() == oid
        hub.large[oid] = body
        hub.put.append(oid)
        self._send(200, {})

    def _is_known(self) -> bool:
        return self.headers["Authorization"] == f"Bearer {TOKEN}"

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send_file(self) -> None:
        status, content, headers = self.server.hub.file(self.path.partition("?")[0])
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def _send(self, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


class HubServer(ThreadingHTTPServer):
    """On a free port of loopback, with its hub."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub = Hub()
        self.hub.address = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Listens until the block ends."""
    server = HubServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.hub
    finally:
        server.shutdown()
        server.server_close()
