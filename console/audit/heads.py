"""Where every log ended at some time, kept outside the database: what was cut off since, or deleted
whole, shows.

One line for each log: ``project number sha256``.
"""

from collections.abc import Iterable, Iterator

from console.audit.models import AuditHead, AuditRecord


def heads_text() -> str:
    """Where every log ends now."""
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
