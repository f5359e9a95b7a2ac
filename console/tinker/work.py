"""What runtimes did for Tinker clients, as they reported it: durations of operations, for traces;
the tokens of each hour, for usage; what the calls of models returned, read as columns of a bounded
length.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from console.errors import NotFound
from console.sessions.models import Session
from console.sessions.runtime.leases import lease_lock
from console.tinker.models import (
    TinkerCall,
    TinkerModel,
    TinkerRuntime,
    TinkerSampler,
    TinkerSession,
    TinkerTokens,
    TinkerWork,
)
from console.users.models import Project
from tinkerscript.wire.reading.points import buckets
from tinkerscript.wire.tinker.messages import CallColumns, CallKind, WorkReport
from tinkerscript.wire.tinker.runs import CallColumn, ModelCalls, TinkerTokenCounts

REPORTS_KEPT = 2000  # of a session
CALLS_KEPT = 20_000  # of a model: the newest
SAMPLERS_SHOWN, CLIENTS_SHOWN = 50, 50
STEP: CallKind = "optim_step"


def work_record(*, session: Session, body: WorkReport) -> None:
    """Take a runtime's report, once. Its tokens count in this hour. Raises StaleLease."""
    spans = [span.model_dump(exclude_defaults=True) for span in body.spans]
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    with transaction.atomic():
        lease_lock(session)
        _row, is_new = TinkerWork.objects.get_or_create(
            session=session, key=body.key, defaults={"spans": spans}
        )
        if not is_new:
            return
        known = set(
            TinkerRuntime.objects.filter(
                session=session, tinker_session__in=body.tokens
            ).values_list("tinker_session_id", flat=True)
        )
        for client, tokens in body.tokens.items():
            if client in known:
                of_hour, _ = TinkerTokens.objects.get_or_create(
                    session=session, tinker_session_id=client, hour=hour
                )
                TinkerTokens.objects.filter(id=of_hour.id).update(
                    **{name: F(name) + count for name, count in tokens.model_dump().items()}
                )
        trained = sum(tokens.training for tokens in body.tokens.values())
        Session.objects.filter(id=session.id).update(tokens_trained=F("tokens_trained") + trained)
        _calls_record(session=session, reported=body.calls)
        kept = (
            TinkerWork.objects.filter(session=session).order_by("-id").values_list("id", flat=True)
        )
        if (oldest := kept[REPORTS_KEPT - 1 : REPORTS_KEPT].first()) is not None:
            TinkerWork.objects.filter(session=session, id__lt=oldest).delete()


def spans_of(*, session_id: str) -> list[dict[str, Any]]:
    """The spans that are kept of a session, those of the oldest report first."""
    reports = (
        TinkerWork.objects.filter(session_id=session_id)
        .order_by("id")
        .values_list("spans", flat=True)
    )
    return [span for spans in reports for span in spans]


def tokens_of(*, project: Project, began: datetime, ended: datetime) -> QuerySet[TinkerTokens]:
    """The hours from ``began`` up to ``ended`` in which runtimes of the project did something, in
    order.
    """
    rows = TinkerTokens.objects.filter(
        tinker_session__project=project, hour__gte=began, hour__lt=ended
    )
    return rows.select_related("session", "tinker_session__key__user").order_by("hour", "id")


def _calls_record(*, session: Session, reported: Sequence[CallColumns]) -> None:
    """Keep them, each number of a model once; those of models of other sessions are left out.

    Call it within a transaction, with the lease held.
    """
    models = {model.id: model for model in TinkerModel.objects.filter(session=session)}
    for columns in reported:
        if (model := models.get(columns.model_id)) is not None:
            _record(model, columns)


def _record(model: TinkerModel, columns: CallColumns) -> None:
    known = set(model.calls.filter(seq_id__in=columns.seq_ids).values_list("seq_id", flat=True))
    oldest_kept = _oldest_kept(model)
    new: dict[int, TinkerCall] = {}
    for at, seq_id in enumerate(columns.seq_ids):
        if seq_id in known or (oldest_kept is not None and seq_id < oldest_kept):
            continue
        measures = {
            name: values[at] for name, values in columns.measures.items() if values[at] is not None
        }
        new[seq_id] = TinkerCall(
            model=model,
            seq_id=seq_id,
            kind=columns.kinds[at],
            tokens=columns.tokens[at],
            measures=measures,
            at=datetime.fromtimestamp(columns.at[at], UTC),
        )
    if not new:
        return
    TinkerCall.objects.bulk_create(new.values())
    steps = [new[seq_id] for seq_id in sorted(new) if new[seq_id].kind == STEP]
    trained = sum(call.kind == "forward_backward" for call in new.values())
    changed = {"steps": F("steps") + len(steps), "calls_in_all": F("calls_in_all") + trained}
    if steps and "learning_rate" in steps[-1].measures:
        changed["learning_rate"] = steps[-1].measures["learning_rate"]
    TinkerModel.objects.filter(id=model.id).update(**changed)
    if (oldest_kept := _oldest_kept(model)) is not None:
        model.calls.filter(seq_id__lt=oldest_kept).delete()


def _oldest_kept(model: TinkerModel) -> int | None:
    """The number of the oldest call that is kept; None while all are."""
    return (
        model.calls.order_by("-seq_id")
        .values_list("seq_id", flat=True)[CALLS_KEPT - 1 : CALLS_KEPT]
        .first()
    )


def tinker_clients(*, session: Session) -> list[TinkerSession]:
    """The Tinker sessions that it serves or served, in the order in which they came, the newest
    CLIENTS_SHOWN. Raises NotFound for a session of another kind.
    """
    rows = TinkerRuntime.objects.filter(session=session).select_related("tinker_session")
    newest = [row.tinker_session for row in rows.order_by("-id")[:CLIENTS_SHOWN]]
    if not newest:
        raise NotFound(
            "This session is not of the tinker client.",
            hint="Its kind is in GET /v1/sessions/{id}.",
        )
    return newest[::-1]


def session_models(*, session: Session) -> QuerySet[TinkerModel]:
    """The session's models, client by client, by their numbers."""
    return session.tinker_models.order_by("tinker_session__created_at", "tinker_session", "number")


def samplers_newest(*, session: Session) -> tuple[list[TinkerSampler], int]:
    """The newest of its sampling sessions of a base model or of a path, and how many there are."""
    samplers = session.tinker_samplers.order_by("-created_at", "-number")
    return list(samplers[:SAMPLERS_SHOWN]), samplers.count()


def tokens_count(*, session: Session) -> TinkerTokenCounts:
    """All tokens that its runtimes reported."""
    names = list(TinkerTokenCounts.model_fields)
    sums = session.tinker_tokens.aggregate(**{name: Sum(name) for name in names})
    return TinkerTokenCounts(**{name: sums[name] or 0 for name in names})


def model_calls(
    *,
    session: Session,
    model_id: str,
    kind: CallKind,
    points: int,
    first: int | None = None,
    last: int | None = None,
) -> ModelCalls:
    """Calls of one kind, those numbered ``first`` to ``last``, as at most ``points`` points.

    Raises NotFound for a model of another session.
    """
    model = session.tinker_models.filter(id=model_id).first()
    if model is None:
        raise NotFound("There is no such model in this session.")
    kept = list(model.calls.order_by("seq_id").values_list("kind", "tokens", "measures"))
    # What was dropped for its age stands before what is kept.
    steps = model.steps - sum(each == STEP for each, _, _ in kept)
    rows = []
    for each, tokens, measures in kept:
        steps += each == STEP
        if each == kind:
            rows.append((steps, tokens, measures))
    in_all = {STEP: model.steps, "forward_backward": model.calls_in_all}.get(kind, len(rows))
    before = in_all - len(rows)  # that are kept no more
    begin = max(0, (first or 1) - 1 - before)
    rows = rows[begin : None if last is None else max(0, last - before)]
    stretches = buckets(len(rows), points)
    ends = [stretch.stop - 1 for stretch in stretches]
    names = sorted({name for _, _, measures in rows for name in measures})
    return ModelCalls(
        numbers=[before + begin + end + 1 for end in ends],
        steps=[rows[end][0] for end in ends],
        tokens=[rows[end][1] for end in ends],
        columns={
            name: _column([measures.get(name) for _, _, measures in rows], stretches)
            for name in names
        },
        calls_in_all=in_all,
        calls_within=len(rows),
    )


def _column(values: list[float | None], stretches: Sequence[slice]) -> CallColumn:
    known = [[value for value in values[stretch] if value is not None] for stretch in stretches]
    return CallColumn(
        last=[values[stretch.stop - 1] for stretch in stretches],
        low=[min(each, default=None) for each in known],
        high=[max(each, default=None) for each in known],
    )
