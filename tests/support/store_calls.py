"""What a runtime says and does to have files in the object store, by hand, and how they are read back."""

import hashlib
import urllib.request

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
    request = urllib.request.Request(url, data=data, method="PUT")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["ETag"]


def write(plan: UploadTargets, files: dict[str, bytes]) -> UploadCommit:
    """What a runtime does with a plan."""
    done = []
    for file in plan.files:
        data, size = files[file.path], file.part_size_bytes
        etags = [put(url, data[i * size : (i + 1) * size]) for i, url in enumerate(file.part_urls)]
        done.append(UploadedFile(path=file.path, etags=etags))
    return UploadCommit(files=done)


def fetch(url: str, headers: dict[str, str] | None = None) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=60) as answer:
        return answer.read()
