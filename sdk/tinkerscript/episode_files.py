"""Brings the archive of a session's episodes to this disk: Parquet files, a row for each episode that has ended."""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import PathInUse
from .folder import folder_fill, is_there
from .wire.episodes import EpisodeFile

if TYPE_CHECKING:
    from .session import Session


def download(session: "Session", path: str | PathLike[str], *, deadline: float, progress: bool) -> list[Path]:
    """Have every part in the folder ``path``. Raises as Session.download_episodes() does."""
    target = Path(path).expanduser().absolute()
    plan = session.episode_urls()
    _refuse_other_session(target, plan.files)
    folder_fill(
        target,
        plan.files,
        refresh=lambda: session.episode_urls().files,
        closed=lambda: session.closed,
        deadline=deadline,
        progress=progress,
    )
    return [target / file.path for file in plan.files]


def _refuse_other_session(target: Path, files: Iterable[EpisodeFile]) -> None:
    """Parts of two sessions have the same names: whoever reads the folder as one table would mix them."""
    if target.exists() and not target.is_dir():
        raise PathInUse(f"{target} is a file.", hint="Give the path of a folder.")
    ours = {file.path for file in files if is_there(target / file.path, file)}
    found = {found.name for found in target.glob("part-*.parquet")} - ours
    if found:
        raise PathInUse(f"{target} holds episodes of another session: {', '.join(sorted(found))}. Nothing was written.")
