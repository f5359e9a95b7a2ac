"""A client on another machine: it trains, takes everything home, and writes by a link. It prints
what it was given.

one_address.py SERVER_URL BASE_MODEL FOLDER API_KEY
"""

import hashlib
import json
import sys
from pathlib import Path

import httpx
from e2e.playing import play

from tinkerscript import Session, TinkerScript
from tinkerscript.connection.transport import Transport


def main(url: str, base_model: str, folder: Path, key: str) -> None:
    small = {"grpo_n": 2, "tasks_per_batch": 2, "max_context_length": 512, "max_tokens": 16}
    with TinkerScript(
        base_model, base_url=url, api_key=key, checkpoint_every_steps=1, **small
    ) as session:
        for task in ("rain", "snow"):
            play(session, task, 2)
        tuned = session.download_tuned_model(folder / "model", progress=False)
        batch = session.download_batch(1, folder / "batch.jsonl")
        session_id = session.id
    # Ended: its archive is whole, and its documents are in the store.
    ended = Session(Transport(url, key), session_id)
    parts = ended.download_episodes(folder / "episodes", progress=False)
    record = ended.download_record(folder / "record", progress=False)
    api = httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {key}", "X-Api-Key": key}, timeout=60
    )
    given = [
        file["url"]
        for file in api.get(f"/v1/sessions/{session_id}/episodes/export").json()["files"]
    ]
    given += _tinker(api, folder)
    told = {
        "step": tuned.step,
        "files": sorted(path.name for path in tuned.path.iterdir()),
        "parts": len(parts),
        "documents": len(list((record / "documents").iterdir())),
        "batch_bytes": batch.stat().st_size,
        "given": given,
    }
    print(json.dumps(told))


def _tinker(api: httpx.Client, folder: Path) -> list[str]:
    """Weights go up and come back as they were."""
    files = {path.name: path.read_bytes() for path in (folder / "upload").iterdir()}
    start = {"base_model": "mine", "lora_config": {"rank": 8}}
    started = (
        api.post("/api/v1/external_weights_upload_start", json=start).raise_for_status().json()
    )
    for name, body in files.items():
        httpx.put(started["urls"][name], content=body, timeout=60).raise_for_status()
    ended = api.post(
        "/api/v1/external_weights_upload_finish", json={"upload_id": started["upload_id"]}
    )
    path = ended.raise_for_status().json()["tinker_path"]
    run, _, checkpoint = path.removeprefix("tinker://").partition("/")
    urls = api.get(
        f"/api/v1/training_runs/{run}/checkpoints/{checkpoint}/external_weights_urls"
    ).json()["urls"]
    for name, body in files.items():
        came = httpx.get(urls[name], timeout=60).raise_for_status().content
        assert hashlib.sha256(came).digest() == hashlib.sha256(body).digest(), name
    return [*started["urls"].values(), *urls.values()]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
