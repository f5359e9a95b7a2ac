"""Who runs a first program on a terminal can look at it in the console afterwards."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from support import migrated_database
from support.up_server import Server

pytestmark = pytest.mark.system

EXAMPLES = Path(__file__).resolve().parents[2] / "sdk" / "examples"
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # as on a terminal: what runs in the background may ignore it
from local_server import how_to_look, running_server, stay_open
with running_server() as server:
    print(how_to_look(server), flush=True)
    stay_open(server)
print("over", flush=True)
"""
SAID = re.compile(r"it stays open until Ctrl-C at (\S+) as (\S+) with password (\S+)")
DEADLINE_S = 150


def read_until(terminal: int, wanted: re.Pattern[str]) -> re.Match[str]:
    deadline, text = time.monotonic() + DEADLINE_S, ""
    while (found := wanted.search(text)) is None:
        readable, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert readable, f"not said in time: {text!r}"
        text += os.read(terminal, 4096).decode()
    return found


def test_the_console_stays_open_on_a_terminal_and_is_entered_with_what_was_said(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path)  # its environment alone: the program starts the server
    migrated_database.for_server(server.data)
    ours, theirs = pty.openpty()
    environment = server.environment | {
        "PYTHONPATH": f"{EXAMPLES}:{os.environ.get('PYTHONPATH', '')}"
    }
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        base_url, email, password = read_until(ours, SAID).groups()
        with httpx.Client(base_url=base_url, timeout=30) as browser:
            # whose response has the cookie that a form sends back
            browser.get("/_allauth/browser/v1/auth/session")
            headers = {"X-CSRFToken": browser.cookies["csrftoken"], "Origin": base_url}
            body = {"email": email, "password": password}
            assert (
                browser.post(
                    "/_allauth/browser/v1/auth/login", json=body, headers=headers
                ).status_code
                == 200
            )
            assert browser.get("/v1/account").json()["email"] == email
        program.send_signal(signal.SIGINT)
        read_until(ours, re.compile("over"))
        assert program.wait(30) == 0
        assert not server.left()
    finally:
        if program.poll() is None:
            program.kill()
            program.wait()
        os.close(ours)
        server.log.close()
