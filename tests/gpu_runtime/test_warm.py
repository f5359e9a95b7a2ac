"""What a runtime does before it has a session, and how it becomes that session's."""

import json
import os
import socket
from pathlib import Path

import pytest

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.loading.warm import Launcher, life


async def test_a_runtime_that_waits_becomes_the_session_that_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    for name in ("TINKERSCRIPT_SERVER_URL", "TINKERSCRIPT_LEASE", "TINKERSCRIPT_RUNTIME_DIR"):
        monkeypatch.setenv(name, "not known yet")
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "of the session").mkdir()
    served: list[RuntimeConfig] = []

    def libraries() -> None:
        """The session comes while they are imported: nothing before has read of it."""
        assert os.environ["TINKERSCRIPT_LEASE"] == "not known yet"
        environment = {
            "TINKERSCRIPT_SERVER_URL": "http://127.0.0.1:8000", "TINKERSCRIPT_RUNTIME_DIR": str(folder),
            "TINKERSCRIPT_LEASE": f"tml-ls-ses_1.{'a' * 64}",
        }  # fmt: skip
        ours.sendall(
            json.dumps({"folder": str(folder), "environment": environment}).encode() + b"\n"
        )

    async def serve(config: RuntimeConfig) -> bool:
        served.append(config)
        return True

    with ours, theirs:
        assert await life(Launcher(theirs), serve, libraries)
        assert ours.recv(100) == b'{"state": "ready"}\n{"state": "taken"}\n'
    (config,) = served
    assert (config.session_id, config.runtime_dir, Path.cwd()) == ("ses_1", folder, folder)
    assert "TINKERSCRIPT_LEASE" not in os.environ, "engine and ranks are children of this process"
