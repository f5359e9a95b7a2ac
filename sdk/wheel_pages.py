"""Puts the console's pages into the client's wheel, for `tinkerscript view`: where they were built
before it.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INTO = "tinkerscript/viewer/pages"


class WheelPages(BuildHookInterface):
    """Without them the wheel is made all the same: the viewer then says what to do."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable install reads frontend/dist itself. Compressed copies are for web servers."""
        built = Path(self.root, "frontend", "dist")
        if version == "editable" or not (built / "index.html").is_file():
            return
        for path in built.rglob("*"):
            if path.is_file() and path.suffix not in (".br", ".gz"):
                build_data["force_include"][str(path)] = (
                    f"{INTO}/{path.relative_to(built).as_posix()}"
                )
