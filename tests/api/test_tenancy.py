"""Two tenants, one server: whatever bob names that is alice's does not exist for him, and she sees
nothing.

Routes are read from the URL table, ids from their paths, parameters and bodies: what is not known
here fails.
"""

import json
import re
from collections.abc import Iterable, Iterator

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.apps import apps
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from api.openapi import document
from api.routes import api
from console import asgi
from console.sessions.models import Checkpoint, Session, Upload
from console.users.models import Project
from support import factories
from support.asgi_calls import Call, episode_key
from support.route_cases import (
    BODIES,
    FOR_INVITED,
    FOR_PEOPLE,
    LEASE_BODIES,
    WITHOUT_ID,
    ask,
    undone,
)
from tinkerscript.wire.account import Scope

# What the server answers beside the API, and why no tenant's id can be in it.
NOT_OF_A_TENANT = {
    "healthz": "no data",
    "readyz": "no data",
    "openapi.json": "the same for everybody",
    "docs": "the same for everybody",
    "demo/v1/<path:path>": "a recorded run that everybody may read",
    "metrics": "numbers over all tenants, for those who run the server",
    "client/<str:name>": "the client's wheel, the same for everybody",
    "sign-in/oidc/begin": "a stranger's way to the identity provider",
    "sign-in/oidc/callback": "what the provider says about the one who signs in",
    r"^(?:v1|openai|ws|_allauth|static|client)(?:/|$)": "404",
    "^": "the console's page, the same for everybody",
}
BY_DJANGO = ("admin/", "_allauth/")  # staff alone; the signed-in person's own account alone
CHANNELS = {
    "ws/v1/sessions/<str:session_id>", "ws/v1/projects/<str:project_id>",
    asgi.NO_CHANNELS,  # refused with a body
    "^",
}  # fmt: skip

# What is not in our tables: the gateway of the session in the path is asked, and another tenant's
# session is a 404.
OF_THE_GATEWAY = {"episode_id", "batch"}
NUMBERS = {"step"}  # of the session in the path

# Ids that are not in a path: by parameter or field, with what happens to another tenant's.
NAMES_ROWS = {"cursor", "supersedes", "model"}
NAMES_NOTHING = {
    "after", "before", "limit", "kind", "wait_s", "newest", "spread", "names", "x", "points",
    "base_model", "config", "priority", "budget", "state", "lines", "marks", "pinned",
    "reverse", "name", "scopes", "expires_in_days", "allowed_models", "spend_cap_s",
    "email", "role", "url", "topics",
    "actor", "action", "target", "since", "until", "metric", "above", "address", "value", "steps", "runs",
    "task", "eval", "timeout_s", "output", "reason", "reward_mean", "reward_std", "success_rate", "episodes", "failed",
    "rows", "attempts", "tries", "final", "worker", "count", "held", "lease_s", "lease", "error", "episode_id",
    "judged", "outputs", "learning_rate", "kl_coef",
    "episode_ids",  # the gateway looks among its own session's
    "rewards",  # by episode: the same
    "upto", "tag", "tags", "notes", "thumb", "comment", "commented", "annotations_after", "standing",
    "max_context_length", "max_tokens", "temperature", "model_names", "idle_suspend_s",
    "fate", "trainer_ranks", "reward_min", "reward_max", "version", "step", "agent", "q", "sort",
    "from_version", "to_version", "held_out",
    "by_task", "metrics", "measures", "extremes", "x_from", "x_to", "number_from", "number_to", "first", "last", "by",
    "base_url", "api_key", "body", "measure", "sort_by",
}  # fmt: skip


@pytest.fixture
def hers(project, alice) -> dict[str, str]:
    """Something of alice's of every kind."""
    return factories.ids_make(project, alice)


@pytest.fixture
def own(bob) -> Project:
    return Project.objects.get(memberships__user=bob)


@pytest.fixture
def his(own, bob) -> dict[str, str]:
    """Something of bob's of every kind."""
    return factories.ids_make(own, bob)


@pytest.fixture
def eve(own, bob, client_for) -> Client:
    """Bob with a key that may do everything in his own project."""
    return client_for(factories.key_make(own, bob, list(Scope)))


def addresses(patterns: Iterable[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        here = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, here)
        else:
            yield here


def names_in(schema: object) -> Iterator[str]:
    """The fields of a request's body at its first level."""
    yield from schema.get("properties", {})


# -- Nothing is forgotten ---------------------------------------------------------------------------------------------


def test_every_address_of_the_server_is_known_here() -> None:
    found = set(addresses(get_resolver().url_patterns))
    ours = {"v1" + re.sub(r"{(.+?)}", r"<\1>", path) for path in api.paths}
    others = {address for address in found - ours if not address.startswith(BY_DJANGO)}
    assert others - {"v1/"} == set(NOT_OF_A_TENANT)
    assert ours <= found
    assert {str(channel.pattern) for channel in asgi.channels} == CHANNELS


def test_every_kind_of_id_is_tried_here(hers) -> None:
    kinds = {kind for path in api.paths for kind in re.findall(r"{(\w+)}", path)}
    assert kinds == set(hers) | {"upload_id"}


def test_every_parameter_and_field_is_known_to_name_a_row_or_not() -> None:
    schema, found = document(), set()
    for methods in schema["paths"].values():
        for operation in methods.values():
            found |= {entry["name"] for entry in operation["parameters"] if entry["in"] == "query"}
            body = (
                operation.get("requestBody", {})
                .get("content", {})
                .get("application/json", {})
                .get("schema", {})
            )
            found |= set(
                names_in(
                    schema["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], {})
                )
            )
    assert found == NAMES_ROWS | NAMES_NOTHING


# -- One of her ids among his own -------------------------------------------------------------------------------------

IDS_IN_PATHS = [
    (method, path, kind)
    for method, path in BODIES
    for kind in re.findall(r"{(\w+)}", path)
    if kind not in OF_THE_GATEWAY | NUMBERS
]


@pytest.mark.smoke
def test_another_tenants_id_is_as_good_as_none(hers, his, eve, bob) -> None:
    signed_in = Client()
    signed_in.force_login(bob)
    for method, path, kind in IDS_IN_PATHS:
        client = (
            signed_in if (method, path) in FOR_INVITED | FOR_PEOPLE else eve
        )  # no key gets as far as the id
        with undone():
            answer = ask(client, method, path, his | {kind: hers[kind]}, BODIES[method, path])
            none = ask(client, method, path, his | {kind: "nothing"}, BODIES[method, path])
        assert (answer.status_code, none.status_code) == (404, 404), (
            method,
            path,
            kind,
            answer.content,
        )
        assert answer.json()["error"] == none.json()["error"], (method, path, kind)


@pytest.mark.system
def test_another_tenants_project_cannot_be_chosen(hers, project, bob) -> None:
    client = Client()
    client.force_login(bob)
    for method, path in BODIES:
        for project_id in (project.id, "prj_nothing"):
            with undone():
                answer = ask(
                    client, method, path, hers, BODIES[method, path], X_Project_Id=project_id
                )
            assert answer.status_code == 404, (method, path, answer.content)


@pytest.mark.parametrize("path", ["/sessions", "/usage"])
def test_another_tenants_row_is_no_cursor(path, hers, his, eve) -> None:
    answer = ask(eve, "GET", f"{path}?cursor={hers['session_id']}", {})
    none = ask(eve, "GET", f"{path}?cursor=nothing", {})
    assert (answer.status_code, answer.json()["error"]) == (none.status_code, none.json()["error"])
    assert answer.status_code == 400


@pytest.mark.parametrize(("method", "path"), LEASE_BODIES)
def test_a_lease_reaches_its_own_session_alone(method, path, project, own, client_for) -> None:
    """The session is the lease's: no path names it, and the one id that does name something is
    looked up in it.
    """
    session, _ = factories.runtime_make(project)
    Upload.objects.create(id="upl_hers", session=session, files=[])
    before = Session.objects.filter(id=session.id).values().get()
    _, lease = factories.runtime_make(own)
    answer = ask(
        client_for(lease), method, path, {"upload_id": "upl_hers"}, LEASE_BODIES[method, path]
    )
    # of a model that this session does not have
    names_a_row = "{" in path or path.startswith("/runtime/named-")
    # 503: there is no object store here to open an upload in.
    assert answer.status_code in ((404,) if names_a_row else (200, 204, 503)), answer.content
    assert Session.objects.filter(id=session.id).values().get() == before


def test_another_tenants_checkpoint_is_no_model_to_serve(
    hers, own, eve, api_key, client_for
) -> None:
    Checkpoint.objects.filter(id=hers["checkpoint_id"]).update(state="committed")
    body, nothing = {"model": hers["checkpoint_id"]}, {"model": "ckp_nothing"}
    answer, none = (ask(eve, "POST", "/serving", {}, named) for named in (body, nothing))
    assert (answer.status_code, answer.json()["error"]) == (404, none.json()["error"])
    assert not Session.objects.filter(project=own).exists()
    assert ask(client_for(api_key), "POST", "/serving", {}, body).status_code == 201, (
        "it is one for herself"
    )


# -- What she and her log see of it -----------------------------------------------------------------------------------


def rows_of(ids: dict[str, str], project: Project, *, but_not: Project) -> set[str]:
    """Every row of every table that names something of the project's, and is not another's own."""
    marks = [*ids.values(), project.id]
    found = set()
    for model in apps.get_models():
        for row in model.objects.values():
            if any(mark in str(row) for mark in marks) and but_not.id not in str(row):
                found.add(f"{model.__name__} {row}")
    return found


@pytest.mark.system
def test_nothing_of_it_shows_with_the_other_tenant(
    hers, his, project, own, alice, eve, caplog
) -> None:
    client = Client()
    client.force_login(alice)
    # her own reading of it is in her audit log
    taken_home = "/sessions/{session_id}/episodes/documents"
    reads = [
        path for method, path in [*BODIES, *WITHOUT_ID] if method == "GET" and path != taken_home
    ]

    def seen() -> list[bytes]:
        answers = [ask(client, "GET", path, hers).content for path in reads]
        return [re.sub(rb'"request_id":"\w+"', b"", answer) for answer in answers]

    her_view, her_rows = seen(), rows_of(hers, project, but_not=own)
    for (method, path), body in BODIES.items():
        ask(eve, method, path, hers, body)
        ask(eve, method, path, hers, body, Idempotency_Key="k", X_Project_Id=project.id)
    for (method, path), body in WITHOUT_ID.items():
        ask(eve, method, path, {}, body, X_Project_Id=project.id)
    assert seen() == her_view
    assert rows_of(hers, project, but_not=own) == her_rows
    assert not [
        record
        for record in caplog.records
        if getattr(record, "session_id", None) == hers["session_id"]
    ]


@pytest.mark.parametrize("path", [path for method, path in WITHOUT_ID if method == "GET"])
def test_no_list_shows_what_is_another_tenants(path, hers, his, project, alice, eve) -> None:
    shown = ask(eve, "GET", path, {}).content.decode()
    assert not [mark for mark in [*hers.values(), project.id, alice.email] if mark in shown]


# -- The relay and the live channel -----------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
async def test_the_live_channels_of_another_tenant_do_not_exist(project, outsider_key) -> None:
    session = await sync_to_async(factories.session_make)(project)
    for watched in (
        f"sessions/{session.id}",
        "sessions/ses_nothing",
        f"projects/{project.id}",
        "projects/prj_nothing",
    ):
        headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {outsider_key}".encode())]
        client = WebsocketCommunicator(asgi.application, f"/ws/v1/{watched}", headers=headers)
        await client.connect(timeout=25)
        assert (await client.receive_output(timeout=25))["code"] == 4404


@pytest.mark.django_db(transaction=True)
async def test_the_relay_sends_a_call_to_the_session_of_its_key_alone(gateway, served, own) -> None:
    """There is no id to send: the signed key is the id. His own, and his API key, never reach her
    gateway.
    """
    session, _ = await sync_to_async(factories.runtime_make)(own)
    await Session.objects.filter(id=session.id).aupdate(state="stopped")
    path = "/openai/v1/chat/completions"
    for key, status in [
        (episode_key(session.id), 410),
        (episode_key(served.id, secret="guessed"), 401),
    ]:
        got, _, body = await Call(asgi.application, "POST", path, key=key, body=b"{}").answer()
        assert (got, served.id in body.decode()) == (status, False)
    assert gateway.requests == []
    assert json.loads(body)["error"]["code"] == "invalid_api_key"


@pytest.mark.django_db(transaction=True)
async def test_a_model_that_another_tenant_serves_is_called_by_none_of_its_names(
    gateway, served, api_key, outsider_key
) -> None:
    serves = {"kind": "serving", "served_checkpoint_id": "ckp_of_hers"}
    await Session.objects.filter(id=served.id).aupdate(**serves)

    async def call(key: str, name: str) -> tuple[int, str]:
        body = json.dumps({"model": name, "messages": []}).encode()
        got, _, said = await Call(
            asgi.application, "POST", "/oai/api/v1/chat/completions", key=key, body=body
        ).answer()
        return got, said.decode().replace(name, "...")

    for name, nothing in ((served.id, "ses_nothing"), ("ckp_of_hers", "ckp_nothing")):
        answer = await call(outsider_key, name)
        assert answer == await call(outsider_key, nothing) and answer[0] in (400, 404), answer
        assert gateway.requests == []
        assert (await call(api_key, name))[0] == 200
        assert gateway.requests.pop()
