"""A pickle that does something when it is read."""

import os
from pathlib import Path
from typing import Any


class Forged:
    """Unpickled it makes a folder."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.made),)
