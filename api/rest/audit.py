"""Who did what: a row of the table of routes that names an action has an entry in its project's
audit log.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from django.db import transaction
from pydantic import BaseModel

from api.rest.authentication import Caller
from console.audit.services import audit_record

T = TypeVar("T")


def audited(
    work: Callable[[], T],
    action: str,
    caller: Caller,
    ids: Mapping[str, str],
    body: BaseModel | None,
    request_id: str = "",
) -> T:
    """Record what ``work`` did, in the transaction that does it. A refusal leaves no entry.

    The target is the ``ids`` of the path and that of what was made, else a key that revokes itself.
    """
    with transaction.atomic():
        result = work()
        target, made = dict(ids), getattr(result, "id", None)
        if made and made not in target.values():
            target["id"] = made
        if not target and caller.key:
            target["key_id"] = caller.key.id
        audit_record(
            project_id=caller.project.id,
            actor=caller.user.email,
            key_id=caller.key.id if caller.key else None,
            action=action,
            target=target,
            details=body.model_dump(mode="json", exclude_unset=True) if body else {},
            request_id=request_id,
        )
        return result
