"""Connections: refused at once, through a proxy, with a company's own certificates, with a bound of
one's own.
"""

import http.server
import ssl
import subprocess
import sys
import threading
import time

import pytest
import trustme
from sdk.rest_server import API_KEY, RestServer

from tinkerscript import InvalidRequest, ServerUnreachable, TinkerScript
from tinkerscript.connection import connecting
from tinkerscript.connection.http_client import certificates


@pytest.mark.system
def test_refused_connection_ends_a_program_with_the_address_to_set():
    code = "from tinkerscript import TinkerScript; TinkerScript('m', base_url='http://127.0.0.1:9', api_key='k')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Connection refused" in done.stderr
    assert "TINKERSCRIPT_BASE_URL" in done.stderr


def test_first_contact_is_tried_for_two_seconds_at_most():
    assert connecting.FIRST_CONTACT_RETRY_S <= 2
    started = time.monotonic()
    with pytest.raises(ServerUnreachable):
        TinkerScript("m", base_url="http://127.0.0.1:9", api_key="k")
    assert time.monotonic() - started < 25, "other requests are tried for 30 s and longer"


class Proxy(http.server.BaseHTTPRequestHandler):
    seen: list[str] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_error(502, "a proxy that goes nowhere")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def test_given_proxy_is_used_even_for_this_machine(server):
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
    try:
        with pytest.raises(ServerUnreachable, match="502"):
            TinkerScript(
                "m",
                base_url=server.url,
                api_key=API_KEY,
                proxy=f"http://127.0.0.1:{proxy.server_address[1]}",
                retry_timeout_s=0.1,
            )
    finally:
        proxy.shutdown()
        proxy.server_close()
    assert Proxy.seen[0] == f"{server.url}/v1/server"
    assert server.requests == []


def test_certificates_of_ones_own_are_trusted_when_given(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    rest = RestServer()
    rest.start(context)
    address = f"https://127.0.0.1:{rest.port}"
    try:
        with pytest.raises(ServerUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            TinkerScript("m", base_url=address, api_key=API_KEY, retry_timeout_s=0.1)
        with TinkerScript(
            "m", base_url=address, api_key=API_KEY, ca_file=str(tmp_path / "ca.pem")
        ) as session:
            assert session.status().state == "ready"
    finally:
        rest.stop()


def test_systems_certificates_are_trusted():
    system = ssl.create_default_context()
    system_names = {str(c["subject"]) for c in system.get_ca_certs()}
    assert system_names <= {str(c["subject"]) for c in certificates().get_ca_certs()}


def test_options_that_cannot_be_used_are_refused_before_any_traffic(server, connect, tmp_path):
    for wrong in ({"proxy": "nonsense://x"}, {"ca_file": str(tmp_path / "missing.pem")}):
        with pytest.raises(InvalidRequest, match="nonsense|missing"):
            connect(**wrong)
    assert server.requests == []


def test_bound_of_one_try_is_a_parameter(server, connect):
    session = connect(timeout_s=1.0, retry_timeout_s=0.1)
    server.hold_shows = threading.Event()  # for 25 s, and then it responds
    with pytest.raises(ServerUnreachable, match="ReadTimeout"):
        session.status()
    server.hold_shows.set()


def test_the_openai_clients_of_many_episodes_read_the_certificates_once(session, monkeypatch):
    episode = session.begin_episode()
    episode.openai().close()

    def read(*_, **__):
        raise AssertionError("certificates were read again")

    monkeypatch.setattr(ssl, "create_default_context", read)
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", read)
    episode.openai().close()
