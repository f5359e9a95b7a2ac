"""Progress of a folder is what its files do."""

import asyncio
from pathlib import Path

from gpu_runtime.health import volume


async def test_files_that_replace_others_one_by_one_are_progress(
    tmp_path: Path, monkeypatch
) -> None:
    """An encryption writes a file, removes what it was made from, and goes on with the next."""
    monkeypatch.setattr(volume, "LOOK_S", 0.005)
    grown, copy = asyncio.Event(), tmp_path / "second.age"
    (tmp_path / "first").write_bytes(b"f" * (1 << 20))
    async with asyncio.timeout(25), volume.report_file_progress(tmp_path, grown.set):
        await grown.wait()
        (tmp_path / "first").unlink()
        grown.clear()
        while not grown.is_set():
            with copy.open("ab") as file:
                file.write(b"s")
            await asyncio.sleep(0.005)
    assert copy.stat().st_size < 1 << 20, "no more than there was before"
