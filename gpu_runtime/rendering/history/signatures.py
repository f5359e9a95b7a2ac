"""The signature of an answer's thoughts: it names the call that they came with, so that an echo of
them is found whatever the client has made of their text. Anthropic's clients keep thoughts that are
signed and drop others."""

import base64


def signature_of(call_id: str) -> str:
    """The signature of the thoughts of call ``call_id``."""
    return base64.b64encode(f"tinkerscript:{call_id}".encode()).decode()
