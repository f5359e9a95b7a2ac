"""Every dialect with an API key: chat, completions and messages of trained models and base models.

Which paths there are is in ``tinkerscript.wire.dialects.table``: below a dialect's own prefix, and
below ``/openai``, which is the relay's with the key of an episode. Below each is ``GET v1/models``
too.

A key of ``POST /v1/sessions/{id}/checkpoints/{id}/serving-keys`` asks below a dialect's own prefix
for that one checkpoint.

The body's ``model`` is found in it and its session looked up; the rest is the relay's and the
gateway's. A model that a session of kind serving serves is called there; any other, or one whose
serving session would be waited for while such a runtime is ready, on a runtime that samples for
Tinker clients.
"""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from channels.db import database_sync_to_async

from api.forward import GatewayRequest
from api.relay.app import relay, relay_by
from api.relay.callers import MAX_KEY_LENGTH, key_sent, verified_claim
from api.relay.errors import RelayError
from api.relay.limits import limits
from api.relay.proxy import body_read, headers_passed, proxy_until_end
from api.rest.authentication import KeyCaller
from api.rest.parsing import values_check
from api.tinker.callers import caller_of
from api.tinker.relaying import runtime_announce
from console.catalogue.base_models import base_model_list
from console.errors import DomainError
from console.server.logs import logs_bind
from console.server.request_limits import Receive, Send, error_send, response_send
from console.server.ttl_cache import TtlCache
from console.sessions.serving import serving_of_model
from console.tinker.endpoints import (
    checkpoint_key_sampler,
    own_loop_check,
    sampler_is_ready,
    sampler_of_model,
    sampler_paths_of,
)
from console.users.keys import KEY_PREFIX, key_model_check
from console.users.models import ApiKey
from tinkerscript.wire.dialects.table import ANTHROPIC, PREFIX_OF_ALL, paths_below, prefix_of
from tinkerscript.wire.episode_key import PREFIX as EPISODE_PREFIX
from tinkerscript.wire.episode_key import SERVING, BadEpisodeKey, read
from tinkerscript.wire.errors import COMPRESSED_HINT, ErrorCode, ErrorDetail
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.tinker.ids import CALLER_HEADER, SAMPLER_HEADER, SamplerId

REST = ("/v1/", "/api/v1/")
CODES = {401: "invalid_api_key", 404: "model_not_found"}  # as OpenAI's clients know them
CREDENTIALS = ("authorization", "x-api-key")
MAX_MODELS, MAX_NAME_LENGTH = 1000, 1000
OF_NO_EPISODE = (
    "The key is an API key, so the call belongs to no episode: a training loop gives its agent the "
    "api_key of"
    " begin_episode()."
)
EPOCH = "1970-01-01T00:00:00+00:00"  # of base models, whose day of birth is not known


async def dialects(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve one request in any dialect, whichever key it has."""
    prefix = prefix_of(scope["path"])
    assert prefix is not None, "of other paths the middleware sends none here"
    url_path = scope["path"].removeprefix(prefix)
    if not url_path.rstrip("/") and scope["method"] in ("GET", "HEAD"):
        # Claude Code asks for the base URL itself, to have a connection.
        await response_send(send, 200, b'{"status": "ok"}')
        return
    if prefix == PREFIX_OF_ALL and not key_sent(scope["headers"]).startswith(KEY_PREFIX):
        await relay(scope, receive, send)
        return

    async def serve(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            await _serve(scope, receive, send, prefix, url_path)
        except DomainError as error:
            code = CODES.get(error.status, error.code)
            of_no_episode = (
                OF_NO_EPISODE
                if prefix == PREFIX_OF_ALL and error.code == ErrorCode.UNKNOWN_BASE_MODEL
                else ""
            )
            said = " ".join(filter(None, (error.message, error.hint, of_no_episode)))
            raise RelayError(error.status, code, said) from None
        except RelayError as error:
            if prefix == PREFIX_OF_ALL and error.status == 503:
                raise RelayError(
                    503, error.code, f"{error.message} {OF_NO_EPISODE}", retry_after_s=1
                ) from None
            raise

    await relay_by(serve, scope, receive, send)


async def no_websocket(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Refuse a WebSocket on a path of the dialects or of REST with 426 and their body: Codex goes
    on over HTTP then. A server that cannot send a response to a handshake closes it."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return

    async def refuse(message: dict[str, Any]) -> None:
        await send(message | {"type": message["type"].replace("http.", "websocket.http.", 1)})

    what, hint = f"There is no WebSocket at {scope['path']}.", "Send the request over HTTP."
    if scope["path"].startswith(REST):
        detail = ErrorDetail(code=ErrorCode.INVALID_REQUEST, message=what, hint=hint, details={})
        await error_send(refuse, 426, detail, request_id="")
        return
    hint = f"{hint[:-1]}, with stream: true for its events."
    await RelayError(426, "upgrade_refused", f"{what} {hint}").send(refuse, scope["path"])


async def _serve(
    scope: dict[str, Any], receive: Receive, send: Send, prefix: str, url_path: str
) -> None:
    secret = key_sent(scope["headers"])
    checkpoint_id = _checkpoint_of(secret)
    if checkpoint_id:
        caller_id = verified_claim(scope["headers"]).key_id
    else:
        caller = await caller_of(secret)
        caller_id = caller.key.id
        if scope["method"] == "GET" and url_path == "/v1/models":
            await response_send(send, 200, await database_sync_to_async(_models)(caller, prefix))
            return
    if url_path not in (known := paths_below(prefix)):
        served = ", ".join(f"{prefix}{each}" for each in known)
        raise RelayError(
            404, "not_found", f"There is nothing at {scope['path']}; these are: {served}."
        )
    if scope["method"] != "POST":
        raise RelayError(
            405, "method_not_allowed", f"{scope['path']} takes POST, not {scope['method']}."
        )
    encodings = {value.lower() for key, value in scope["headers"] if key == b"content-encoding"}
    if encodings - {b"identity"}:
        raise RelayError(
            415,
            "invalid_request",
            f"The body is compressed, and is not unpacked. {COMPRESSED_HINT}",
        )
    with limits.hold(caller_id) as holding:
        body = await body_read(receive, holding)
        place = await _served.get(
            f"{caller_id}|{checkpoint_id}|{prefix}|{await asyncio.to_thread(_model_of, body)}"
        )
        logs_bind(session_id=place.session_id)
        headers = headers_passed(scope["headers"])
        for credential in CREDENTIALS:  # a runtime never sees a key
            headers.popall(credential, None)
        headers[CALLER_HEADER] = caller_id
        announce = None
        if place.sampler_id is not None:
            headers[SAMPLER_HEADER] = str(place.sampler_id)
            announce = partial(runtime_announce, place.sampler_id)
        request = GatewayRequest("POST", url_path, headers, body, prepare=announce)
        await proxy_until_end(place.session_id, caller_id, request, receive, send)


def _model_of(body: bytes) -> str:
    """The body's ``model``. Raises RelayError, InvalidRequest."""
    values_check(body)
    try:
        name = json.loads(body)["model"]
    except (ValueError, TypeError, KeyError, RecursionError):
        name = None
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise RelayError(
            400,
            "invalid_request",
            "The body must be a JSON object whose model names one: see models.",
        )
    return name


def _models(caller: KeyCaller, prefix: str) -> bytes:
    """``GET models``: the base models that the key may use, then the project's newest samplers."""
    allowed = caller.key.allowed_models
    named: list[tuple[str, datetime | None]] = [
        (model.name, None)
        for model in base_model_list()
        if allowed is None or model.name in allowed
    ]
    for stored in sampler_paths_of(project=caller.project, limit=MAX_MODELS):
        if allowed is None or stored.model.base_model in allowed:
            named.append((stored.path, stored.created_at))
    if prefix == ANTHROPIC.prefix:
        data = [_anthropic_model(name, at.isoformat() if at else EPOCH) for name, at in named]
        ends = {
            "first_id": named[0][0] if named else None,
            "last_id": named[-1][0] if named else None,
        }
        return json.dumps({"data": data, "has_more": False} | ends).encode()
    models = [
        {
            "id": name,
            "object": "model",
            "created": int(at.timestamp()) if at else 0,
            "owned_by": "tinkerscript",
        }
        for name, at in named
    ]
    return json.dumps({"object": "list", "data": models}).encode()


def _anthropic_model(name: str, created_at: str) -> dict[str, str]:
    return {"type": "model", "id": name, "display_name": name, "created_at": created_at}


@dataclass(frozen=True)
class _Served:
    """Where calls of a model go; ``sampler_id`` where that runtime serves more than one."""

    session_id: str
    sampler_id: SamplerId | None = None


def _checkpoint_of(secret: str) -> str:
    """The checkpoint whose key this claims to be; empty for every other key."""
    if not secret.startswith(EPISODE_PREFIX) or len(secret) > MAX_KEY_LENGTH:
        return ""
    try:
        claimed = read(secret)
    except BadEpisodeKey:
        return ""
    of_checkpoint = claimed.episode_id == SERVING and claimed.session_id.startswith("ckp_")
    return claimed.session_id if of_checkpoint else ""


def _find(wanted: str) -> _Served:
    caller_id, checkpoint_id, prefix, name = wanted.split("|", 3)
    if checkpoint_id:
        sampler = checkpoint_key_sampler(
            caller_id=caller_id, checkpoint_id=checkpoint_id, name=name
        )
        return _Served(sampler.session_id, SamplerId.parse(sampler.id))
    key = ApiKey.objects.select_related("project", "user").get(id=caller_id)
    if prefix == PREFIX_OF_ALL:
        own_loop_check(key=key, name=name)
    session = serving_of_model(project=key.project, key=key, name=name)
    waits = session is not None and session.id != name and session.state != SessionState.READY
    if waits and sampler_is_ready(project=key.project, key=key, name=name):
        session = None
    if session is not None:
        key_model_check(key=key, base_model=session.base_model)
        return _Served(session.id)
    sampler = sampler_of_model(project=key.project, person=key.user, key=key, name=name)
    return _Served(sampler.session_id, SamplerId.parse(sampler.id))


# A request a second looks it up; those between go where it went. An ended session is seen by the
# relay.
_served: TtlCache[str, _Served] = TtlCache(database_sync_to_async(_find))
