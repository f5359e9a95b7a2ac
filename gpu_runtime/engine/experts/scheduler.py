"""vLLM's schedulers, which bring out the experts that a worker recorded (recorder.py) with each
token. vLLM imports this in the process of its core alone.
"""

from types import SimpleNamespace
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler


def _row(request: Any, rows: dict[str, Any] | None) -> Any:
    """Of the token that a request has got, ``[1, bytes]``."""
    return rows.get(request.request_id) if rows else None


# In the place of vLLM's connector, whose worker's part only its second model runner has. A worker
# records of every request, and nothing is kept of a request or a prefix.
RECORDED = SimpleNamespace(
    build_connector_meta=lambda *_: None,
    take_output=_row,
    request_finished=lambda *_: None,
    reset=lambda: None,
)


class RecordingScheduler(Scheduler):
    """Of a step that waits for the one before it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.aux_output_connector: Any = RECORDED


class AsyncRecordingScheduler(AsyncScheduler):
    """Of a step that is prepared meanwhile."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.aux_output_connector: Any = RECORDED
