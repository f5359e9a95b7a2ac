"""A session begins from what another one trained: SDK, server, store and runtime are real, engine
and trainer fakes.
"""

import json
from pathlib import Path

import httpx
import pytest
from e2e.loop_server import LoopServer, until
from e2e.playing import play

from tinkerscript import NotFound, TinkerScript

OPTIONS = {
    "grpo_n": 4,
    "tasks_per_batch": 2,
    "max_context_length": 512,
    "max_tokens": 16,
    "begin_timeout_s": 90,
}


def weights(folder: Path) -> str:
    return json.loads((folder / "weights.json").read_text())["weights"]


def test_a_state_goes_on_in_another_session_and_its_runtime_may_die(
    loop_server: LoopServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at = {"base_url": loop_server.url, "api_key": loop_server.api_key}
    headers = {"Authorization": f"Bearer {loop_server.api_key}"}
    first = loop_server.session()
    for task in ("sun", "moon"):
        play(first, task, 4)
    tuned = first.download_tuned_model(tmp_path / "tuned", progress=False)
    checkpoints = f"{loop_server.url}/v1/sessions/{first.id}/checkpoints"
    state = httpx.post(checkpoints, json={"kind": "state"}, headers=headers, timeout=90).json()[
        "id"
    ]
    path = f"/v1/sessions/{first.id}/checkpoints/{state}"
    until(lambda: loop_server.get(path)["state"] == "committed", "it is saved")
    first.close()
    with TinkerScript(state, **at, **OPTIONS) as second:
        assert (second.started_from.checkpoint_id, second.started_from.step) == (state, 1)
        assert (
            httpx.delete(f"{checkpoints}/{state}", headers=headers, timeout=90).status_code == 409
        )
        assert weights(
            second.download_tuned_model(tmp_path / "zero", progress=False).path
        ) == weights(tuned.path)
        assert f"this is the checkpoint {state} as it was" in caplog.text
        for task in ("sun", "moon"):
            play(second, task, 4)
        until(lambda: second.status().policy_version == 1, "it has trained a step")
        assert loop_server.runtime_kill(second.id)
        made = second.download_tuned_model(tmp_path / "one", progress=False)
        assert made.step == 1 and weights(made.path) != weights(tuned.path)
        assert f"checkpoint {state} of session {first.id}" in (made.path / "README.md").read_text()
    told = loop_server.get(f"/v1/sessions/{second.id}/checkpoints/{made.checkpoint_id}/provenance")
    assert state in [one["checkpoint_id"] for one in told["ancestors"]]
    with pytest.raises(NotFound):
        TinkerScript("ckp_nothing", **at)
