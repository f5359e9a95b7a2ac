"""A hand-written control plane on a real socket, and sessions on it that are closed at the end."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sdk.rest_server import API_KEY, RestServer

from tinkerscript import TinkerScript
from tinkerscript.connection import retries, transport
from tinkerscript.downloads import checkpoints
from tinkerscript.rollouts import task_queue
from tinkerscript.sessions import session as session_module


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TINKERSCRIPT_BASE_URL", "TINKERSCRIPT_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def quick_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.02)
    monkeypatch.setattr(retries, "MAX_BACKOFF_S", 0.1)
    monkeypatch.setattr(session_module, "FOLLOW_WAIT_S", 0.2)
    for asked_again in (checkpoints, task_queue):
        monkeypatch.setattr(asked_again, "POLL_INTERVAL_S", 0.02)


@pytest.fixture
def server() -> Iterator[RestServer]:
    rest = RestServer()
    rest.start()
    yield rest
    rest.stop()


@pytest.fixture
def connect(server: RestServer) -> Iterator[Callable[..., TinkerScript]]:
    opened: list[TinkerScript] = []

    def start(base_model: str | None = "SmolLM2", **options: Any) -> TinkerScript:
        opened.append(
            TinkerScript(base_model, **{"base_url": server.url, "api_key": API_KEY, **options})
        )
        return opened[-1]

    yield start
    for session in opened:
        session.close(stop=False)


@pytest.fixture
def session(connect: Callable[..., TinkerScript]) -> TinkerScript:
    return connect()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The client's warnings so far."""
    caplog.set_level(logging.WARNING, "tinkerscript")
    return lambda: [
        record.getMessage() for record in caplog.records if record.name == "tinkerscript"
    ]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause between two tries of a request so far, in seconds; each is waited for."""
    pauses, sleep = [], transport.Transport.sleep

    def counted(waiting: transport.Transport, seconds: float) -> None:
        pauses.append(seconds)
        sleep(waiting, seconds)

    monkeypatch.setattr(transport.Transport, "sleep", counted)
    return pauses
