"""A runtime of a simulated day (capacity_day.py): what it says of itself, when it beats, and what
it stores.

When it beats is decided by the runtime's own code: the status, which knows what is news, and the
pause between two heartbeats. What it writes goes through the server's presigned URLs to the
server's object store: a copy of the journal, a part of the archive and a pack of episodes at the
sizes that so many episodes have (docs/capacity.md), and of weights WEIGHTS_BYTES of random bytes,
where a model of SmolLM2 has 542 MB and a state three times that.
"""

import hashlib
import os
import sys
import time
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from capacity import SAMPLE
from serving import ROOT

sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]

from gpu_runtime.control_plane.beat_pause import BeatPause  # noqa: E402 - found by the line before
from gpu_runtime.health.status import Phase, Status  # noqa: E402
from tinkerscript.wire.reading.resources import ResourceSample  # noqa: E402
from tinkerscript.wire.runtime import Orders, RuntimeStage  # noqa: E402
from tinkerscript.wire.sessions import Accounting  # noqa: E402

SAMPLE_S = 10.0
WEIGHTS_BYTES = 64 << 10
JOURNAL_BYTES, ARCHIVE_BYTES, DOCUMENT_BYTES = 2900, 1000, 1000  # of an episode
# Method, path, body: the response's body, or None where it failed, which is counted under the
# first.
Ask = Callable[[str, str, Any], Awaitable[Any]]


class Simulated:
    """A session as those outside know it, with what its runtime says of itself."""

    def __init__(self, session_id: str) -> None:
        self.id, self.lease, self.key = session_id, "", ""
        self.status, self.pause = Status(), BeatPause(1.0)
        self.pace_s = 0.0  # the longest that it was told
        self._counts: dict[str, int] = {}

    def begin(self) -> None:
        """A runtime of it begins: at once ready, as the first heartbeat says."""
        self.pause = BeatPause(1.0)
        self.status = Status(lambda at_once: self.pause.end(at_once=at_once))
        self.status.begin(Phase.WAITING, "waiting for episodes")
        self.status.update(state=RuntimeStage.READY, accounting=Accounting(**self._counts))

    def count(self, **changed: int) -> None:
        """Add to the counts of its episodes."""
        for name, by in changed.items():
            self._counts[name] = self._counts.get(name, 0) + by
        self.status.update(accounting=Accounting(**self._counts), last_activity_at=time.time())

    def called(self) -> None:
        """A call came."""
        self.status.update(last_activity_at=time.time())

    async def beat(self, ask: Ask, gateway: str) -> str:
        """Beat as it is told, and sooner with news, until it is told to stop; why, or "refused"."""
        sampled_at, unit = time.monotonic(), "first"
        while True:
            began_at = get_running_loop().time()
            if time.monotonic() - sampled_at >= SAMPLE_S:
                self.status.sampled(ResourceSample(**SAMPLE))
                sampled_at, unit = time.monotonic(), "sample"
            self.status.advance()
            self.status.address = gateway
            body = self.status.snapshot().model_dump(mode="json")
            orders = await ask(unit, "/v1/runtime/heartbeat", body)
            if orders is None or orders["stop"]:
                return str(orders["stop"]) if orders else "refused"
            self.pause.told(Orders.model_validate(orders))
            self.pace_s = max(self.pace_s, self.pause.pace_s)
            await self.pause.wait(began_at)
            unit = "heartbeat"

    async def store(
        self, ask: Ask, http: aiohttp.ClientSession, *, episodes: int, step: int
    ) -> int:
        """Write once each of what a session writes; how many bytes."""
        written = 0
        weights = {"model.safetensors": WEIGHTS_BYTES, "config.json": 700, "tokenizer.json": 4000}
        state = weights | {"optimizer.pt": 2 * WEIGHTS_BYTES}
        plans: list[tuple[str, dict[str, Any], dict[str, int]]] = [
            ("journal", {}, {"journal.sqlite": JOURNAL_BYTES * episodes}),
            ("archive", {"part": 1, "episodes": episodes}, {"part-000001.parquet": ARCHIVE_BYTES * episodes}),
            ("episodes", {"packed": [
                {"episode_id": f"ep_{at}", "offset": at * DOCUMENT_BYTES, "size_bytes": DOCUMENT_BYTES}
                for at in range(episodes)
            ]}, {"episodes.pack": DOCUMENT_BYTES * episodes}),
            ("state", {"step": step}, state),
            ("model", {"step": step}, weights),
        ]  # fmt: skip
        for kind, more, sizes in plans:
            written += await self._upload(
                ask, http, kind, more, {name: os.urandom(n) for name, n in sizes.items()}
            )
        return written

    async def _upload(
        self,
        ask: Ask,
        http: aiohttp.ClientSession,
        kind: str,
        more: dict[str, Any],
        files: dict[str, bytes],
    ) -> int:
        told = [
            {"path": name, "size_bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
            for name, body in files.items()
        ]
        targets = await ask(
            f"open {kind}", "/v1/runtime/uploads", {"kind": kind, "files": told} | more
        )
        if targets is None:
            return 0
        etags = []
        for target in targets["files"]:
            (url,) = target["part_urls"]  # each is smaller than a part may be
            async with http.put(url, data=files[target["path"]]) as response:
                if response.status >= 300:
                    raise SystemExit(
                        f"the store did not take {target['path']}: {await response.text()}"
                    )
                etags.append({"path": target["path"], "etags": [response.headers["ETag"]]})
        path = f"/v1/runtime/uploads/{targets['upload_id']}/commit"
        committed = await ask(f"commit {kind}", path, {"files": etags})
        return sum(map(len, files.values())) if committed is not None else 0
