"""Reading the JSON of a model's folder."""

import json
from pathlib import Path
from typing import Any

from tinkerscript.errors import InvalidRequest

Json = dict[str, Any]


def json_read(path: Path) -> Json:
    """An object of JSON. Raises InvalidRequest where it is missing or damaged."""
    try:
        read: Json = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(read, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError) as failure:
        hint = "Give the folder of a downloaded model: tinkerscript download ID FOLDER"
        raise InvalidRequest(f"{path} cannot be read: {failure}.", hint=hint) from failure
    return read
