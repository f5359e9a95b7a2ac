"""``POST /create_custom_loss``: the loss is checked, and its id is what it is made of, so that nothing is kept."""

import re

from api.tinker.answers import Answer
from api.tinker.callers import TinkerCaller
from api.tinker.requests import CustomLossBody
from console.errors import InvalidRequest
from console.tinker import services
from tinkerscript.wire.tinker.custom_loss import LOSS_ID, CustomLossRefused, loss_pack

PROMISE = "custom|"  # how the promise of a loss begins; what follows is the loss's id
# Found without parsing the body: inside a string its quotes would be escaped.
PROMISED = re.compile(rb'"request_id"\s*:\s*"custom\|(' + LOSS_ID.encode() + rb'[A-Za-z0-9_=-]*)"')


def custom_loss_create(caller: TinkerCaller, body: CustomLossBody) -> Answer:
    """A promise of the loss's id. Raises InvalidRequest, which names the node that is not computed here, Forbidden."""
    services.tinker_session_of_key(key=caller.key, tinker_session_id=body.session_id)
    try:
        loss_id = loss_pack(body)
    except CustomLossRefused as refused:
        raise InvalidRequest(
            f"{refused}.", hint="Pass the function itself to forward_backward_custom: the client computes it then."
        ) from refused
    return Answer.of({"request_id": PROMISE + loss_id})


def promised(body: bytes) -> Answer | None:
    """What comes of such a promise, at once; None for a promise of something else."""
    found = PROMISED.search(body)
    return Answer.of({"loss_id": found[1].decode(), "type": "create_custom_loss"}) if found else None
