"""The port of a runtime that was killed is another user's by now: they get no prompt, no key, and
no say.
"""

import pytest

from api.forward import POLICIES, GatewayRequest, routes, send
from api.gateway_client import CONNECTION_ERRORS, client_close
from console.asgi import application
from console.sessions.models import Session
from support.another_user import require_root
from support.asgi_calls import Call, episode_key
from support.forwarding import policies_set
from support.strangers_port import StrangersPort, strangers_port

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = b'{"model": "m", "messages": [{"role": "user", "content": "the prompt"}]}'
FORGED = '{"choices": [{"message": {"content": "forged"}}]}'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    policies_set(monkeypatch, ready_s=0.1)
    monkeypatch.setattr("console.server.ttl_cache.FRESH_S", 0.01)


@pytest.fixture
async def taken(served: Session):
    """Theirs is the port that the row of the session names."""
    require_root()
    with strangers_port(forged=FORGED) as stranger:
        await Session.objects.filter(id=served.id).aupdate(address=stranger.address)
        yield stranger
        await client_close()


async def test_a_call_gets_503_and_no_forged_answer(served: Session, taken: StrangersPort) -> None:
    call = Call(
        application, "POST", "/openai/v1/chat/completions", key=episode_key(served.id), body=SECRET
    )
    status, _, body = await call.answer()
    assert (status, b"forged" in body) == (503, False)
    assert taken.sent() == b""


async def test_rest_waits_for_the_runtime_and_sends_no_relay_key(
    served: Session, taken: StrangersPort, api_key: str
) -> None:
    call = Call(
        application,
        "POST",
        f"/v1/sessions/{served.id}/episodes",
        key=api_key,
        body=b'{"task": "t"}',
    )
    status, _, body = await call.answer()
    assert (status, b"forged" in body) == (503, False)
    assert taken.sent() == b""


async def test_nothing_of_the_tinker_wire_is_sent_there(
    served: Session, taken: StrangersPort
) -> None:
    route = await routes.get(served.id)
    with pytest.raises(CONNECTION_ERRORS):
        await send(
            route, GatewayRequest("POST", "/api/v1/optim_step", {}, SECRET), POLICIES["tinker"]
        )
    assert taken.sent() == b""
