"""Who used what of a project: in all, and on each day, the times of its runtimes cut at midnight
UTC.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, Q

from console.errors import InvalidRequest
from console.sessions.limits.usage import Spent, spent_in_all
from console.sessions.models import RuntimeSpan
from console.users.models import ApiKey, Membership, Project
from tinkerscript.wire.projects import DayUsage, PayerUsage, PeriodUsage, UsageBy, UsageDays

MAX_DAYS = 366
BY_HAND, UNKNOWN = "started by hand", "no longer known, or no longer members"
COLUMNS = {UsageBy.MEMBER: "person_id", UsageBy.KEY: "key_id", UsageBy.MODEL: "base_model"}
Names = Mapping[Any, tuple[str, str]]  # the value of the column -> id and name of who is meant


def usage_by_key(*, project: Project) -> list[PayerUsage]:
    """What the sessions of each key used, the most used first."""
    names = dict(ApiKey.objects.filter(project=project).values_list("id", "name"))
    return _payers(spent_in_all("key_id", project_id=project.id, key_id__isnull=False), names)


def usage_by_member(*, project: Project) -> list[PayerUsage]:
    """What the sessions of each member used, by hand or by key, deleted sessions too."""
    known = _names(project, UsageBy.MEMBER)
    merged: defaultdict[str | None, Spent] = defaultdict(Spent)
    for user, one in spent_in_all("person_id", project_id=project.id).items():
        merged[known[user][0] if user in known else None].add(one)
    return _payers(merged, dict(known.values()))


def _payers(spent: Mapping[str | None, Spent], names: Mapping[str, str]) -> list[PayerUsage]:
    payers = [
        PayerUsage(
            id=who,
            name=(names.get(who) or who) if who else UNKNOWN,
            device_s=one.device_s,
            cost=one.cost,
        )
        for who, one in spent.items()
    ]
    return sorted(payers, key=lambda payer: -payer.device_s)


def usage_days(*, project: Project, first: date, last: date, by: UsageBy) -> UsageDays:
    """What was used from ``first`` to ``last``, both included. Raises InvalidRequest."""
    if not first <= last < first + timedelta(days=MAX_DAYS):
        raise InvalidRequest(
            f"From {first} to {last} is no period of 1 to {MAX_DAYS} days.",
            hint="Set first and last as days (2026-11-29), first not after last.",
        )
    since, until = _midnight(first), _midnight(last + timedelta(days=1))
    may_be_in = Q(summed=False) | Q(summed_at__gt=since)  # what is read by an index
    spans = RuntimeSpan.objects.filter(
        may_be_in, project=project, seen_at__gt=since, started_at__lt=until
    ).order_by()
    names = _names(project, by)
    days: defaultdict[tuple[date, str | None], Spent] = defaultdict(Spent)
    for value, gpus, began, seen in spans.values_list(COLUMNS[by], "gpus", "started_at", "seen_at"):
        payer = names.get(value, (None, ""))[0] if by is not UsageBy.MODEL else value or None
        for day, seconds in _by_day(max(began, since), min(seen, until)):
            days[day, payer].add(Spent.of(seconds, gpus))
    told = {id_: name for id_, name in names.values()}
    return UsageDays(
        first=first,
        last=last,
        by=by,
        days=[
            DayUsage(date=day, id=payer, **spent.measures())
            for (day, payer), spent in sorted(
                days.items(), key=lambda one: (one[0][0], one[0][1] or "")
            )
        ],
        payers=_period(days, told, by, _caps(project) if by is UsageBy.KEY else {}),
        prices=settings.DEVICE_PRICES,
    )


def _period(
    days: Mapping[tuple[date, str | None], Spent],
    names: Mapping[str, str],
    by: UsageBy,
    caps: Mapping[str, tuple[int, float]],
) -> list[PeriodUsage]:
    """Who used something in the period, the most used first; and keys with a cap that did not."""
    sums: defaultdict[str | None, Spent] = defaultdict(Spent)
    for (_, payer), spent in days.items():
        sums[payer].add(spent)
    for key_id in caps:
        sums[key_id].add(Spent())
    nobody = BY_HAND if by is UsageBy.KEY else UNKNOWN
    found = []
    for payer, spent in sums.items():
        name = nobody if payer is None else names.get(payer) or payer
        cap_s, ever_s = caps.get(payer or "", (None, None))
        found.append(
            PeriodUsage(id=payer, name=name, cap_s=cap_s, ever_s=ever_s, **spent.measures())
        )
    return sorted(found, key=lambda one: (-one.device_s, one.name))


def _names(project: Project, by: UsageBy) -> Names:
    if by is UsageBy.MEMBER:
        members = Membership.objects.filter(project=project, user__isnull=False)
        rows = members.values_list("user", "member_id", F("user__email"))
        return {user: (member_id, email) for user, member_id, email in rows}
    if by is UsageBy.KEY:
        keys = ApiKey.objects.filter(project=project).values_list("id", "name")
        return {key_id: (key_id, name) for key_id, name in keys}
    return {}


def _caps(project: Project) -> dict[str, tuple[int, float]]:
    """Cap of each key that has one and may still be used, and what it used, in device-seconds."""
    keys = ApiKey.objects.filter(project=project, revoked_at=None, spend_cap_s__isnull=False)
    caps = {
        key_id: cap_s
        for key_id, cap_s in keys.values_list("id", "spend_cap_s")
        if cap_s is not None
    }
    if not caps:
        return {}
    spent = spent_in_all("key_id", project_id=project.id, key_id__in=list(caps))
    return {key_id: (cap_s, spent[key_id].device_s) for key_id, cap_s in caps.items()}


def _by_day(began: datetime, ended: datetime) -> Iterator[tuple[date, float]]:
    """The seconds of each day between two times."""
    began, ended = began.astimezone(UTC), ended.astimezone(UTC)
    while began < ended:
        stop = min(ended, _midnight(began.date() + timedelta(days=1)))
        yield began.date(), (stop - began).total_seconds()
        began = stop


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
