"""The object store: S3 and nothing else, one bucket, one way (boto3), presigned URLs for runtimes.

Every object of a runtime is written as a multipart upload, even in one part: it appears only when
the control plane completes it, so that a presigned URL in the wrong hands, or in those of a runtime
that lost its lease, changes nothing.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings

from console.errors import DiskFull, StorageUnavailable
from console.object_store import free_space, seaweedfs
from tinkerscript.processes.port_owner import StrangersPort, pool_checked

GONE = {"NoSuchKey", "NoSuchUpload", "404", "NotFound"}
HEALTH_KEY = "health"  # what `ready_wait` writes
FIRST_REGION = "us-east-1"
MAX_PARTS = 1000  # of one object: S3 takes 10,000, OpenStack Swift as it comes a tenth of that
MIN_PART_BYTES = 8 << 20  # of a file that this process writes: what boto3 takes by itself
HASHED_AT_ONCE = 1 << 20
COPIED_AT_ONCE = 4 << 30  # S3 copies up to 5 GiB in one request; what is larger goes in parts


@dataclass(frozen=True)
class Store:
    """Where the bucket is and who we are there."""

    endpoint_url: str
    access_key: str
    secret_key: str
    bucket: str
    region: str


def put(key: str, body: bytes) -> None:
    """Write a small object. Raises StorageUnavailable, DiskFull before the store is asked."""
    free_space.room_require(size_bytes=len(body))
    with _errors():
        client_get().put_object(Bucket=settings.S3_BUCKET, Key=key, Body=body)


def get(key: str) -> bytes | None:
    """A small object, or None when there is none. Raises StorageUnavailable."""
    return _read(key)


def get_range(key: str, *, offset: int, size_bytes: int) -> bytes | None:
    """A part of an object, or None when there is no such object. Raises StorageUnavailable."""
    return _read(key, Range=f"bytes={offset}-{offset + size_bytes - 1}")


def sha256(key: str) -> str | None:
    """The hash of an object's bytes as the store has them, or None when there is none. Raises
    StorageUnavailable.
    """
    with _errors():
        if (found := _unless_gone("get_object", Key=key)) is None:
            return None
        digest = hashlib.sha256()
        for chunk in found["Body"].iter_chunks(HASHED_AT_ONCE):
            digest.update(chunk)
        return digest.hexdigest()


def size_bytes(key: str) -> int | None:
    """The size of an object, or None when there is none. Raises StorageUnavailable."""
    found = _unless_gone("head_object", Key=key)
    return None if found is None else found["ContentLength"]


def delete(keys: Sequence[str]) -> None:
    """Remove objects; those that are not there are no error. Raises StorageUnavailable."""
    with _errors():
        for key in keys:
            client_get().delete_object(Bucket=settings.S3_BUCKET, Key=key)


def copy(source: str, key: str, *, size_bytes: int) -> None:
    """Write the object ``source`` a second time, as ``key``: the bytes do not pass this process.
    Raises StorageUnavailable, also when it is not there, DiskFull before the store is asked.
    """
    free_space.room_require(size_bytes=size_bytes)
    from boto3.s3.transfer import TransferConfig

    bucket = settings.S3_BUCKET
    large = TransferConfig(multipart_threshold=COPIED_AT_ONCE, multipart_chunksize=1 << 30)
    with _errors(
        f"The object store did not copy {source}",
        "Try again; see that the store runs and has room.",
    ):
        client_get().copy({"Bucket": bucket, "Key": source}, bucket, key, Config=large)


def keys_under(prefix: str) -> Iterator[str]:
    """Every key that begins with ``prefix``. Raises StorageUnavailable."""
    with _errors():
        yield from (entry["Key"] for entry in _listed("list_objects_v2", "Contents", Prefix=prefix))


def delete_under(prefix: str) -> None:
    """Remove every object whose key begins with ``prefix``, and every upload to one. Raises
    StorageUnavailable.
    """
    for key, upload_id, _ in list(multipart_list(prefix)):
        multipart_abort(key, upload_id)
    delete(list(keys_under(prefix)))


def download(key: str, path: Path) -> bool:
    """Write an object of any size to ``path``; False when there is none (any more). Raises
    StorageUnavailable.
    """
    with _errors():
        try:
            client_get().download_file(settings.S3_BUCKET, key, str(path))
        except ClientError as error:
            if _code(error) in GONE:
                return False
            raise
    return True


def upload(path: Path, key: str) -> None:
    """Write a file of any size to the store. Raises StorageUnavailable, DiskFull before the store
    is asked.
    """
    file_bytes = path.stat().st_size
    free_space.room_require(size_bytes=file_bytes)
    from boto3.s3.transfer import TransferConfig

    part_bytes = max(MIN_PART_BYTES, math.ceil(file_bytes / MAX_PARTS))
    with _errors():
        parts = TransferConfig(multipart_chunksize=part_bytes)
        client_get().upload_file(str(path), settings.S3_BUCKET, key, Config=parts)


def multipart_open(key: str) -> str:
    """Begin an upload; its id. Raises StorageUnavailable."""
    with _errors():
        return client_get().create_multipart_upload(Bucket=settings.S3_BUCKET, Key=key)["UploadId"]


def multipart_complete(key: str, upload_id: str, etags: Sequence[str]) -> bool:
    """Make the object appear. False when the upload is not there: completed before, or aborted.

    Raises StorageUnavailable, also when a part is missing or its ETag is not what the store has.
    """
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, start=1)]
    upload = {"Key": key, "UploadId": upload_id, "MultipartUpload": {"Parts": parts}}
    return _unless_gone("complete_multipart_upload", **upload) is not None


def multipart_list(prefix: str) -> Iterator[tuple[str, str, datetime]]:
    """Key, id and begin of every upload to a key under ``prefix`` that is neither complete nor
    aborted.
    """
    with _errors():
        for entry in _listed("list_multipart_uploads", "Uploads", Prefix=prefix):
            yield entry["Key"], entry["UploadId"], entry["Initiated"]


def multipart_abort(key: str, upload_id: str) -> None:
    """Drop an upload and its parts; one that is not there is no error. Raises
    StorageUnavailable.
    """
    _unless_gone("abort_multipart_upload", Key=key, UploadId=upload_id)


def parts_written(key: str, upload_id: str) -> list[tuple[str, int]] | None:
    """ETag and size of each part of an upload so far, in their order; None where the upload is not
    there. Raises StorageUnavailable.
    """
    with _errors(
        f"The object store did not say what was written of {key}", "Try again; see that it runs."
    ):
        try:
            parts = _listed("list_parts", "Parts", Key=key, UploadId=upload_id)
            return [(part["ETag"], part["Size"]) for part in parts]
        except ClientError as error:
            if _code(error) in GONE:
                return None
            raise


def part_url(
    key: str,
    upload_id: str,
    number: int,
    *,
    expires_s: int,
    size_bytes: int | None = None,
    store: Store | None = None,
) -> str:
    """A URL of the store that takes a PUT of one part (from 1 on), of ``size_bytes`` alone where
    given. Signed here.
    """
    length = {} if size_bytes is None else {"ContentLength": size_bytes}
    part = {"Key": key, "UploadId": upload_id, "PartNumber": number, **length}
    return _presign("upload_part", part, expires_s, store)


def read_url(
    key: str, *, expires_s: int, save_as: str = "", method: str = "GET", store: Store | None = None
) -> str:
    """A URL of the store that serves an object, ranges too, or with HEAD its headers. Clients get
    links: links.py.
    """
    named = {"ResponseContentDisposition": f'attachment; filename="{save_as}"'} if save_as else {}
    return _presign(
        "head_object" if method == "HEAD" else "get_object", {"Key": key, **named}, expires_s, store
    )


def bucket_ensure() -> None:
    """Make the bucket if it is not there. Raises StorageUnavailable."""
    with _errors():
        try:
            client_get().head_bucket(Bucket=settings.S3_BUCKET)
        except ClientError as error:
            if _code(error) not in GONE | {"NoSuchBucket"}:
                raise
            region = settings.S3_REGION
            # AWS requires the region in the request for every region but its first, and refuses it
            # for that one.
            where = (
                {}
                if region == FIRST_REGION
                else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            )
            client_get().create_bucket(Bucket=settings.S3_BUCKET, **where)


def ready_wait(*, timeout_s: float, stopped: Callable[[], bool] = lambda: False) -> None:
    """Return once an object can be written: an open port says nothing yet, a restarted store may
    need 20 s.

    Raises StorageUnavailable after ``timeout_s``, or as soon as ``stopped()``; DiskFull from a
    store that is there and can be read, but takes nothing.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            bucket_ensure()
            # not empty: an empty object takes no volume, and needs none to be there yet
            put(HEALTH_KEY, b"ready")
            get(HEALTH_KEY)
            return
        except DiskFull:
            raise
        except StorageUnavailable:
            if time.monotonic() > deadline or stopped():
                raise
        time.sleep(0.1)


def store_get() -> Store:
    """The store that the settings name, or the embedded one."""
    if settings.S3_ENDPOINT_URL:
        endpoint_url, access, secret = (
            settings.S3_ENDPOINT_URL,
            settings.S3_ACCESS_KEY,
            settings.S3_SECRET_KEY,
        )
    else:
        credentials = seaweedfs.credentials_get(settings.DATA)
        endpoint_url = f"http://127.0.0.1:{seaweedfs.ports_get(settings.DATA)['s3']}"
        access, secret = credentials["access_key"], credentials["secret_key"]
    return Store(endpoint_url, access, secret, settings.S3_BUCKET, settings.S3_REGION)


def client_get() -> Any:
    """boto3's client of the store in use, for what this module has no function for."""
    return client_of(store_get())


@lru_cache(maxsize=4)
def client_of(store: Store) -> Any:
    """One client per store: making one costs 100 ms, using one from many threads is safe.

    boto3 is imported here: it takes a third of a second, which most commands and tests need not
    spend.
    """
    import boto3
    from botocore.config import Config

    client = boto3.session.Session().client(
        "s3",
        endpoint_url=store.endpoint_url,
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
        region_name=store.region,
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            connect_timeout=5,
            read_timeout=60,
            retries={"mode": "standard", "max_attempts": 4},
            # Presigned URLs must not ask their users for checksum headers; a manifest has the
            # sha256 of every file.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    # Each connection is verified before anything is sent: the store's port may be another user's.
    # One dictionary for its own connections, and those by a proxy.
    pools = client._endpoint.http_session._pool_classes_by_scheme  # noqa: SLF001
    pools["http"] = pool_checked(pools["http"])
    return client


def _presign(method: str, parameters: dict[str, Any], expires_s: int, store: Store | None) -> str:
    given = {"Bucket": settings.S3_BUCKET, **parameters}
    return client_of(store or store_get()).generate_presigned_url(
        method, Params=given, ExpiresIn=expires_s
    )


def _read(key: str, **part: str) -> bytes | None:
    with _errors():
        found = _unless_gone("get_object", Key=key, **part)
        return None if found is None else found["Body"].read()


def _unless_gone(method: str, **given: Any) -> Any:
    """What boto3's ``method`` returns; None where the object, or the upload, is not there. Raises
    StorageUnavailable.
    """
    with _errors():
        try:
            return getattr(client_get(), method)(Bucket=settings.S3_BUCKET, **given)
        except ClientError as error:
            if _code(error) in GONE:
                return None
            raise


def _listed(method: str, name: str, **given: str) -> Iterator[dict[str, Any]]:
    """The entries called ``name`` on all pages of a list."""
    for page in client_get().get_paginator(method).paginate(Bucket=settings.S3_BUCKET, **given):
        yield from page.get(name, [])


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


@contextmanager
def _errors(
    said: str = "The object store did not do what it was asked",
    hint: str = "Check that it runs, has room, and that the S3_* settings are right; then try again.",
) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise StorageUnavailable(f"{said}: {_strangers_port(error) or error}", hint=hint) from error


def _strangers_port(error: BaseException | None) -> str:
    """What was found at the store's port, behind the error that boto3 makes of it; empty where it
    is our store."""
    while error is not None and not isinstance(error, StrangersPort):
        error = error.__cause__ or error.__context__
    return str(error) if error else ""
