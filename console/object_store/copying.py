"""Copies inside the object store: the bytes do not pass this process."""

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings

from console.errors import StorageUnavailable
from console.object_store import client as object_store
from console.object_store import free_space

ONE_REQUEST_BYTES = 4 << 30  # S3 copies up to 5 GiB in one; what is larger goes in parts


def copy(source: str, key: str, *, size_bytes: int) -> None:
    """Write the object ``source`` a second time, as ``key``. Raises StorageUnavailable, also when
    it is not there, DiskFull before the store is asked.
    """
    free_space.room_require(size_bytes=size_bytes)
    from boto3.s3.transfer import TransferConfig

    bucket = settings.S3_BUCKET
    large = TransferConfig(multipart_threshold=ONE_REQUEST_BYTES, multipart_chunksize=1 << 30)
    try:
        object_store.client_get().copy({"Bucket": bucket, "Key": source}, bucket, key, Config=large)
    except (BotoCoreError, ClientError) as error:
        raise StorageUnavailable(
            f"The object store did not copy {source}: {error}",
            hint="Try again; see that the store runs and has room.",
        ) from error
