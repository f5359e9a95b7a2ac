"""The port of the lease process: kept from one start to the next, and given to runtimes while it is
listened on.
"""

import socket
from pathlib import Path

import pytest

from console.server.lease_address import PORT_RANGE, lease_listener, runtime_server_url
from console.server.uvicorn import port_of
from support.another_user import require_root
from support.strangers_port import strangers_port


@pytest.fixture
def data(tmp_path, settings) -> Path:
    settings.DATA = tmp_path
    return tmp_path


def port_taken(listener: socket.socket | None) -> int:
    """The port of a server that was ended, or killed."""
    assert listener is not None
    with listener:
        return listener.getsockname()[1]


def test_the_port_is_kept_and_is_none_that_a_client_is_given(data) -> None:
    port = port_taken(lease_listener())
    assert port in PORT_RANGE
    assert port_taken(lease_listener()) == port == port_taken(lease_listener())


def test_a_port_that_another_program_took_is_replaced_and_said(data, caplog) -> None:
    port = port_taken(lease_listener())
    with socket.create_server(("127.0.0.1", port)):
        other = port_taken(lease_listener(wait_s=0))
    assert other != port and f"port {port} is taken" in caplog.text
    assert port_taken(lease_listener()) == other


def test_runtimes_are_given_it_while_something_listens_there(data, settings) -> None:
    assert runtime_server_url() == settings.INTERNAL_URL
    listener = lease_listener()
    assert runtime_server_url() == f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    assert runtime_server_url() == settings.INTERNAL_URL, (
        "a server that was started by hand in the same folder"
    )
    settings.RUNTIME_SERVER_URL = "http://10.0.0.5:8000"
    assert runtime_server_url() == "http://10.0.0.5:8000" and lease_listener() is None


@pytest.mark.smoke
def test_a_port_that_another_user_has_is_given_to_no_runtime_and_its_leases_are_lost(
    data, settings
) -> None:
    require_root()
    port, lost = port_taken(lease_listener()), []
    with strangers_port(port):
        assert runtime_server_url() == settings.INTERNAL_URL
        listener = lease_listener(wait_s=0, on_lost=lost.append)
    assert lost == [port] and port_taken(listener) != port
    port_taken(lease_listener(on_lost=lost.append))
    assert lost == [port], "its own is none that is lost"


def test_a_lease_process_that_is_started_by_hand_has_the_port_of_its_setting(settings) -> None:
    settings.PORT, settings.LEASE_PORT = 8000, 8001
    assert (port_of(lease=True), port_of(lease=False)) == (8001, 8000)
    settings.LEASE_PORT = 0
    assert port_of(lease=True) == 8000
