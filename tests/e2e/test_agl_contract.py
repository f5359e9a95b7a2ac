"""The contract of Agent-lightning 1.0: three variables, a program, rewards by a URL; a missing
reward is no 0.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import httpx
import pytest
from e2e.loop_server import LoopServer

EXAMPLE = Path(__file__).resolve().parents[2] / "sdk" / "examples" / "agent_lightning"
EPISODE = SimpleNamespace(base_url="http://127.0.0.1:9/v1", api_key="key")
POST = """
import os, httpx
for value in {values}:
    event = {{"event_type": "reward", "data": {{"value": value}}}}
    key = {{"Authorization": "Bearer " + os.environ["AGL_KEY"]}}
    httpx.post(os.environ["AGL_EVENT_URL"], json=event, headers=key).raise_for_status()
"""


@pytest.fixture
def contract(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(EXAMPLE)
    import contract

    yield contract
    del sys.modules["contract"]


def test_an_agent_of_one_file_learns_by_its_three_variables(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    environment = os.environ | {
        "PYTHONPATH": str(EXAMPLE.parents[1]), "TINKERSCRIPT_BASE_URL": loop_server.url,
        "TINKERSCRIPT_API_KEY": loop_server.api_key,
    }  # fmt: skip
    command = [sys.executable, str(EXAMPLE / "train.py"), "--smoke"]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert ran.returncode == 0, ran.stderr
    assert "mean reward by step" in ran.stdout and "attempts failed" not in ran.stderr
    assert any((tmp_path / "agent-lightning-model").iterdir())


def test_the_last_of_several_rewards_counts(contract: ModuleType) -> None:
    output = contract.run([sys.executable, "-c", POST.format(values=[0.25, -1])], EPISODE)
    assert output.reward == -1.0


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("pass", "sent no reward"),
        ("raise SystemExit('out of memory')", "ended with 1: out of memory"),
    ],
)
def test_an_agent_without_a_reward_is_a_failed_attempt(
    contract: ModuleType, program: str, why: str
) -> None:
    with pytest.raises(RuntimeError, match=why):
        contract.run([sys.executable, "-c", program], EPISODE)


def test_an_agent_elsewhere_is_told_the_address_that_it_reaches(contract: ModuleType) -> None:
    with contract.events("key", "127.0.0.2", "http://localhost.test:{port}/") as (url, rewards):
        port = httpx.URL(url).port
        assert url == f"http://localhost.test:{port}/events"
        event = {"event_type": "reward", "data": {"value": 0.5}}
        sent = httpx.post(
            f"http://127.0.0.2:{port}/events",
            json=event,
            headers={"Authorization": "Bearer key"},
            timeout=90,
        )
    assert (sent.status_code, rewards) == (200, [0.5])
    assert (
        contract.run(
            [sys.executable, "-c", POST.format(values=[2])], EPISODE, host="127.0.0.2"
        ).reward
        == 2.0
    )


def test_an_agent_that_hangs_is_ended(contract: ModuleType) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        contract.run([sys.executable, "-c", "import time; time.sleep(60)"], EPISODE, timeout_s=0.2)


def test_events_need_the_key_and_rewards_are_finite_numbers(contract: ModuleType) -> None:
    key = {"Authorization": "Bearer key"}
    with contract.events("key") as (url, rewards):
        assert (
            httpx.post(
                url, json={"event_type": "reward", "data": {"value": 1}}, timeout=90
            ).status_code
            == 401
        )
        for body in (
            {},
            [],
            {"event_type": "reward"},
            *({"event_type": "reward", "data": {"value": v}} for v in ("1", True, None)),
        ):
            assert httpx.post(url, json=body, headers=key, timeout=90).status_code == 422, body
        infinite = b'{"event_type": "reward", "data": {"value": Infinity}}'
        assert httpx.post(url, content=infinite, headers=key, timeout=90).status_code == 422
        assert (
            httpx.post(
                url, json={"event_type": "note", "data": {}}, headers=key, timeout=90
            ).status_code
            == 200
        )
        assert rewards == []
