"""What sessions used, from the times at which their runtimes were seen, and the caps that keys put
on it.

A runtime's span is final once no session that goes on has its lease. Final ones are added up, so
that usage costs the same to read however long a project is used; until then, readers add them
themselves.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.utils import timezone

from console.errors import BudgetExhausted
from console.sessions.models import RuntimeSpan, Session, UsageSum
from console.sessions.selectors import session_list
from console.sessions.states import GOING
from console.users.models import ApiKey, Project
from tinkerscript.wire.projects import TimeUsage, Usage

# a lease that is being given to a session has a span before the session has it
FINAL_AFTER = timedelta(minutes=10)
AT_ONCE = 1000
PAYER = ("project_id", "session_id", "key_id", "person_id", "gpus")


@dataclass
class Spent:
    """Seconds, measured. A device is a GPU, or the machine of a runtime that has none."""

    runtime_s: float = 0.0
    gpu_s: float = 0.0
    device_s: float = 0.0

    @property
    def cost(self) -> float | None:
        """At the prices of today; None where the server has none."""
        prices = settings.DEVICE_PRICES
        if prices is None:
            return None
        return (self.gpu_s * prices.gpu + (self.device_s - self.gpu_s) * prices.cpu) / 3600

    @classmethod
    def of(cls, seconds: float, gpus: int) -> "Spent":
        """What a runtime with so many GPUs used in this time."""
        return cls(seconds, seconds * gpus, seconds * max(1, gpus))

    def add(self, other: "Spent") -> None:
        """Count what another one used too."""
        self.runtime_s += other.runtime_s
        self.gpu_s += other.gpu_s
        self.device_s += other.device_s

    def measures(self) -> dict[str, Any]:
        """As a response names them."""
        return {
            "runtime_s": self.runtime_s,
            "gpu_s": self.gpu_s,
            "device_s": self.device_s,
            "cost": self.cost,
        }


def usage_list(
    *, project: Project, cursor: str | None, limit: int
) -> tuple[list[tuple[Session, Usage]], Usage, str | None]:
    """One page of sessions, newest first, with what each used; the project's sum; the cursor of the
    next page.
    """
    sessions, next_cursor = session_list(project=project, cursor=cursor, limit=limit)
    ids = [session.id for session in sessions]
    spent = spent_in_all("session_id", session_id__in=ids)
    items = [
        (session, _usage(spent[session.id], session.policy_version_high, session.tokens_trained))
        for session in sessions
    ]
    every = Session.objects.filter(project=project)
    sums = every.aggregate(steps=Sum("policy_version_high"), tokens=Sum("tokens_trained"))
    total = _usage(
        spent_in_all("project_id", project_id=project.id)[project.id],
        sums["steps"] or 0,
        sums["tokens"] or 0,
    )
    return items, total, next_cursor


def recent_usage(*, project: Project, within: timedelta) -> TimeUsage:
    """What runtimes of the project used in the last stretch of time: a span that began before it
    counts in part.
    """
    since = timezone.now() - within
    may_be_recent = Q(summed=False) | Q(summed_at__gt=since)  # what is read by an index
    spans = RuntimeSpan.objects.filter(may_be_recent, project=project, seen_at__gt=since).order_by()
    spent = Spent()
    for started_at, seen_at, gpus in spans.values_list("started_at", "seen_at", "gpus"):
        spent.add(Spent.of((seen_at - max(started_at, since)).total_seconds(), gpus))
    return TimeUsage(runtime_s=spent.runtime_s, gpu_s=spent.gpu_s, cost=spent.cost)


def spent_by_key(*, project: Project) -> dict[str, float]:
    """Device-seconds of the sessions that each key of the project started."""
    spent = spent_in_all("key_id", project_id=project.id, key_id__isnull=False)
    return {key_id: one.device_s for key_id, one in spent.items()}


def key_budget_check(*, key: ApiKey | None) -> None:
    """Raises BudgetExhausted when the key's sessions have used its cap. A person (None) has
    none.
    """
    if key is None or key.spend_cap_s is None:
        return
    spent_s = key_spent_s(key=key)
    if spent_s >= key.spend_cap_s:
        raise BudgetExhausted(
            f"This key's sessions have used {spent_s:.0f} of {key.spend_cap_s} device-seconds.",
            hint="Make a key with a larger cap, or none.",
            details={"spend_cap_s": key.spend_cap_s, "spent_s": spent_s, "left_s": 0},
        )


def span_open(*, session: Session, lease_sha256: str, gpus: int) -> None:
    """A runtime was given the session's lease. Its time has no length before it registers."""
    now = timezone.now()
    starter = session.person_id or (session.key.user_id if session.key else None)
    RuntimeSpan.objects.create(
        project_id=session.project_id,
        session_id=session.id,
        key_id=session.key_id,
        person_id=starter,
        base_model=session.base_model,
        lease_sha256=lease_sha256,
        gpus=gpus,
        started_at=now,
        seen_at=now,
    )


def span_begin(*, lease_sha256: str, at: datetime) -> None:
    """The runtime of this lease has its devices: its time begins, without what it waited for them
    in a cluster.
    """
    RuntimeSpan.objects.filter(lease_sha256=lease_sha256).update(started_at=at, seen_at=at)


def span_seen(*, lease_sha256: str, at: datetime) -> None:
    """The runtime of this lease is there."""
    RuntimeSpan.objects.filter(lease_sha256=lease_sha256).update(seen_at=at)


def key_spent_s(*, key: ApiKey) -> float:
    """Device-seconds of the sessions that the key started."""
    return spent_in_all("key_id", key_id=key.id)[key.id].device_s


def session_spent(*, session: Session) -> Spent:
    """What one session used."""
    return spent_by(RuntimeSpan.objects.filter(session_id=session.id), "session_id")[session.id]


def spent_by(spans: QuerySet[RuntimeSpan], by: str) -> defaultdict[Any, Spent]:
    """What the spans used, by the value of this column of theirs."""
    length = ExpressionWrapper(F("seen_at") - F("started_at"), output_field=DurationField())
    found: defaultdict[Any, Spent] = defaultdict(Spent)
    for row in spans.values(by, "gpus").annotate(time=Sum(length)).order_by():
        found[row[by]].add(Spent.of(row["time"].total_seconds(), row["gpus"]))
    return found


def spent_in_all(by: str, **which: object) -> defaultdict[Any, Spent]:
    """As ``spent_by`` of all spans that ``which`` selects by project, session or key: their sums,
    and those without.
    """
    # Sums first: what is added up between the two reads is missing until the next one, and never
    # counted twice.
    sums = list(
        UsageSum.objects.filter(**which).values(by, "gpus").annotate(time=Sum("seconds")).order_by()
    )
    found = spent_by(RuntimeSpan.objects.filter(summed=False, **which), by)
    for row in sums:
        found[row[by]].add(Spent.of(row["time"], row["gpus"]))
    return found


def _usage(spent: Spent, steps: int, tokens: int) -> Usage:
    return Usage.model_validate(spent.measures() | {"steps": steps, "tokens_trained": tokens})


def usage_sum() -> None:
    """Add up the spans that are final."""
    while _spans_sum() == AT_ONCE:
        pass


def _spans_sum() -> int:
    """How many spans were added: AT_ONCE at the most."""
    held = (
        Session.objects.filter(state__in=GOING)
        .exclude(lease_sha256="")
        .values_list("lease_sha256", flat=True)
    )
    spans = RuntimeSpan.objects.filter(summed=False, seen_at__lt=timezone.now() - FINAL_AFTER)
    with transaction.atomic():
        some = list(
            spans.exclude(lease_sha256__in=list(held))
            .select_for_update()
            .order_by("project_id", "id")[:AT_ONCE]
        )
        seconds: defaultdict[tuple[tuple[str, Any], ...], float] = defaultdict(float)
        for span in some:
            payer = tuple((name, getattr(span, name)) for name in PAYER)
            seconds[payer] += (span.seen_at - span.started_at).total_seconds()
        there = UsageSum.objects.filter(session_id__in={span.session_id for span in some}).order_by(
            "-id"
        )
        rows = {tuple((name, getattr(row, name)) for name in PAYER): row.id for row in there}
        for payer in seconds.keys() & rows.keys():
            UsageSum.objects.filter(id=rows[payer]).update(seconds=F("seconds") + seconds[payer])
        new = [
            UsageSum(**dict(payer), seconds=seconds[payer])
            for payer in seconds.keys() - rows.keys()
        ]
        UsageSum.objects.bulk_create(new)
        RuntimeSpan.objects.filter(id__in=[span.id for span in some]).update(
            summed=True, summed_at=timezone.now()
        )
    return len(some)
