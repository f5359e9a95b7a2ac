"""What of the Tinker wire has an entry in the project's audit log, as what is changed through REST has.

Other calls that change something write theirs where they do it: the start of a runtime, a copy, an upload. What has
none is listed with its reason in tests/api/tinker/test_audit.py.
"""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from pydantic import BaseModel

from api.tinker import account, bookkeeping, records
from api.tinker.answers import Answer
from api.tinker.callers import TinkerCaller
from console.audit.services import audit_record

ACTIONS: dict[Callable[..., Answer], str] = {
    bookkeeping.session_finish: "tinker_session_finish",
    records.checkpoint_delete: "checkpoint_delete",
    records.checkpoint_publish: "checkpoint_publish",
    records.checkpoint_unpublish: "checkpoint_unpublish",
    records.checkpoint_ttl: "checkpoint_ttl",
    account.key_delete: "key_revoke",
}


def run(handler: Callable[..., Answer], arguments: list[Any], names: dict[str, Any]) -> Answer:
    """Call ``handler``; record what it did in the transaction that does it. A refusal leaves no entry."""
    if (action := ACTIONS.get(handler)) is None:
        return handler(*arguments, **names)
    caller: TinkerCaller = arguments[0]
    bodies = [each for each in arguments if isinstance(each, BaseModel)]
    with transaction.atomic():
        answer = handler(*arguments, **names)
        audit_record(
            project_id=caller.project.id,
            actor=caller.key.user.email,
            key_id=caller.key.id,
            action=action,
            target=names or {"key_id": caller.key.id},
            details=bodies[0].model_dump(mode="json", exclude_unset=True) if bodies else {},
        )
    return answer
