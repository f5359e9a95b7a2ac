"""``manage.py prepare``: what servers that are deployed one by one find when they start."""

import io

import pytest
from django.core.management import CommandError, call_command

from console.management.commands import prepare
from console.sessions import storage

pytestmark = pytest.mark.django_db


def buckets() -> list[str]:
    return [bucket["Name"] for bucket in storage._client().list_buckets()["Buckets"]]


def test_the_bucket_is_there_afterwards_and_a_second_time_is_no_error(s3, settings):
    settings.S3_BUCKET = "not-made-yet"
    assert "not-made-yet" not in buckets()
    for _ in range(2):
        said = io.StringIO()
        call_command("prepare", stdout=said)
        assert said.getvalue() == "the database and the store are ready\n"
    assert "not-made-yet" in buckets()


def test_a_store_that_does_not_answer_is_named(settings, monkeypatch):
    settings.S3_ENDPOINT_URL, settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = "http://127.0.0.1:9", "a", "b"
    monkeypatch.setattr(prepare, "TIMEOUT_S", 0.0)
    with pytest.raises(CommandError, match="object store"):
        call_command("prepare")
