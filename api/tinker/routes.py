"""The rows of the Tinker wire in the table of routes, and the document that is made of them.
docs/reference/tinker.md lists what of a call is refused.

A change without an entry in the audit log has one where it is done (the start of a runtime, a copy,
an upload), or keeps nothing; tests/api/tinker/test_audit.py has each reason.
"""

from typing import Any

from api.openapi import document_of, path_parameters, request_body
from api.relay.proxy import MAX_BODY_BYTES
from api.rest.authentication import KeyCaller
from api.rest.permissions import RequireScope
from api.rest.route import Route, RouteTable
from api.tinker import account, bookkeeping, records, relaying, search
from api.tinker.answers import Json
from api.tinker.operations import FUTURES, TRAINING
from tinkerscript.wire.account import Scope
from tinkerscript.wire.version import VERSION

TOLD_BYTES = 1 << 20  # of what tells of a client, and of what asks for futures
INFO = {"title": "The Tinker wire", "version": VERSION}
KEY = {
    "type": "apiKey",
    "in": "header",
    "name": "X-API-Key",
    "description": "An API key made in the console.",
}
FAILURE = {"description": "Refused or failed: JSON with `detail`."}
RUN = "/training_runs/{model_id}"
CHECKPOINT = RUN + "/checkpoints/{segment}/{name}"
SESSION = "/sessions/{session_id}"

key = RequireScope(None)  # those that the wire needs are checked for every call
admin = RequireScope(Scope.ADMIN)
wire = RouteTable("/api/v1")
route = wire.route


def document(caller: KeyCaller) -> Json:
    """``GET /openapi.json``: this document."""
    return document_of(wire, INFO, {"Key": KEY}, _operation)


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": "Served by a runtime."
        if route.is_async
        else (route.view.__doc__ or "").partition(": ")[2],
        "parameters": path_parameters(route),
        "security": [{"Key": []}],
        "responses": {
            "200": {"description": "A future" if route.promises else "Done"},
            "default": FAILURE,
        },
    }
    if route.body is not None and not route.is_async:
        operation["requestBody"] = request_body(route.body, schemas)
    return operation


route("POST", "/client/config", bookkeeping.client_config, key, audit=False)
route("POST", "/client/dynamic_config", bookkeeping.client_dynamic_config, key, audit=False)
route("GET", "/get_server_capabilities", bookkeeping.capabilities, key)
route("GET", "/healthz", bookkeeping.healthz, key)
route("GET", "/openapi.json", document, key)
route("POST", "/telemetry", bookkeeping.telemetry, key, audit=False, limit_bytes=TOLD_BYTES)

route("POST", "/create_session", bookkeeping.session_create, key, audit=False)
route("POST", "/session_heartbeat", bookkeeping.session_heartbeat, key, audit=False)
route("GET", "/sessions", records.sessions, key)
route("POST", "/sessions/search", search.sessions_search, key, audit=False)
route("GET", SESSION, records.session, key)
route("POST", SESSION + "/finish", bookkeeping.session_finish, key, audit="tinker_session_finish")
route("PUT", SESSION + "/project", search.session_project_set, key, audit=False)
route("GET", SESSION + "/trace_export", records.trace_export, key)

route("POST", "/create_model", bookkeeping.model_create, key, audit=False, promises=True)
route("POST", "/get_info", bookkeeping.model_info, key, audit=False)
route("POST", "/create_sampling_session", bookkeeping.sampler_create, key, audit=False)
route("POST", "/join_sampling_session", search.sampling_session_join, key, audit=False)
route("GET", "/samplers/{sampler_id}", bookkeeping.sampler_get, key)

route("GET", "/training_runs", records.runs, key)
route("GET", RUN, records.run, key)
route("GET", RUN + "/checkpoints", records.run_checkpoints, key)
route("DELETE", CHECKPOINT, records.checkpoint_delete, key)
route("POST", CHECKPOINT + "/publish", records.checkpoint_publish, key)
route("DELETE", CHECKPOINT + "/publish", records.checkpoint_unpublish, key)
route("PUT", CHECKPOINT + "/ttl", records.checkpoint_ttl, key)
route(
    "GET",
    RUN + "/checkpoints/external_weights/{name}/external_weights_urls",
    records.external_urls,
    key,
)
route("GET", "/checkpoints", records.all_checkpoints, key)
route("POST", "/checkpoints/search", search.checkpoints_search, key, audit=False)
route("POST", "/search_checkpoints", search.checkpoints_search, key, audit=False)
route("POST", "/weights_info", records.weights_info, key, audit=False)
route("POST", "/copy_weights", bookkeeping.weights_copy, key, audit=False)
route("POST", "/external_weights_upload_start", records.external_upload_start, key, audit=False)
route("POST", "/external_weights_upload_finish", records.external_upload_finish, key, audit=False)

route("POST", "/auth/token", account.auth_token, key, audit=False)
route("GET", "/auth/apikey/me", records.key_get, key)
route("DELETE", "/auth/apikey/me", account.key_delete, key, audit="key_revoke")
route("GET", "/audit", account.audit, admin)
route("GET", "/billing/usage/events", account.usage_events, key)
route("GET", "/billing/usage/checkpoints/current", account.storage_usage, key)

# What a runtime serves: its bytes are passed on as they came. Calls about futures have ids alone.
for kind in FUTURES:
    route("POST", f"/{kind}", relaying.relay, key, limit_bytes=TOLD_BYTES)
for kind in ("asample", *TRAINING):
    route("POST", f"/{kind}", relaying.relay, key, limit_bytes=MAX_BODY_BYTES)
