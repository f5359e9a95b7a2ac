"""A runtime's own connections: another user who has the port of the lease process, or of the store,
gets nothing."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gpu_runtime.config import config_read
from gpu_runtime.control_plane.lease_client import ControlPlaneAway, LeaseClient
from gpu_runtime.errors import StoreUnavailable
from gpu_runtime.object_store.transfer import Transfer, transfer_open
from support.another_user import require_root
from support.strangers_port import strangers_port
from tinkerscript.wire.runtime import Orders, StoredFile

LEASE = f"tml-ls-ses_1.{'0' * 64}"


@pytest.mark.smoke
async def test_no_lease_is_sent_to_another_users_port(tmp_path: Path) -> None:
    require_root()
    with strangers_port(forged='{"lease_seconds": 15, "checkpoints": []}') as stranger:
        names = {
            "SERVER_URL": f"http://{stranger.address}",
            "LEASE": LEASE,
            "RUNTIME_DIR": str(tmp_path),
        }
        config = config_read({f"TINKERSCRIPT_{name}": value for name, value in names.items()})
        client = LeaseClient(config, lambda lost: None, lambda full: None)
        with pytest.raises(ControlPlaneAway, match="another user's of this machine: nobody's"):
            await client.send("/runtime/heartbeat", b"{}", Orders, 5.0)
        await client.close()
        assert stranger.sent() == b""


@pytest.mark.smoke
async def test_no_file_goes_to_or_comes_from_another_users_port(tmp_path: Path) -> None:
    require_root()
    weights, dest = tmp_path / "weights.bin", tmp_path / "dest.bin"
    weights.write_bytes(b"what a tenant trained")
    with strangers_port(forged="pickle") as stranger:
        url = f"http://{stranger.address}/bucket/key?signature=s"
        stored = StoredFile(path="weights.bin", size_bytes=6, sha256="0" * 64, url=url)
        jobs: list[Callable[[Transfer], object]] = [
            lambda transfer: transfer.part_put(url, weights, 0, 21),
            lambda transfer: transfer.file_get(stored, dest),
            lambda transfer: transfer.range_get(url, 0, 6),
        ]
        for job in jobs:
            async with transfer_open(0.0) as transfer:
                with pytest.raises(
                    StoreUnavailable, match="another user's of this machine: nobody's"
                ):
                    await transfer.run([partial(job, transfer)])
        assert stranger.sent() == b"" and not dest.exists()
