"""Responses to Tinker clients.

A user's mistake in a call that returns a future comes back through the future, with the category
``user``. The promise is the refusal itself, so that nothing is kept.
"""

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from tinkerscript.wire.tinker.ids import user_error

PROMISE = "refused|"  # what follows is the text in base64
# Found without parsing the body: inside a string its quotes would be escaped.
PROMISED = re.compile(rb'"request_id"\s*:\s*"refused\|([A-Za-z0-9_=-]*)"')
MAX_TEXT = 4000
Json = dict[str, Any]
MAX_SAMPLES = 1000  # ids of samples that a refusal has at most


@dataclass(frozen=True)
class Answer:
    """A response, where it is more than the JSON of a 200 that a view returns. ``retry_after_s``
    asks the client to wait.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    retry_after_s: int | None = None

    @classmethod
    def of(cls, value: object, status: int = 200, retry_after_s: int | None = None) -> "Answer":
        """A JSON response."""
        return cls(status, json.dumps(value).encode(), retry_after_s=retry_after_s)


def refused(message: str, *, samples: int = 0) -> Answer:
    """A promise that fails with ``message``; ``samples`` is how many a client of ``asample`` wants
    ids of.
    """
    text = base64.urlsafe_b64encode(message[:MAX_TEXT].encode(errors="replace")).decode()
    promise: dict[str, Any] = {"request_id": PROMISE + text}
    if samples:
        promise["sample_sequence_ids"] = [
            f"refused-{number}" for number in range(min(samples, MAX_SAMPLES))
        ]
    return Answer.of(promise)


def refusal_read(body: bytes) -> Answer | None:
    """What comes of such a promise, at once; None for a promise of something else."""
    found = PROMISED.search(body)
    if found is None:
        return None
    try:
        message = base64.urlsafe_b64decode(found[1]).decode()
    except ValueError:
        return None
    return Answer.of(user_error(message))
