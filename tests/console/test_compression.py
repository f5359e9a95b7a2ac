"""What the API returns is small on the wire for those who can read it so, and the same for
everybody.
"""

import gzip
import json

import pytest
from django.test import Client

from console.live.services import event_record
from console.server.middleware import LEAST_BYTES
from support import factories
from tinkerscript.wire.events import EventKind

pytestmark = pytest.mark.django_db


@pytest.fixture
def events(project, api_key):
    """The address of a long list, and headers to read it with."""
    session = factories.session_make(project)
    for number in range(200):
        event_record(
            session_id=session.id, kind=EventKind.EVENT, data={"name": "note", "number": number}
        )
    return f"/v1/sessions/{session.id}/events?limit=1000", {"Authorization": f"Bearer {api_key}"}


def test_a_list_is_a_tenth_for_a_client_that_reads_gzip_and_the_same_list(
    events, client: Client
) -> None:
    path, headers = events
    plain = client.get(path, headers=headers)
    packed = client.get(path, headers=headers | {"Accept-Encoding": "gzip, br"})
    assert "Content-Encoding" not in plain.headers and packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert json.loads(gzip.decompress(packed.content)) == plain.json()
    assert len(packed.content) < len(plain.content) / 8


@pytest.mark.django_db(transaction=True)
async def test_a_long_response_is_packed_beside_the_loop(events, async_client) -> None:
    path, headers = events
    plain = await async_client.get(path, headers=headers)
    packed = await async_client.get(path, headers=headers | {"Accept-Encoding": "gzip"})
    assert json.loads(gzip.decompress(packed.content)) == plain.json()


def test_a_small_response_and_one_that_shows_a_new_secret_are_not_packed(
    api_key: str, client: Client
) -> None:
    headers = {"Authorization": f"Bearer {api_key}", "Accept-Encoding": "gzip"}
    small = client.get("/v1/account", headers=headers)
    assert len(small.content) < LEAST_BYTES and "Content-Encoding" not in small.headers
    body = {"name": "n" * 60, "scopes": ["admin"], "note": "x" * 2000}
    refused = client.post("/v1/keys", body, content_type="application/json", headers=headers)
    assert "Content-Encoding" not in refused.headers
