"""What was written of a multipart upload so far."""

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings

from console.errors import StorageUnavailable
from console.object_store import client as object_store


def parts_written(key: str, upload_id: str) -> list[tuple[str, int]] | None:
    """ETag and size of each part, in their order; None where the upload is not there. Raises
    StorageUnavailable.
    """
    try:
        pages = object_store.client_get().get_paginator("list_parts")
        found = pages.paginate(Bucket=settings.S3_BUCKET, Key=key, UploadId=upload_id)
        return [(part["ETag"], part["Size"]) for page in found for part in page.get("Parts", [])]
    except (BotoCoreError, ClientError) as error:
        if (
            isinstance(error, ClientError)
            and error.response.get("Error", {}).get("Code") in object_store.GONE
        ):
            return None
        raise StorageUnavailable(
            f"The object store did not say what was written of {key}: {error}",
            hint="Try again; see that it runs.",
        ) from error
