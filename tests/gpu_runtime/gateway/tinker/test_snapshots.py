"""Which unnamed snapshots of samplers stay on a session's volume."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_runtime.gateway.tinker.checkpoints.snapshots import (
    INFLIGHT_KEPT,
    snapshot_held,
    snapshot_use,
    snapshots_bound,
    snapshots_folder,
)


def test_what_is_being_sampled_is_kept_beyond_the_bound_until_it_is_done(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(INFLIGHT_KEPT + 2)]
    for folder in folders:
        folder.mkdir()
        snapshot_use(folder)
    (writing := tmp_path / ".9.writing").mkdir()  # counts as none, and is not there to be removed
    with snapshot_held(folders[0]), snapshot_held(folders[0]):
        snapshots_bound(tmp_path)
        assert {*tmp_path.iterdir()} == {writing, folders[0], *folders[-INFLIGHT_KEPT:]}
    snapshots_bound(tmp_path)
    assert {*tmp_path.iterdir()} == {writing, *folders[-INFLIGHT_KEPT:]}


def test_each_client_has_its_share_of_the_volume_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of one client's snapshots takes none of another's; the last two stay in any case."""
    made: dict[str, list[Path]] = {}
    for client, size in (("a", 100), ("b", 100), ("c", 900)):
        for number in range(6):
            folder = snapshots_folder(tmp_path, client, "adapters") / str(number)
            folder.mkdir(parents=True)
            (folder / "adapter.bin").write_bytes(b"x" * size)
            snapshot_use(folder)
            made.setdefault(client, []).append(folder)
    usage = SimpleNamespace(free=3000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    for client in "abc":
        snapshots_bound(snapshots_folder(tmp_path, client, "adapters"))
    kept = {client: [folder.exists() for folder in folders] for client, folders in made.items()}
    # (3000 + 600) / 4 / 3 = 300 bytes each; and 700 of the third, which are less than two
    assert kept["a"] == kept["b"] == [False] * 3 + [True] * 3
    assert kept["c"] == [False] * 4 + [True] * 2
