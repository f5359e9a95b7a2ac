"""Base models that an operator brought: folders under DATA/models, each with a record of what is in
it.

The record, ``base_model.json``, is written last: a folder without one is not there yet. It holds
where the model came from, the SHA-256 of every file, and what loading it showed.
"""

import json
from typing import Any

from django.conf import settings

RECORD = "base_model.json"


def added_models() -> dict[str, dict[str, Any]]:
    """The record of every added model, by name."""
    found = {}
    for path in sorted((settings.DATA / "models").glob(f"*/{RECORD}")):
        record = json.loads(path.read_text())
        found[record["name"]] = record
    return found
