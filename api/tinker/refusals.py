"""A user's mistake in a call that returns a future: it comes back through the future, with the category ``user``.

The promise is the refusal itself, so that nothing is kept.
"""

import base64
import json
from typing import Any

from api.tinker.answers import Answer
from tinkerscript.wire.tinker.ids import user_error

PROMISE = "refused|"  # what follows is the text in base64
MAX_TEXT = 4000
MAX_SAMPLES = 1000  # ids of samples that a refusal has at most


def refused(message: str, *, samples: int = 0) -> Answer:
    """A promise that fails with ``message``; ``samples`` is how many a client of ``asample`` wants ids of."""
    text = base64.urlsafe_b64encode(message[:MAX_TEXT].encode(errors="replace")).decode()
    promise: dict[str, Any] = {"request_id": PROMISE + text}
    if samples:
        promise["sample_sequence_ids"] = [f"refused-{number}" for number in range(min(samples, MAX_SAMPLES))]
    return Answer.of(promise)


def samples_wanted(body: bytes) -> int:
    """How many samples an ``asample`` asks for; 1 where it does not say."""
    try:
        number = json.loads(body).get("num_samples", 1)
    except (ValueError, AttributeError, RecursionError):
        return 1
    return number if type(number) is int and number > 0 else 1


def promised(body: bytes) -> Answer | None:
    """What comes of such a promise, at once; None for a promise of something else."""
    if PROMISE.encode() not in body:
        return None
    try:
        request_id = json.loads(body)["request_id"]
        if not request_id.startswith(PROMISE):
            return None
        message = base64.urlsafe_b64decode(request_id.removeprefix(PROMISE)).decode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Answer.of(user_error(message))
