"""Adding to the audit log, reading it, and finding what was altered in it.

    sha256(n) = SHA-256(sha256(n - 1) + "\\n" + content(n)),   sha256(0) = ""

``content`` is JSON with sorted keys and no spaces, so that anyone with an export can check it
without this server. Each entry, and the head of each log, has a code besides:

    mac(entry) = HMAC-SHA256(key, "entry|project|number|sha256")
    mac(head)  = HMAC-SHA256(key, "head|project|number|sha256")

The key is not in the database: who may write every row can compute the chain's hashes, and cannot
compute these.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from console.audit.models import AuditHead, AuditQuerySet, AuditRecord

MAX_DETAILS_BYTES = 4000
SEARCHED = 10_000  # entries that one page of a search reads at most: texts of entries have no index


def audit_record(
    *,
    project_id: str,
    actor: str,
    action: str,
    target: dict[str, str] | None = None,
    details: dict[str, Any] | None = None,
    key_id: str | None = None,
    request_id: str = "",
) -> AuditRecord:
    """Add an entry, in the transaction of what it records: neither is committed without the
    other.
    """
    if len(_canonical(details or {}).encode()) > MAX_DETAILS_BYTES:
        details = {"too_long": True}
    with transaction.atomic():
        AuditHead.objects.get_or_create(project_id=project_id)
        head = AuditHead.objects.select_for_update().get(project_id=project_id)
        now = timezone.now()
        content = _canonical(
            {
                "project_id": project_id,
                "number": head.number + 1,
                "at": now.isoformat(),
                "actor": actor,
                "key_id": key_id,
                "action": action,
                "target": target or {},
                "details": details or {},
                "request_id": request_id,
            }
        )
        number, sha256 = head.number + 1, link(head.sha256, content)
        record = AuditRecord(
            project_id=project_id,
            number=number,
            content=content,
            at=now.replace(microsecond=0),  # a backup keeps no more than milliseconds
            actor=actor,
            action=action,
            target=_canonical(target or {}),
            previous_sha256=head.sha256,
            sha256=sha256,
        )
        record.mac = _mac("entry", record)
        record.save()
        head.number, head.sha256 = number, sha256
        head.mac = _mac("head", head)
        head.save()
    return record


def audit_list(
    *,
    project_id: str,
    before: int | None = None,
    limit: int = 50,
    actor: str = "",
    action: str = "",
    target: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[list[AuditRecord], int | None]:
    """One page of a project's entries, newest first, and what ``before`` is for the next (None:
    this was the last).

    Only those with these texts, in any case, in their actor, their action and an id of their
    target, and written from ``since`` on and before ``until``, to the second. Of these a page is
    looked for in the next ``SEARCHED`` entries: it may be short, or empty, and still be followed by
    another.
    """
    records = AuditRecord.objects.filter(project_id=project_id).order_by("-number")
    if before is not None:
        records = records.filter(number__lt=before)
    first = 1
    if actor or action or target or since or until:
        newest = records.values_list("number", flat=True).first() or 0
        first = max(1, newest - SEARCHED + 1)
        records = records.filter(number__gte=first)
        records = _matching(
            records, {"actor": actor, "action": action, "target": target}, since, until
        )
    page = list(records[: limit + 1])
    if len(page) > limit:
        return page[:limit], page[limit - 1].number
    return page, first if first > 1 else None


def _matching(
    records: AuditQuerySet, texts: dict[str, str], since: datetime | None, until: datetime | None
) -> AuditQuerySet:
    for name, text in texts.items():
        if text and name == "target":
            # Within a value: `":"` is before each and, as no quote in one is without its backslash,
            # nowhere else.
            written = re.escape(json.dumps(text, ensure_ascii=False)[1:-1])
            records = records.filter(target__iregex=rf'":"([^"\\]|\\.)*{written}')
        elif text:
            records = records.filter(**{f"{name}__icontains": text})
    if since is not None:
        records = records.filter(at__gte=since.replace(microsecond=0))
    if until is not None:
        records = records.filter(at__lt=until.replace(microsecond=0))
    return records


def audit_find(
    *, logs: Collection[str], kinds: Collection[str], target: dict[str, str], limit: int
) -> list[AuditRecord]:
    """The newest entries of these logs about ``target`` alone, whose action begins with one of
    ``kinds``.
    """
    of_kinds = Q(pk__in=[])
    for kind in kinds:
        of_kinds |= Q(action__startswith=kind)
    about = AuditRecord.objects.filter(of_kinds, project_id__in=logs, target=_canonical(target))
    return list(about.order_by("-id")[:limit])


def chain_verify(*, project_id: str) -> Iterator[str]:
    """What is wrong with a project's chain, one sentence each; nothing when it is as it was
    written.
    """
    number, sha256 = 0, ""
    for record in AuditRecord.objects.filter(project_id=project_id).order_by("number").iterator():
        if record.number != number + 1:
            yield f"{project_id}: entries {number + 1} to {record.number - 1} are missing"
        elif record.previous_sha256 != sha256:
            yield f"{project_id}: entry {record.number} does not follow the one before it"
        if link(record.previous_sha256, record.content) != record.sha256:
            yield f"{project_id}: entry {record.number} was altered"
        elif not _is_its_own(record):
            yield f"{project_id}: entry {record.number} was moved here from elsewhere"
        elif not hmac.compare_digest(record.mac, _mac("entry", record)):
            yield f"{project_id}: entry {record.number} was not written by this server"
        elif not _is_found_as_written(record):
            yield f"{project_id}: entry {record.number} was altered in what it is found by"
        number, sha256 = record.number, record.sha256
    head = AuditHead.objects.filter(project_id=project_id).first()
    if (head.number, head.sha256) != (number, sha256) if head else number > 0:
        yield (
            f"{project_id}: the log ends at entry {number}, but {head.number if head else 0} "
            "were written"
        )
    elif head and head.number and not hmac.compare_digest(head.mac, _mac("head", head)):
        yield f"{project_id}: that the log ends at entry {number} was not written by this server"


def chains() -> list[str]:
    """The projects that have a log."""
    in_log = set(AuditRecord.objects.values_list("project_id", flat=True).distinct())
    return sorted(in_log | set(AuditHead.objects.values_list("project_id", flat=True)))


def heads_text() -> str:
    """Where every log ends now, one line each: ``project number sha256``. Kept outside the
    database: what is cut off later, or deleted whole, shows.
    """
    heads = AuditHead.objects.filter(number__gt=0).order_by("project_id")
    return "".join(f"{head.project_id} {head.number} {head.sha256}\n" for head in heads)


def heads_compare(lines: Iterable[str], *, projects: Iterable[str] = ()) -> Iterator[str]:
    """What of ``lines`` is no longer in the logs, one sentence each. Raises ValueError for a line
    that is none.
    """
    wanted = set(projects)
    for line in lines:
        project_id, number, sha256 = line.split()
        if int(number) == 0 or (wanted and project_id not in wanted):
            continue
        record = AuditRecord.objects.filter(project_id=project_id, number=int(number)).first()
        if record is None:
            yield f"{project_id}: entry {number} was written and is not there"
        elif record.sha256 != sha256:
            yield f"{project_id}: entry {number} is another than the one that was written"


def link(previous_sha256: str, content: str) -> str:
    """The hash of an entry."""
    return hashlib.sha256(f"{previous_sha256}\n{content}".encode()).hexdigest()


def _mac(kind: str, row: AuditRecord | AuditHead) -> str:
    """The code of an ``entry``, or of the ``head`` of a log."""
    text = f"{kind}|{row.project_id}|{row.number}|{row.sha256}"
    return hmac.new(settings.AUDIT_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def _is_its_own(record: AuditRecord) -> bool:
    content = json.loads(record.content)
    return (content["project_id"], content["number"]) == (record.project_id, record.number)


def _is_found_as_written(record: AuditRecord) -> bool:
    """Whether the columns by which it is found are those of its content."""
    content = json.loads(record.content)
    columns = (record.at.isoformat(), record.actor, record.action, record.target)
    return columns == (
        datetime.fromisoformat(content["at"]).replace(microsecond=0).isoformat(),
        content["actor"],
        content["action"],
        _canonical(content["target"]),
    )


def _canonical(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
