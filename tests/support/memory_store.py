"""A store of objects in this process, in the place of boto3's client of the control plane.

It keeps S3's rules that the product rests on: an object of several parts appears when it is
completed and not before, a part has the length that its URL was signed for, and what is not there
is an error of that name. What only a real store shows (signatures, ends of URLs, its own errors) is
tested with two of them.
"""

import hashlib
import secrets
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from botocore.exceptions import ClientError
from django.conf import settings

from console.object_store.links import link_of

SCHEME = "memory://"


class Body:
    """What ``get_object`` has of an object."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        return self._data

    def iter_chunks(self, size_bytes: int) -> Iterator[bytes]:
        return (
            self._data[start : start + size_bytes]
            for start in range(0, len(self._data), size_bytes)
        )


@dataclass
class MemoryStore:
    """Objects by key, and parts of uploads by number. The names are those of boto3's client."""

    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, tuple[str, datetime, dict[int, bytes]]] = field(default_factory=dict)
    signed: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:
        self.objects[Key] = Body

    def get_object(self, *, Bucket: str, Key: str, Range: str = "") -> dict[str, Any]:
        data = self._object(Key)
        return {"Body": Body(data[_slice(Range)] if Range else data)}

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        return {"ContentLength": len(self._object(Key)), "ETag": etag_of(self._object(Key))}

    def delete_object(self, *, Bucket: str, Key: str) -> None:
        self.objects.pop(Key, None)

    def copy(self, source: dict[str, str], bucket: str, key: str, Config: Any = None) -> None:
        self.objects[key] = self._object(source["Key"])

    def upload_file(self, path: str, bucket: str, key: str, Config: Any = None) -> None:
        self.objects[key] = Path(path).read_bytes()

    def download_file(self, bucket: str, key: str, path: str) -> None:
        Path(path).write_bytes(self._object(key))

    def head_bucket(self, *, Bucket: str) -> None:
        """It is there."""

    def create_multipart_upload(self, *, Bucket: str, Key: str) -> dict[str, str]:
        upload_id = secrets.token_hex(8)
        self.uploads[upload_id] = Key, datetime.now(UTC), {}
        return {"UploadId": upload_id}

    def complete_multipart_upload(
        self, *, Bucket: str, Key: str, UploadId: str, MultipartUpload: Any
    ) -> None:
        parts = self._parts(UploadId)
        for wanted in MultipartUpload["Parts"]:
            if wanted["ETag"] != etag_of(parts.get(wanted["PartNumber"])):
                raise _error("InvalidPart")
        self.objects[Key] = b"".join(
            parts[wanted["PartNumber"]] for wanted in MultipartUpload["Parts"]
        )
        del self.uploads[UploadId]

    def abort_multipart_upload(self, *, Bucket: str, Key: str, UploadId: str) -> None:
        self._parts(UploadId)
        del self.uploads[UploadId]

    def get_paginator(self, name: str) -> "MemoryStore.Pages":
        return self.Pages(self, name)

    @dataclass
    class Pages:
        """One page with everything."""

        store: "MemoryStore"
        name: str

        def paginate(
            self, *, Bucket: str, Prefix: str = "", Key: str = "", UploadId: str = ""
        ) -> list[dict[str, Any]]:
            if self.name == "list_parts":
                parts = sorted(self.store._parts(UploadId).items())  # noqa: SLF001 - a part of it
                return [
                    {"Parts": [{"ETag": etag_of(data), "Size": len(data)} for _, data in parts]}
                ]
            if self.name == "list_multipart_uploads":
                begun = [
                    {"Key": key, "UploadId": upload_id, "Initiated": at}
                    for upload_id, (key, at, _) in self.store.uploads.items()
                    if key.startswith(Prefix)
                ]
                return [{"Uploads": begun}]
            return [
                {
                    "Contents": [
                        {"Key": key} for key in sorted(self.store.objects) if key.startswith(Prefix)
                    ]
                }
            ]

    def generate_presigned_url(self, method: str, *, Params: dict[str, Any], ExpiresIn: int) -> str:
        url = f"{SCHEME}{secrets.token_hex(8)}/{Params['Key']}"
        self.signed[url] = method, Params
        return url

    def asked(
        self, method: str, url: str, data: bytes, headers: dict[str, str]
    ) -> tuple[dict[str, str], bytes]:
        """Headers and body of the response to one of its URLs, or to a link of the server."""
        if url.startswith(settings.PUBLIC_URL):
            link = link_of(unquote(url.removeprefix(settings.PUBLIC_URL)))
            wanted = {"Key": link.key, "UploadId": link.upload_id, "PartNumber": link.part}
        else:
            _, wanted = self.signed[url]
        if method == "GET":
            found = self.objects.get(wanted["Key"])
            if found is None:
                raise urllib.error.HTTPError(url, 404, "NoSuchKey", Message(), None)
            return {}, found[_slice(headers["Range"])] if "Range" in headers else found
        if wanted.get("ContentLength", len(data)) != len(data):
            raise urllib.error.HTTPError(url, 403, "SignatureDoesNotMatch", Message(), None)
        self._parts(wanted["UploadId"])[wanted["PartNumber"]] = data
        return {"etag": etag_of(data)}, b""

    def _object(self, key: str) -> bytes:
        if key not in self.objects:
            raise _error("NoSuchKey")
        return self.objects[key]

    def _parts(self, upload_id: str) -> dict[int, bytes]:
        if upload_id not in self.uploads:
            raise _error("NoSuchUpload")
        return self.uploads[upload_id][2]


def etag_of(data: bytes | None) -> str:
    return "" if data is None else f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _slice(wanted: str) -> slice:
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    return slice(int(first), int(last) + 1 if last else None)


def _error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}}, "memory")
