"""The REST interface under generated requests: each operation of the committed document, right and
wrong, by anyone.

schemathesis makes the requests from the document and holds the answers against it. They go through
the ASGI application as it is served. The session in them has a real gateway with a fake engine, so
that episodes are answered too.
"""

import asyncio
import copy
import ipaddress
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, note, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi import checks

from api import forward
from api.gateway_client import client_close
from api.openapi import FILE
from api.routes import api
from console.asgi import application
from console.sessions.models import Checkpoint, Session
from console.sessions.sharing.services import share_create
from console.users.models import ApiKey, Membership, Project, User
from support import factories
from support.forwarding import policies_set
from support.gateway_harness import RELAY_KEY, running_gateway
from tinkerscript.wire.account import Scope
from tinkerscript.wire.errors import ErrorBody

pytestmark = [pytest.mark.system, pytest.mark.django_db(transaction=True)]

SERVER = "http://testserver"
UNKNOWN = "made_up_by_nobody"
CONFORMS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
# What no value of a body may be is refused before any field is looked at: by these words.
NO_VALUES = (
    "NUL character",
    "the largest whole number",
    "not a finite number",
    "half of a surrogate pair",
)
# What ends or suspends the session comes after what needs it.
ENDINGS = ("/stop", "/suspend")
BY_LINK = "/v1/shared"
MALFORMED = {"Idempotency-Key": "x" * 201}


def operations_of(document: dict[str, Any]) -> list[APIOperation]:
    return in_order(
        found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()
    )


def in_order(operations: Iterable[APIOperation]) -> list[APIOperation]:
    """In the order in which they can be tried."""
    return sorted(
        operations,
        key=lambda operation: (operation.method == "delete", operation.path.endswith(ENDINGS)),
    )


def without_headers(document: dict[str, Any]) -> dict[str, Any]:
    """The document whose operations take no header: to make those up takes as long as all the rest
    of a request.
    """
    bare = copy.deepcopy(document)
    for methods in bare["paths"].values():
        for operation in methods.values():
            operation["parameters"] = [
                each for each in operation.get("parameters", []) if each["in"] != "header"
            ]
    return bare


DOCUMENT = json.loads(FILE.read_text())
OPERATIONS, WITHOUT_HEADERS = operations_of(DOCUMENT), operations_of(without_headers(DOCUMENT))
RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
# Groups so large that no begin is held back.
ROOM = {"grpo_n": 256, "tasks_per_batch": 1024, "max_staleness": 16}


class World:
    """The application, and alice's project in it: one thing of every kind, by the names that paths
    have for ids.
    """

    def __init__(
        self, runner: asyncio.Runner, project: Project, ids: dict[str, str], link: str
    ) -> None:
        self.project, self.ids, self.link, self._runner = project, ids, link, runner
        self._transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        self._http = httpx.AsyncClient(transport=self._transport, timeout=30)
        self._addresses = ipaddress.ip_network("10.0.0.0/8").hosts()

    def credential(self, case: Case, key: str) -> str:
        """What the owner of ``key`` sends with it: routes of public links take none but theirs."""
        return self.link if case.operation.path.startswith(BY_LINK) else key

    def ask(self, case: Case, key: str | None, ids: dict[str, str] | None = None) -> httpx.Response:
        """The answer to ``case`` with ``ids`` in its path, and no waiting for news."""
        known = self.ids if ids is None else ids
        case.path_parameters = {
            name: known.get(name, given) for name, given in (case.path_parameters or {}).items()
        }
        case.headers = {
            name: text
            for name, text in (case.headers or {}).items()
            if name.lower() != "authorization"
        }
        case.cookies = {}
        if (
            isinstance(case.body, dict)
            and "base_model" in case.body
            and case.body["base_model"] != UNKNOWN
        ):
            case.body["base_model"] = factories.BASE_MODEL
        if key:
            case.headers["Authorization"] = f"Bearer {key}"
        if isinstance(case.query, dict) and isinstance(case.query.get("wait_s"), int | float):
            case.query["wait_s"] = min(case.query["wait_s"], 0)
        return self.send(case.as_transport_kwargs(base_url=SERVER))

    def send(self, asked: dict[str, Any]) -> httpx.Response:
        """The answer to a request in the terms of requests, from an address that has sent none
        before: how many one may send is not what these tests are about, and a fast machine sends
        more than that.
        """
        asked = {name: value for name, value in asked.items() if name != "timeout"}
        made = requests.Request(**asked).prepare()
        note(f"{made.method} {made.url} {made.body!r}")
        self._transport.client = (str(next(self._addresses)), 1)
        request = self._http.build_request(
            made.method, made.url, headers=made.headers, content=made.body
        )
        return self._runner.run(self._http.send(request))

    def rows(self) -> list[Any]:
        """All that alice's project is made of."""
        mine = {"project": self.project}
        found = [
            Session.objects.filter(**mine),
            ApiKey.objects.filter(**mine),
            Membership.objects.filter(**mine),
        ]
        found += [
            Project.objects.filter(id=self.project.id),
            Checkpoint.objects.filter(session__project=self.project),
        ]
        return [list(rows.order_by("pk").values()) for rows in found]

    def close(self) -> None:
        self._runner.run(self._http.aclose())
        self._runner.run(client_close())


@pytest.fixture
def world(
    project: Project,
    alice: User,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """Served by a gateway that has an episode with a call in it."""
    monkeypatch.setattr(forward, "relay_key", lambda **_: RELAY_KEY)
    policies_set(monkeypatch, ready_s=0.1)
    folder = tmp_path_factory.mktemp("runtime")
    handle = {"launch": "test", "folder": str(folder)}
    session, _lease = factories.runtime_make(project, launcher="process", launch_handle=handle)
    checkpoint = Checkpoint.objects.create(session=session, kind="model")
    ids = factories.ids_make(project, alice) | {
        "session_id": session.id,
        "checkpoint_id": checkpoint.id,
    }
    _, link = share_create(project=project, session_id=session.id, person=alice, expires_in_days=1)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        serving = running_gateway(_folder(tmp_path_factory), session_id=session.id, **ROOM)
        gateway = runner.run(stack.enter_async_context(serving))
        Session.objects.filter(id=session.id).update(address=gateway.address)
        begun = runner.run(gateway.begin(task="t"))
        runner.run(gateway.raw_chat(begun["api_key"]))
        made = World(runner, project, ids | {"episode_id": begun["episode_id"]}, link)
        yield made
        made.close()
        runner.run(stack.aclose())


def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tokenizer for all tests, a fresh journal for each."""
    shared = tmp_path_factory.getbasetemp() / "rest_fuzz"
    shared.mkdir(exist_ok=True)
    for old in shared.glob("journal*"):
        old.unlink()
    return shared


def each_operation(
    check: Callable[[Case], None], *modes: GenerationMode, examples: int, among: Any = OPERATIONS
) -> None:
    """Run ``check`` on ``examples`` generated requests of each mode to each operation."""
    bounded = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    for operation in among:
        for mode in modes:
            if mode is RIGHT or takes_something(operation):
                bounded(given(operation.as_strategy(generation_mode=mode))(check))()


def takes_something(operation: APIOperation) -> bool:
    """Whether a request to it can be wrong in anything but its id and its key."""
    return bool(operation.body or operation.query)


@pytest.mark.parametrize(
    "among", [OPERATIONS, WITHOUT_HEADERS], ids=["with headers", "without headers"]
)
@pytest.mark.parametrize("examples", [2, pytest.param(10, marks=pytest.mark.nightly)])
def test_every_answer_to_the_owner_is_one_of_the_document(
    world: World, alice: User, examples: int, among
) -> None:
    key = factories.key_make(world.project, alice, list(Scope))
    statuses = set()

    def check(case: Case) -> None:
        answer = world.ask(case, world.credential(case, key))
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=CONFORMS)

    each_operation(check, RIGHT, examples=examples, among=among)
    assert {200, 201, 202, 204} <= statuses, "nothing was reached"


@pytest.mark.parametrize("half", [0, 1])
def test_what_the_document_does_not_allow_breaks_nothing(
    world: World, alice: User, half: int
) -> None:
    key = factories.key_make(world.project, alice, list(Scope))

    def check(case: Case) -> None:
        answer = world.ask(case, world.credential(case, key))
        case.validate_response(answer, checks=CONFORMS)

    among = WITHOUT_HEADERS[half::2]  # what is wrong is in the query or the body
    each_operation(check, WRONG, examples=4, among=among)


def test_unknown_fields_and_parameters_are_refused_by_name(world: World, alice: User) -> None:
    key = factories.key_make(world.project, alice, list(Scope))

    def check(case: Case) -> None:
        if isinstance(case.body, dict):
            case.body[UNKNOWN] = 1
        else:
            case.query = {**(case.query or {}), UNKNOWN: "1"}
        answer = world.ask(case, world.credential(case, key))
        if answer.status_code == 403:  # what people do, and no key does
            return
        assert answer.status_code == 400, answer.text
        fields = ErrorBody.model_validate_json(answer.content).error.details["fields"]
        if not any(reason in entry["problem"] for entry in fields for reason in NO_VALUES):
            assert {"field": UNKNOWN, "problem": "unknown field"} in fields

    each_operation(check, RIGHT, examples=2, among=WITHOUT_HEADERS)


def test_an_outsider_gets_the_same_whether_it_exists_or_not(world: World, bob: User) -> None:
    own = Project.objects.get(memberships__user=bob)
    key = factories.key_make(own, bob, list(Scope))
    nowhere = dict.fromkeys(world.ids, "nothing_of_anybody")
    before = world.rows()

    def check(case: Case) -> None:
        hers = world.ask(case, key)
        nonexistent = world.ask(case, key, ids=nowhere)
        # 413: a generated body may be too large for anyone
        assert hers.status_code in (404, 403, 400, 413), hers.text
        assert (hers.status_code, hers.json()["error"]) == (
            nonexistent.status_code,
            nonexistent.json()["error"],
        )

    named = [
        each
        for each in WITHOUT_HEADERS
        if each.path_parameters and not each.path.startswith(BY_LINK)
    ]
    each_operation(check, RIGHT, WRONG, examples=2, among=named)
    assert world.rows() == before


def test_no_one_gets_in_without_a_key_or_with_one_of_nonexistent(world: World) -> None:
    before = world.rows()

    def check(case: Case) -> None:
        for key, headers in ((None, MALFORMED), ("tsk_" + "0" * 40, {}), ("x", {})):
            case.headers = headers
            answer = world.ask(case, key)
            # A body that is too large is refused before anybody is asked for a key.
            is_large = len(answer.request.content) > api.limit_bytes(answer.request.url.path)
            assert answer.status_code == (413 if is_large else 401), answer.text
            assert ErrorBody.model_validate_json(answer.content).error.code == (
                "invalid_request" if is_large else "unauthenticated"
            )

    each_operation(check, RIGHT, WRONG, examples=1, among=WITHOUT_HEADERS)
    assert world.rows() == before
