"""Every route of the Tinker wire with another project's ids."""

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from api.tinker.answers import PROMISE
from api.tinker.routes import wire
from console.tinker.models import TinkerCheckpoint
from support.factories import BASE_MODEL
from support.tinker_client import Client
from support.tinker_harness import step, training
from support.tinker_rows import checkpoint_store

pytestmark = pytest.mark.django_db(transaction=True)
stored = sync_to_async(checkpoint_store)
# What in a route or a body names something of somebody: each route is called with alice's id and
# with one of nobody's.
BODIES: dict[str, dict[str, Any]] = {
    "session_heartbeat": {"session_id": "SESSION"},
    "sessions/SESSION/finish": {"reason": {"type": "success"}},
    "sessions/SESSION/project": {"project_id": "x"},
    "create_model": {"session_id": "SESSION", "model_seq_id": 7, "base_model": BASE_MODEL},
    "get_info": {"model_id": "MODEL"},
    "create_sampling_session": {
        "session_id": "OWN",
        "sampling_session_seq_id": 0,
        "model_path": "SAMPLER_PATH",
    },
    "join_sampling_session": {"sampling_session_id": "SAMPLING"},
    "weights_info": {"tinker_path": "STATE_PATH"},
    "optim_step": step(1, model_id="MODEL"),
    "save_weights": {"model_id": "MODEL", "seq_id": 1, "path": "x"},
    "save_weights_for_sampler": {"model_id": "MODEL", "seq_id": 1, "path": "x"},
    "save_weights_external": {"model_id": "MODEL", "seq_id": 1, "path": "x"},
    "load_weights": {
        "session_id": "OWN",
        "model_seq_id": 3,
        "path": "STATE_PATH",
        "optimizer": True,
    },
    "copy_weights": {"session_id": "OWN", "model_seq_id": 5, "source_path": "STATE_PATH"},
    "asample": {"sampling_session_id": "SAMPLING", "seq_id": 0, "prompt": {"chunks": []}},
    "retrieve_futures": {
        "target": {"type": "sampling_session", "sampling_session_id": "SAMPLING"},
        "prev_cursor": 0,
    },
    "retrieve_future": {"request_id": "PROMISE"},
    "cancel_future": {"request_id": "PROMISE"},
    "checkpoints/weights/a/ttl": {"ttl_seconds": 7200},
}
NAMES_NOTHING = {
    "client/config", "client/dynamic_config", "create_session", "telemetry", "get_server_capabilities", "healthz",
    "openapi.json", "training_runs", "checkpoints", "sessions", "sessions/search", "search_checkpoints",
    "checkpoints/search", "auth/apikey/me", "auth/token",
    "audit", "external_weights_upload_start", "billing/usage/events", "billing/usage/checkpoints/current",
}  # fmt: skip
# What is begun here by a call of its own: test_upload_links.py has another project's.
ELSEWHERE = {"external_weights_upload_finish"}
THROUGH_FUTURES = {"create_model", "load_weights"}


def cases() -> list[tuple[str, str]]:
    """Every route that names something, as a method and a path with places for ids."""
    found = []
    for route in wire:
        path = route.path[1:].replace("{segment}", "weights").replace("{name}", "a")
        for name, id_of in (
            ("{model_id}", "MODEL"),
            ("{session_id}", "SESSION"),
            ("{sampler_id}", "SAMPLING"),
        ):
            path = path.replace(name, id_of)
        assert "{" not in path, f"{route.path} has a place that this table does not fill"
        if path not in NAMES_NOTHING | ELSEWHERE:
            found.append((route.method, path))
    return found


@pytest.mark.parametrize(("method", "path"), cases())
async def test_what_is_another_projects_is_as_if_it_did_not_exist(
    alices: Client, eves: Client, method: str, path: str
) -> None:
    made = await alices.model(session := await alices.session())
    await stored(made["model_id"], "a")
    await stored(made["model_id"], "a", "sampler_weights", 2)
    sampling = await alices.post(
        "create_sampling_session",
        {"session_id": session, "sampling_session_seq_id": 9, "base_model": BASE_MODEL},
    )
    own = await eves.session()
    foreign = ids_of(session, sampling["sampling_session_id"].rpartition(":")[2], own)
    nobodys = ids_of("tnk_0123456789abcdef", "ses_0123456789abcdef", own)
    assert (foreign["MODEL"], foreign["PROMISE"]) == (made["model_id"], made["request_id"])
    answers = []
    for ids in (foreign, nobodys):
        status, answer = await eves.send(method, _filled(path, ids), _body(path, ids))
        if path in THROUGH_FUTURES:  # the promise is what it says, in base64
            answer["said"] = await eves.mistake(path, _body(path, ids))
            answer["request_id"] = answer["request_id"][: len(PROMISE)]
        for name, value in sorted(ids.items(), key=lambda pair: -len(pair[1])):
            answer = json.loads(json.dumps(answer).replace(value, name))
        answers.append((status, answer))
    assert answers[0] == answers[1], "the same answer, but for the id that was sent"
    assert answers[0][0] == (200 if path in THROUGH_FUTURES else 404), answers[0]
    if path in THROUGH_FUTURES:
        assert answers[0][1]["request_id"].startswith(PROMISE)
    assert (await alices.get(f"training_runs/{made['model_id']}/checkpoints/"[:-1]))[
        "checkpoints"
    ], "and nothing changed"


def ids_of(tinker_session: str, session: str, own: str) -> dict[str, str]:
    """What a Tinker session and its runtime's session have, by the names of the table; OWN is the
    caller's.
    """
    model = f"{tinker_session}:train:0"
    return {
        "SESSION": tinker_session, "MODEL": model, "SAMPLING": f"{tinker_session}:sample:9:{session}",
        "PROMISE": f"{session}|train:{model}:0", "STATE_PATH": f"tinker://{model}/weights/a",
        "SAMPLER_PATH": f"tinker://{model}/sampler_weights/a", "OWN": own,
    }  # fmt: skip


def _filled(text: str, ids: dict[str, str]) -> str:
    for name, value in sorted(ids.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(name, value)
    return text


def _body(path: str, ids: dict[str, str]) -> Any:
    if path == "forward_backward":
        return training(1, model_id=ids["MODEL"])
    body = next((body for name, body in BODIES.items() if path.endswith(name)), None)
    return None if body is None else json.loads(_filled(json.dumps(body), ids))


async def test_what_is_unpublished_is_no_more_read_in_what_it_replaced(
    alices: Client, eves: Client
) -> None:
    model = (await alices.model(await alices.session()))["model_id"]
    where, path = (
        f"training_runs/{model}/checkpoints/weights/a/publish",
        {"tinker_path": f"tinker://{model}/weights/a"},
    )
    await stored(model, "a")
    assert (await alices.send("POST", where))[0] == 204
    assert (await eves.send("POST", "weights_info", path))[0] == 200
    await stored(model, "a", seq_id=2, overwrite=True)
    assert (await alices.send("DELETE", where))[0] == 204
    assert (await eves.send("POST", "weights_info", path))[0] == 404


async def test_what_has_expired_is_read_by_nobody_though_it_is_published(
    alices: Client, eves: Client
) -> None:
    model = (await alices.model(await alices.session()))["model_id"]
    await stored(model, "a")
    where = f"training_runs/{model}/checkpoints/weights/a/publish"
    assert (await alices.send("POST", where))[0] == 204
    read = "POST", "weights_info", {"tinker_path": f"tinker://{model}/weights/a"}
    assert (await eves.send(*read))[0] == 200
    await TinkerCheckpoint.objects.aupdate(expires_at=timezone.now())
    assert [(await client.send(*read))[0] for client in (eves, alices)] == [404, 404]
