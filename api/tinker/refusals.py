"""A user's mistake in a call that returns a future: it comes back through the future, with the
category ``user``.

The promise is the refusal itself, so that nothing is kept.
"""

import base64
import re
from typing import Any

from api.tinker.answers import Answer
from tinkerscript.wire.tinker.ids import user_error

PROMISE = "refused|"  # what follows is the text in base64
# Found without parsing the body: inside a string its quotes would be escaped.
PROMISED = re.compile(rb'"request_id"\s*:\s*"refused\|([A-Za-z0-9_=-]*)"')
MAX_TEXT = 4000
MAX_SAMPLES = 1000  # ids of samples that a refusal has at most


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


def promised(body: bytes) -> Answer | None:
    """What comes of such a promise, at once; None for a promise of something else."""
    found = PROMISED.search(body)
    if found is None:
        return None
    try:
        message = base64.urlsafe_b64decode(found[1]).decode()
    except ValueError:
        return None
    return Answer.of(user_error(message))
