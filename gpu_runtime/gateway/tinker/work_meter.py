"""What was done for Tinker clients, reported to the control plane: tokens, durations, and what the
calls returned."""

import asyncio
import logging
import math
import secrets
import time
from collections import deque
from dataclasses import dataclass

from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import ControlPlaneLost, ControlPlaneRefused, LeaseLost, StoreUnavailable
from gpu_runtime.events import Events
from gpu_runtime.gateway.tinker.dialects import CallDone
from gpu_runtime.gateway.tinker.ledger import OperationDone
from gpu_runtime.gateway.tinker.samples.sampling import SampleDone
from tinkerscript.wire.tinker.ids import client_of
from tinkerscript.wire.tinker.messages import (
    MAX_CALLS,
    MAX_CLIENTS,
    MAX_MEASURES,
    MAX_MODELS,
    MAX_SPANS,
    CallColumns,
    CallKind,
    TokensUsed,
    WorkReport,
    WorkSpan,
)

TELL_S = 5.0
CALLS_KEPT = 10_000  # that wait to be reported; of more the oldest go
REPORT_DEADLINE_S = 60.0
SAMPLE = "sample"
log = logging.getLogger(__name__)


@dataclass
class _Span:
    """``began_at`` and ``ended_at`` are Unix seconds."""

    began_at: float
    ended_at: float
    count: int
    tokens: int


@dataclass(frozen=True)
class _Call:
    """A call that has returned, at ``at`` (Unix seconds)."""

    model_id: str
    seq_id: int
    kind: CallKind
    at: float
    tokens: int
    measures: dict[str, float]


class WorkMeter:
    """What was done since the last report. An operation is a span of its own, as long as a report
    has room; samples of one sampling session are one.
    """

    def __init__(self, events: Events) -> None:
        events.subscribe(OperationDone, self._operation_done)
        events.subscribe(SampleDone, self._sampled)
        events.subscribe(CallDone, self._generated)
        self._boot, self._reports = secrets.token_hex(4), 0
        self._tokens: dict[str, dict[str, int]] = {}  # of each client
        self._spans: dict[tuple[str, str, int], _Span] = {}
        self._calls: deque[_Call] = deque(maxlen=CALLS_KEPT)
        self._untold: WorkReport | None = None

    def _operation_done(self, done: OperationDone) -> None:
        operation, result = done.operation, done.result
        if not done.again:
            self._count(operation.model_id, training=result.tokens)
            number = operation.seq_id if len(self._spans) < MAX_SPANS // 2 else -1
            self._span(operation.kind, operation.model_id, number, done.seconds, result.tokens)
        if result.measured is None:  # else the control plane takes each number of a model once
            return
        named = list(result.measured.measures.items())[:MAX_MEASURES]
        measures = {name[:80]: float(value) for name, value in named if math.isfinite(value)}
        kind, now = result.measured.kind, time.time()
        self._calls.append(
            _Call(operation.model_id, operation.seq_id, kind, now, result.tokens, measures)
        )

    def _sampled(self, sample: SampleDone) -> None:
        tokens, prompt = (
            sum(len(answer.token_ids_T) for answer in sample.outcome.answers),
            len(sample.order.prompt_ids),
        )
        cached = min(sample.outcome.cached_tokens, prompt)
        self._count(
            sample.sampler_id,
            sampling_prefill=prompt - cached,
            sampling_prefill_cached=cached,
            sampling_sample=tokens,
        )
        self._span(SAMPLE, sample.sampler_id, -1, sample.seconds, tokens)

    def _generated(self, call: CallDone) -> None:
        # its prompt as read whole
        self._count(
            call.sampler_id, sampling_prefill=call.prompt_tokens, sampling_sample=call.tokens
        )
        self._span(SAMPLE, call.sampler_id, -1, call.seconds, call.tokens)

    async def report(self, agent: Agent, *, deadline_s: float = REPORT_DEADLINE_S) -> None:
        """Send what is not yet reported. What the control plane refuses is dropped with a line in the
        log; where it is away the next time sends it again."""
        while (report := self._untold or self._take()) is not None:
            self._untold = report
            try:
                await agent.send("/v1/runtime/tinker-work", report, deadline_s=deadline_s)
            except ControlPlaneRefused as refused:
                log.warning("the control plane keeps no account of tokens: %s", refused)
            except (ControlPlaneLost, StoreUnavailable, LeaseLost):
                return
            self._untold = None

    async def run(self, agent: Agent) -> None:
        """Tell it every TELL_S, without end."""
        while True:
            await asyncio.sleep(TELL_S)
            await self.report(agent)

    def _take(self) -> WorkReport | None:
        if not (self._spans or self._calls or self._tokens):
            return None
        spans = [
            WorkSpan(
                kind=kind, of=of, began_at=span.began_at, seconds=max(0.0, span.ended_at - span.began_at),
                count=span.count, tokens=span.tokens,
            )
            for (kind, of, _), span in list(self._spans.items())[:MAX_SPANS]
        ]  # fmt: skip
        self._reports += 1
        told = list(self._tokens)[:MAX_CLIENTS]  # the next report has room for the others
        tokens = {client: TokensUsed(**self._tokens.pop(client)) for client in told}
        calls = self._take_calls()
        report = WorkReport(
            key=f"{self._boot}-{self._reports}", tokens=tokens, spans=spans, calls=calls
        )
        self._spans = {}
        return report

    def _take_calls(self) -> list[CallColumns]:
        """The oldest calls that one report has room for, as columns of each model."""
        by_model: dict[str, list[_Call]] = {}
        names: dict[str, set[str]] = {}
        for _ in range(min(MAX_CALLS, len(self._calls))):
            call = self._calls[0]
            known = names.get(call.model_id, set()) | call.measures.keys()
            if len(known) > MAX_MEASURES or len(names.keys() | {call.model_id}) > MAX_MODELS:
                break  # the next report has room for it
            names[call.model_id] = known
            by_model.setdefault(call.model_id, []).append(self._calls.popleft())
        return [
            CallColumns(
                model_id=model_id,
                seq_ids=[call.seq_id for call in calls],
                kinds=[call.kind for call in calls],
                at=[call.at for call in calls],
                tokens=[call.tokens for call in calls],
                measures={
                    name: [call.measures.get(name) for call in calls]
                    for name in sorted(names[model_id])
                },
            )
            for model_id, calls in by_model.items()
        ]

    def _count(self, of: str, **tokens: int) -> None:
        known = self._tokens.setdefault(client_of(of), {})
        for name, number in tokens.items():
            known[name] = known.get(name, 0) + number

    def _span(self, kind: str, of: str, number: int, seconds: float, tokens: int) -> None:
        ended_at = time.time()
        began_at = ended_at - seconds
        known = self._spans.setdefault((kind, of, number), _Span(began_at, ended_at, 0, 0))
        known.began_at, known.ended_at = (
            min(known.began_at, began_at),
            max(known.ended_at, ended_at),
        )
        known.count, known.tokens = known.count + 1, known.tokens + tokens
