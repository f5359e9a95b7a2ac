"""People, keys and real object stores for every test that asks for them."""

from collections.abc import Callable, Iterator

import factories
import pytest
import swift_server
from asgiref.sync import SyncToAsync
from django.conf import settings
from django.core.cache import cache
from django.db import connections
from django.test import Client, override_settings
from pytest_django import Settings

from console.sessions import embedded_s3 as server
from console.sessions import storage
from console.users.models import Project, User
from tinkerscript.wire.account import Role


@pytest.fixture(scope="session", autouse=True)
def bundled_model() -> None:
    """The catalogue looks for a folder; what is in it matters to runtimes only."""
    (settings.DATA / "models" / factories.BASE_MODEL).mkdir(parents=True, exist_ok=True)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """The test database, which PostgreSQL drops only once nobody uses it: asgiref's thread outlives its last test."""
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(10)


@pytest.fixture
def alice(db: None) -> User:
    """The owner of ``project``."""
    return factories.user_make("alice")


@pytest.fixture
def bob(db: None) -> User:
    """An outsider: he has a project of his own and no part in alice's."""
    return factories.user_make("bob")


@pytest.fixture
def project(alice: User) -> Project:
    """Alice's project."""
    return Project.objects.get(memberships__user=alice)


@pytest.fixture
def member(project: Project) -> User:
    """Somebody who works in alice's project."""
    return factories.member_make(project, "mia", Role.MEMBER)


@pytest.fixture
def api_key(project: Project, alice: User) -> str:
    """The secret of a key of alice's, for everything but admin."""
    return factories.key_make(project, alice)


@pytest.fixture
def outsider_key(bob: User) -> str:
    """The secret of a key of bob's, for his own project."""
    return factories.key_make(Project.objects.get(memberships__user=bob), bob)


@pytest.fixture
def client_for() -> Callable[[str], Client]:
    """``client_for(secret)``: an HTTP client that sends the key (or lease) with every request."""
    return lambda secret: Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture(scope="session")
def embedded_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real SeaweedFS with an empty bucket; its address."""
    with (tmp_path_factory.mktemp("s3") / "weed.log").open("wb") as log:
        try:
            process = server.start(settings.DATA, log=log.fileno())
        except server.WeedMissing as error:
            pytest.skip(str(error))
        try:
            storage.ready_wait(timeout_s=60, stopped=lambda: process.poll() is not None)
            yield storage.store_get().endpoint_url
        finally:
            process.kill()  # asked to end it takes seconds, and its data goes with the tests
            process.wait(10)


@pytest.fixture(scope="session")
def swift_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[storage.Store]:
    """A real OpenStack Swift with an empty bucket."""
    with swift_server.swift(tmp_path_factory.mktemp("swift")) as store:
        with override_settings(**swift_server.settings_of(store)):
            storage.ready_wait(timeout_s=swift_server.START_S)
        yield store


@pytest.fixture(params=["seaweedfs", "swift"])
def s3(request: pytest.FixtureRequest, settings: Settings) -> str:
    """The address of a real store, which the settings name: the test runs once with each of two."""
    if request.param == "seaweedfs":
        return request.getfixturevalue("embedded_s3")
    store = request.getfixturevalue("swift_store")
    for name, value in swift_server.settings_of(store).items():
        setattr(settings, name, value)
    return store.endpoint_url


@pytest.fixture(autouse=True)
def counts_start_anew() -> None:
    """Requests and failed sign-ins are counted per minute: not over several tests."""
    cache.clear()
