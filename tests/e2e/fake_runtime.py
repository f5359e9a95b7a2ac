"""A runtime without a model: it holds a real lease, beats, writes a real checkpoint, and reports a
step when asked to.

Started by the process launcher in a session's folder. A file ``step-N`` there makes it report step
N.
"""

import hashlib
import os
import time
from pathlib import Path

import httpx

LOOK_S = 0.1  # for what a test's files tell it
# each costs the server's processes 20 ms, also for the sessions that earlier tests have left
# running
BEAT_S = 1.0
AWAY_S = 60.0
WEIGHTS = b"not really weights"


def main() -> None:
    server = httpx.Client(
        base_url=f"{os.environ['TINKERSCRIPT_SERVER_URL']}/v1/runtime",
        headers={"Authorization": f"Bearer {os.environ['TINKERSCRIPT_LEASE']}"},
        timeout=AWAY_S,
    )
    post(server, "/register", {})
    step = 0
    beats = 0
    stop = False
    while not stop:
        while Path(f"step-{step + 1}").exists():
            step += 1
            entry = {"key": f"step-{step}", "kind": "metric", "data": metrics(step)}
            post(server, "/report", {"entries": [entry]})
        beats += 1
        orders = post(server, "/heartbeat", state(step, beats)).json()
        for order in orders["checkpoints"]:
            upload(server, order, step)
        stop = orders["stop"] is not None
        wait_for_step(step + 1)


def wait_for_step(step: int) -> None:
    """Until it is time to beat again, or to report a step at once."""
    beat_at = time.monotonic() + BEAT_S
    while time.monotonic() < beat_at and not Path(f"step-{step}").exists():
        time.sleep(LOOK_S)


def post(server: httpx.Client, path: str, body: dict) -> httpx.Response:
    """Raises HTTPStatusError when refused; asks again for as long as nothing responds."""
    give_up_at = time.monotonic() + AWAY_S
    while True:
        try:
            return server.post(path, json=body).raise_for_status()
        except httpx.TransportError:
            if time.monotonic() > give_up_at:
                raise
        time.sleep(LOOK_S)


def state(step: int, beats: int) -> dict:
    trained = 4 * step
    accounting = {"begun": trained + 3, "trained": trained, "waiting": 2, "abandoned": 1}
    return {
        "state": "ready",
        "phase": f"collecting episodes for step {step + 1}",
        "progress": beats,
        "policy_version": step,
        "accounting": accounting | {"abandoned_by_reason": {"superseded": 1}},
    }


def metrics(step: int) -> dict:
    return {
        "step": step, "reward_mean": 0.25 * step, "reward_std": 0.1, "loss": 0.5 / step, "grad_norm": 1.0,
        "learning_rate": 2e-5, "kl_engine": 1e-5, "entropy": 0.7, "clip_fraction": 0.0, "episodes": 4, "groups": 2,
        "groups_skipped": 0, "tokens_trained": 64, "tokens_computed": 128, "staleness_max": 0,
        "completion_length_mean": 16.0, "rollout_s": 1.5, "train_s": 2.5, "handover_s": 0.25,
    }  # fmt: skip


def upload(server: httpx.Client, order: dict, step: int) -> None:
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    file = {"path": "model.safetensors", "size_bytes": len(WEIGHTS), "sha256": sha256}
    body = {
        "kind": order["kind"],
        "checkpoint_id": order["checkpoint_id"],
        "step": step,
        "files": [file],
    }
    plan = post(server, "/uploads", body).json()
    etags = [
        httpx.put(url, content=WEIGHTS, timeout=AWAY_S).raise_for_status().headers["ETag"]
        for url in plan["files"][0]["part_urls"]
    ]
    commit = {"files": [{"path": "model.safetensors", "etags": etags}]}
    post(server, f"/uploads/{plan['upload_id']}/commit", commit)


if __name__ == "__main__":
    main()
