"""A block that is left while the server is away ends soon, and its words name what may still
run.
"""

import asyncio

import pytest
from sdk.rest_server import API_KEY

from tinkerscript import AsyncTinkerScript, client
from tinkerscript.episodes import episode


def test_ctrl_c_while_the_server_is_away_ends_soon_and_names_the_session(
    server, connect, said, pauses, monkeypatch
):
    monkeypatch.setattr(client, "INTERRUPTED_CLOSE_S", 0.2)
    session = connect()
    with pytest.raises(KeyboardInterrupt), session:
        server.stop()
        raise KeyboardInterrupt
    assert sum(pauses) < 2 * 0.2, "another close() tries each request for 30 s"
    assert session.closed
    [warning] = [text for text in said() if "could not be stopped" in text]
    assert session.id in warning and "tinkerscript stop" in warning


def test_an_exception_while_the_server_is_away_is_seen_soon(
    server, connect, said, pauses, monkeypatch
):
    """It leaves an episode's block and then the session's."""
    for module in (client, episode):
        monkeypatch.setattr(module, "LEAVE_RETRY_S", 0.2)
    session = connect()
    with pytest.raises(ZeroDivisionError), session, session.episode(task="1"):
        server.stop()
        raise ZeroDivisionError
    assert sum(pauses) < 4 * 0.2, (
        "0.2 s for each request: an episode's abandon() and a close() try for 30 s"
    )
    abandon, stop = said()
    assert "could not be abandoned" in abandon and "No response" in abandon
    assert session.id in stop and "tinkerscript stop" in stop


def test_ctrl_c_in_an_asyncio_loop_while_the_server_is_away_does_too(
    server, said, pauses, monkeypatch
):
    monkeypatch.setattr(client, "INTERRUPTED_CLOSE_S", 0.2)

    async def loop():
        async with AsyncTinkerScript("SmolLM2", base_url=server.url, api_key=API_KEY):
            server.stop()
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(loop())
    assert sum(pauses) < 2 * 0.2
    assert any("could not be stopped" in text for text in said())
