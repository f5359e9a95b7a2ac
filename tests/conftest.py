"""People, keys and real object stores for every test that asks for them.

What fixtures need of the server is imported where they need it: most tests of the client and of the
runtime need none, and start a second sooner.
"""

import gc
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import SyncToAsync
from django.conf import settings
from django.core.cache import cache
from django.db import connection, connections
from django.db.models.signals import post_migrate
from django.http import HttpRequest
from django.test import Client, override_settings
from pytest_django import DjangoDbBlocker, Settings

from support import migrated_database
from support.quick import (
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_xdist_auto_num_workers,
)
from support.real_stores import REAL_STORES

__all__ = [  # hooks
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_xdist_auto_num_workers",
]

if TYPE_CHECKING:
    from console.object_store.client import Store
    from console.users.models import Project, User


def _login_cookies(self: Client, request: HttpRequest) -> None:
    """Django's own puts the key of the row into the cookie, which is not what a browser has
    here.
    """
    self.cookies[settings.SESSION_COOKIE_NAME] = request.session.cookie


Client._set_login_cookies = _login_cookies  # noqa: SLF001 - Django has no hook here


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hypothesis's plug-in loads the library, 1.4 s, for its part of the summary, also where no
    test has used it.
    """
    plugins = session.config.pluginmanager
    if (
        "hypothesis" not in sys.modules
        and (plugin := plugins.get_plugin("hypothesispytest")) is not None
    ):
        plugins.unregister(plugin)


def pytest_unconfigure(config: pytest.Config) -> None:
    """A worker of xdist ends without Python's exit handlers, by which tests/settings.py removes its
    folder.
    """
    if hasattr(config, "workerinput"):
        shutil.rmtree(settings.DATA, ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Whether pytest-django leaves a database that is there as it is: ours has its migrations
    already.

    On PostgreSQL every run makes its own.
    """
    return connection.vendor == "sqlite"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest, django_db_keepdb: bool) -> None:
    """What pytest-django calls before it makes the database."""
    if django_db_keepdb:
        migrated_database.copy_to(Path(settings.DATABASES["default"]["TEST"]["NAME"]))
    else:  # each worker's has a name of its own
        request.getfixturevalue("django_db_modify_db_settings_parallel_suffix")


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_keepdb: bool, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """The test database, of which asgiref's thread has a connection until the last test has
    ended.
    """
    from django.contrib.contenttypes.management import create_contenttypes

    # A flush, with which each test with transactions of its own ends, has these written again:
    # nothing here reads them.
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.disconnect(create_contenttypes)
    yield
    threads = [SyncToAsync.single_thread_executor]
    if server := sys.modules.get("console.server.request_threads"):
        threads += [each for each in gc.get_objects() if type(each) is server.RequestThread]
    for each in threads:
        each.submit(connections.close_all).result(25)  # PostgreSQL drops no database that is in use
    if django_db_keepdb:  # else pytest-django drops the database, and closes what it has open
        with django_db_blocker.unblock():
            connections.close_all()


@pytest.fixture
def alice(db: None) -> "User":
    """The owner of ``project``."""
    from support import factories

    return factories.user_make("alice")


@pytest.fixture
def bob(db: None) -> "User":
    """An outsider: he has a project of his own and no part in alice's."""
    from support import factories

    return factories.user_make("bob")


@pytest.fixture
def project(alice: "User") -> "Project":
    """Alice's project."""
    from console.users.models import Project

    return Project.objects.get(memberships__user=alice)


@pytest.fixture
def member(project: "Project") -> "User":
    """A member of alice's project."""
    from support import factories
    from tinkerscript.wire.account import Role

    return factories.member_make(project, "mia", Role.MEMBER)


@pytest.fixture
def api_key(project: "Project", alice: "User") -> str:
    """The secret of a key of alice's, for everything but admin."""
    from support import factories

    return factories.key_make(project, alice)


@pytest.fixture
def outsider_key(bob: "User") -> str:
    """The secret of a key of bob's, for his own project."""
    from console.users.models import Project
    from support import factories

    return factories.key_make(Project.objects.get(memberships__user=bob), bob)


@pytest.fixture
def client_for() -> Callable[[str], Client]:
    """``client_for(secret)``: an HTTP client that sends the key (or lease) with every request."""
    return lambda secret: Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A line for each connection to the database that is opened, and not one that was kept."""
    backend = {"sqlite": "sqlite3"}.get(connection.vendor, connection.vendor)
    theirs, found = import_module(f"django.db.backends.{backend}.base").DatabaseWrapper, []
    connect = theirs.get_new_connection
    monkeypatch.setattr(
        theirs, "get_new_connection", lambda self, given: found.append(self) or connect(self, given)
    )
    return found


@pytest.fixture(scope="session")
def embedded_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real SeaweedFS with an empty bucket; its address."""
    from console.object_store import client as object_store
    from console.object_store import seaweedfs

    with (tmp_path_factory.mktemp("s3") / "weed.log").open("wb") as log:
        try:
            process = seaweedfs.start(settings.DATA, log=log.fileno())
        except seaweedfs.WeedMissing as error:
            pytest.skip(str(error))
        try:
            object_store.ready_wait(timeout_s=60, stopped=lambda: process.poll() is not None)
            yield object_store.store_get().endpoint_url
        finally:
            process.kill()  # asked to end it takes seconds, and its data goes with the tests
            process.wait(25)


@pytest.fixture(scope="session")
def swift_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Store"]:
    """A real OpenStack Swift with an empty bucket."""
    from console.object_store import client as object_store
    from support import swift_server

    with swift_server.swift(tmp_path_factory.mktemp("swift")) as store:
        with override_settings(**swift_server.settings_of(store)):
            object_store.ready_wait(timeout_s=swift_server.START_S)
        yield store


@pytest.fixture(params=["memory", *REAL_STORES])
def s3(request: pytest.FixtureRequest, settings: Settings) -> str:
    """The address of a store, which the settings name: the test runs with one in this process, and
    with two real ones.

    What a real one alone can show takes those, by ``real_stores`` (support/real_stores.py).
    """
    if request.param == "memory":
        return request.getfixturevalue("memory_store")
    if request.param == "seaweedfs":
        return request.getfixturevalue("embedded_s3")
    from support import swift_server

    store = request.getfixturevalue("swift_store")
    for name, value in swift_server.settings_of(store).items():
        setattr(settings, name, value)
    return store.endpoint_url


@pytest.fixture(params=["memory_store", pytest.param("embedded_s3", marks=pytest.mark.system)])
def any_store(request: pytest.FixtureRequest) -> str:
    """The address of a store: the test runs with one in this process, and with the embedded one."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def memory_store(monkeypatch: pytest.MonkeyPatch) -> str:
    """A store in this process, with an empty bucket, in the place of the embedded one; its
    address.
    """
    from console.object_store import client as object_store
    from support import store_calls
    from support.memory_store import MemoryStore

    store = MemoryStore()
    monkeypatch.setattr(object_store, "client_of", lambda _: store)
    monkeypatch.setattr(store_calls, "asked", store.asked)
    return object_store.store_get().endpoint_url


@pytest.fixture(autouse=True)
def executor_ends() -> Iterator[None]:
    """Wait for what a test has left to asgiref's thread, such as a cache's look-up that no one
    waits for any more.

    After the test pytest-django has every use of the database fail. One that begins in that moment
    leaves the thread a connection without autocommit, and closing it rolls back what the next test
    has written.
    """
    yield
    SyncToAsync.single_thread_executor.submit(int).result(25)


@pytest.fixture(autouse=True)
def counts_start_anew() -> None:
    """Requests and failed sign-ins are counted per minute: not over several tests."""
    cache.clear()
