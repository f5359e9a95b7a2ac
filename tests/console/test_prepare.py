"""``manage.py prepare``: what servers that are deployed one by one find when they start."""

import io

import pytest
from botocore.retries.standard import ExponentialBackoff
from botocore.stub import Stubber
from django.core.management import CommandError, call_command

from console.management.commands import prepare
from console.object_store import client as object_store
from support.real_stores import real_stores

pytestmark = pytest.mark.django_db


def buckets() -> list[str]:
    return [bucket["Name"] for bucket in object_store.client_get().list_buckets()["Buckets"]]


@real_stores
def test_the_bucket_is_there_afterwards_and_a_second_time_is_no_error(s3, settings):
    settings.S3_BUCKET = "not-made-yet"
    assert "not-made-yet" not in buckets()
    for _ in range(2):
        said = io.StringIO()
        call_command("prepare", stdout=said)
        assert said.getvalue() == "the database and the store are ready\n"
    assert "not-made-yet" in buckets()


@pytest.mark.parametrize(
    ("region", "configuration"),
    [
        ("us-east-1", {}),
        ("eu-central-1", {"CreateBucketConfiguration": {"LocationConstraint": "eu-central-1"}}),
    ],
)
def test_a_bucket_of_aws_is_made_in_the_region_of_the_settings(
    settings, monkeypatch, region, configuration
):
    settings.S3_ENDPOINT_URL, settings.S3_REGION = f"https://s3.{region}.amazonaws.com", region
    settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = "a", "b"
    client = object_store.client_get()
    monkeypatch.setattr(object_store, "client_get", lambda: client)
    with Stubber(client) as aws:
        aws.add_client_error("head_bucket", "404", expected_params={"Bucket": settings.S3_BUCKET})
        aws.add_response(
            "create_bucket", {}, expected_params={"Bucket": settings.S3_BUCKET, **configuration}
        )
        object_store.bucket_ensure()
        aws.assert_no_pending_responses()


def test_the_embedded_store_takes_any_region(embedded_s3, settings):
    settings.S3_BUCKET, settings.S3_REGION = "made-elsewhere", "eu-central-1"
    object_store.ready_wait(timeout_s=60)
    assert "made-elsewhere" in buckets()


def test_a_store_that_does_not_answer_is_named(settings, monkeypatch):
    monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0.0)
    settings.S3_ENDPOINT_URL, settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = (
        "http://127.0.0.1:9",
        "a",
        "b",
    )
    monkeypatch.setattr(prepare, "TIMEOUT_S", 0.0)
    with pytest.raises(CommandError, match="object store"):
        call_command("prepare")
