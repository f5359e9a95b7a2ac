"""Which unnamed snapshots of samplers stay on a session's volume."""

from pathlib import Path

from gpu_runtime.gateway.tinker.snapshots import (
    INFLIGHT_KEPT,
    snapshot_held,
    snapshot_use,
    snapshots_bound,
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
