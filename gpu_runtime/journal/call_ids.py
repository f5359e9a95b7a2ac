"""The names of one call: ``call_X`` in the journal, and in a dialect's answer the same X under that
dialect's prefix.

An agent knows a call by the ``id`` of the answer that it got, a reader of ``GET .../calls`` by the
journal's. Both name it in ``rewards_by_call``.
"""

import base64
import secrets

CALL, CHAT, TEXT, RESPONSE, MESSAGE = "call_", "chatcmpl-", "cmpl-", "resp_", "msg_"
PREFIXES = (CALL, CHAT, TEXT, RESPONSE, MESSAGE)


def new_call_id() -> str:
    """A fresh id for the journal."""
    return CALL + secrets.token_hex(12)


def with_prefix(prefix: str, call_id: str) -> str:
    """The call's name under ``prefix``. Example: ``with_prefix(CHAT, "call_1f") ==
    "chatcmpl-1f"``.
    """
    return prefix + call_id.removeprefix(CALL)


def canonical_call_id(name: str) -> str:
    """The journal's id of the call that ``name`` names in any dialect; any other text comes back as
    it is.
    """
    return next(
        (CALL + name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name
    )


def signature_of(call_id: str) -> str:
    """The signature of the thoughts of a call: an echo of them is found by it, whatever a client
    has made of their text. Anthropic's clients keep thoughts that are signed and drop others.
    """
    return base64.b64encode(f"tinkerscript:{call_id}".encode()).decode()
