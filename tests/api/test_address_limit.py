"""What one address may send before the server knows who sends it, and who passes all the same."""

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator

from api.rest import authentication
from console.asgi import application
from console.server import address_limit, request_limits
from console.server.address_limit import address_of
from console.users.keys import key_revoke
from console.users.models import ApiKey, Project
from support.asgi_calls import Call

pytestmark = pytest.mark.django_db(transaction=True)
A, B = "203.0.113.7", "198.51.100.9"
BOUNDS = address_limit.LIMIT, address_limit.WINDOW_S


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address may send ten wrong keys in one window, which does not end during a test."""
    monkeypatch.setattr(address_limit, "LIMIT", 10)
    monkeypatch.setattr(address_limit, "WINDOW_S", 100_000)
    monkeypatch.setattr(request_limits, "WINDOW_S", 100_000)
    monkeypatch.setattr(address_limit, "known", {})


async def ask(
    key: str | None,
    address: str = A,
    path: str = "/v1/sessions",
    method: str = "GET",
    body: bytes = b"",
    **headers: str,
) -> tuple[int, dict[str, str], bytes]:
    call = Call(application, method, path, key=key, body=body, **headers)
    call.scope["client"] = (address, 1)
    return await call.answer()


async def statuses(count: int, **options: str) -> list[int]:
    return [(await ask(f"tsk_wrong_{number}", **options))[0] for number in range(count)]


def test_the_bounds_are_those_that_the_page_on_security_has() -> None:
    assert BOUNDS == (300, 10)


async def test_wrong_keys_of_one_address_are_refused_before_they_are_looked_up_and_another_address_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[str] = []
    real = authentication.key_authenticate
    monkeypatch.setattr(
        authentication,
        "key_authenticate",
        lambda secret: looked_up.append(secret) or real(secret=secret),
    )
    assert await statuses(10) == [401] * 10
    status, headers, body = await ask("tsk_wrong_again")
    assert (status, len(looked_up)) == (429, 10)
    assert 0 < int(headers["retry-after"]) <= 100_000 and headers["connection"] == "close"
    assert b"rate_limited" in body and headers["x-request-id"].encode() in body
    assert (await ask("tsk_wrong", B))[0] == 401
    assert (await ask(None, path="/healthz"))[0] == 200, "what watches the server is not counted"


@pytest.mark.parametrize(
    "path", ["/api/v1/get_server_capabilities", "/oai/api/v1/models", "/openai/v1/models"]
)
async def test_other_dialects_have_the_same_limit(path: str) -> None:
    found = [
        (await ask(f"tsk_wrong_{number}", path=path, x_api_key="tsk_wrong"))[0]
        for number in range(12)
    ]
    assert found == [401] * 10 + [429] * 2


async def test_a_key_that_was_right_passes_while_its_address_is_shut(api_key: str) -> None:
    assert (await ask(api_key))[0] == 200
    assert set(await statuses(20)) == {401, 429}
    assert [(await ask(api_key))[0] for _ in range(30)] == [200] * 30
    assert (await ask("tsk_wrong"))[0] == 429


async def test_requests_of_a_known_caller_take_nothing_from_its_address(api_key: str) -> None:
    assert [(await ask(api_key, path="/v1/sessions?unknown=1"))[0] for _ in range(30)] == [400] * 30
    assert (await ask("tsk_wrong"))[0] == 401


async def test_a_key_that_was_revoked_is_a_wrong_one(api_key: str, project: Project) -> None:
    assert (await ask(api_key))[0] == 200
    key = await ApiKey.objects.select_related("user").aget(project=project)
    await sync_to_async(key_revoke)(project=project, user=key.user, key_id=key.id)
    found = [(await ask(api_key))[0] for _ in range(20)]
    assert found[:2] == [401, 401] and found[-5:] == [429] * 5


async def test_what_a_stranger_sends_past_the_limit_is_not_read() -> None:
    await statuses(10)
    call = Call(
        application, "POST", "/v1/sessions/ses_1/tasks", key="tsk_wrong", body=bytes(1 << 20)
    )
    call.scope["client"] = (A, 1)
    status, headers, _ = await call.answer()
    assert (status, headers["connection"], call.incoming.qsize()) == (429, "close", 1)


async def test_what_carries_no_credential_counts_nothing_and_is_served() -> None:
    assert [(await ask(None))[0] for _ in range(20)] == [401] * 20
    await statuses(10)
    assert (await ask("tsk_wrong"))[0] == 429
    assert [(await ask(None, path=path))[0] for path in ("/healthz", "/v1/sessions")] == [200, 401]


async def test_a_credential_that_a_public_page_was_asked_with_is_not_known() -> None:
    assert (await ask("tsk_wrong", path="/healthz"))[0] == 200
    await statuses(10)
    assert (await ask("tsk_wrong"))[0] == 429


async def test_sign_ins_that_are_none_count_as_wrong_keys_do() -> None:
    cookies = [f"theme=dark; sessionid={number:032d}" for number in range(12)]
    assert [(await ask(None, cookie=cookie))[0] for cookie in cookies] == [401] * 10 + [429] * 2


async def test_handshakes_of_websockets_count_too() -> None:
    async def is_open() -> bool:
        client = WebsocketCommunicator(
            application, "/ws/v1/sessions/ses_1", headers=[(b"authorization", b"Bearer x")]
        )
        client.scope["client"] = (A, 1)
        opened, _ = await client.connect(timeout=10)
        await client.disconnect()
        return opened

    assert [await is_open() for _ in range(12)] == [True] * 10 + [False] * 2
    assert (await ask("tsk_wrong"))[0] == 429


async def test_a_client_is_told_by_as_many_proxies_as_are_ours_and_by_no_one_else(settings) -> None:
    assert await statuses(10, x_forwarded_for="1.1.1.1") == [401] * 10
    assert (await ask("tsk_wrong", x_forwarded_for="2.2.2.2"))[0] == 429, (
        "whom nobody trusts names nobody"
    )
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    assert await statuses(10, x_forwarded_for="9.9.9.9, 1.1.1.1") == [401] * 10
    assert (await ask("tsk_wrong", x_forwarded_for="8.8.8.8, 1.1.1.1"))[0] == 429, (
        "what the client wrote counts nothing"
    )
    assert (await ask("tsk_wrong", x_forwarded_for="1.1.1.1, 2.2.2.2"))[0] == 401


@pytest.mark.parametrize(
    ("client", "found"),
    [
        ((A, 1), A), (("::ffff:203.0.113.7", 1), A), (("2001:db8:1:2:3::4", 1), "2001:db8:1:2::/64"),
        (None, ""), (("", 0), ""), (("testclient", 1), ""),
    ],
)  # fmt: skip
def test_an_address_of_ipv6_stands_for_its_network(client, found: str) -> None:
    assert address_of({"client": client, "headers": []}) == found
