"""What a runtime says and does to have files in the object store, by hand, and how they are read
back.
"""

import asyncio
import hashlib
import urllib.error
import urllib.request
from email.message import Message
from urllib.parse import unquote

from django.conf import settings

from support.asgi_calls import Call
from tinkerscript.wire.checkpoints import ManifestFile
from tinkerscript.wire.runtime import (
    AnyUpload,
    UploadCommit,
    UploadedFile,
    UploadOpen,
    UploadTargets,
)


def opening(files: dict[str, bytes], **fields) -> AnyUpload:
    listed = [
        ManifestFile(path=path, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in files.items()
    ]
    kind = fields.get("kind", "model")
    step = {} if kind in ("journal", "archive", "episodes") else {"step": 7}
    return UploadOpen.model_validate({"kind": kind, "files": listed} | step | fields).root


def put(url: str, data: bytes) -> str:
    return asked("PUT", url, data, {"content-length": str(len(data))})[0]["etag"]


def write(plan: UploadTargets, files: dict[str, bytes]) -> UploadCommit:
    """What a runtime does with a plan."""
    done = []
    for file in plan.files:
        data, size = files[file.path], file.part_size_bytes
        etags = [put(url, data[i * size : (i + 1) * size]) for i, url in enumerate(file.part_urls)]
        done.append(UploadedFile(path=file.path, etags=etags))
    return UploadCommit(files=done)


def fetch(url: str, headers: dict[str, str] | None = None) -> bytes:
    return asked("GET", url, b"", headers or {})[1]


def asked(
    method: str, url: str, data: bytes, headers: dict[str, str]
) -> tuple[dict[str, str], bytes]:
    """Headers and body of the response: by the application in this process for a link, by the store
    for its own URL.
    """
    if not url.startswith(settings.PUBLIC_URL):
        request = urllib.request.Request(
            url, data=data if method == "PUT" else None, method=method, headers=headers
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    status, found, body = asyncio.run(
        _of_link(method, url.removeprefix(settings.PUBLIC_URL), data, headers)
    )
    if status >= 400:
        raise urllib.error.HTTPError(url, status, body.decode(), Message(), None)
    return found, body


async def _of_link(
    method: str, path: str, data: bytes, headers: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
    from api.gateway_client import client_close
    from console.asgi import application

    try:
        return await Call(application, method, unquote(path), body=data, **headers).answer()
    finally:
        await client_close()
