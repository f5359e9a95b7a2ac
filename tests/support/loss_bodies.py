"""A small ``create_custom_loss``, without torch."""

from typing import Any


def custom_loss_body(session_id: str, called: str = "torch.sum") -> dict[str, Any]:
    nodes = [
        {"op": "placeholder", "name": "logprobs", "target": "logprobs", "args": [], "kwargs": {}},
        {"op": "call_function", "name": "sum_1", "target": called, "args": [{"ref": "logprobs"}], "kwargs": {}},
        {"op": "output", "name": "output", "target": "output", "kwargs": {},
         "args": [{"tuple": [{"ref": "sum_1"}, {"dict": {"custom/s:sum": {"ref": "sum_1"}}}]}]},
    ]  # fmt: skip
    return {
        "session_id": session_id, "custom_loss_seq_id": 0, "name": "mine", "type": "create_custom_loss",
        "inputs": [{"name": "logprobs", "rank": 1}], "graph": {"format": 1, "nodes": nodes},
    }  # fmt: skip
