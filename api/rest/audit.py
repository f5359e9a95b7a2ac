"""Who did what: a row of the table of routes that names an action has an entry in its project's
audit log.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from pydantic import BaseModel

from api.rest.authentication import Caller
from api.rest.requests import ApiRequest
from console.audit.services import audit_record
from console.server.request_id import request_id_of

T = TypeVar("T")


def audited(view: Callable[..., T], action: str) -> Callable[..., T]:
    """Record what ``view`` did, in the transaction that does it. A refusal leaves no entry."""

    @functools.wraps(view)
    def recording(asked: ApiRequest | Caller, **values: Any) -> T:
        caller = asked if isinstance(asked, Caller) else asked.auth
        body = values.get("body")
        with transaction.atomic():
            response = view(asked, **values)
            audit_record(
                project_id=caller.project.id,
                actor=caller.user.email,
                key_id=caller.key.id if caller.key else None,
                action=action,
                target=_target(values, getattr(response, "data", None)) or _itself(caller),
                details=body.model_dump(mode="json", exclude_unset=True)
                if isinstance(body, BaseModel)
                else {},
                request_id="" if isinstance(asked, Caller) else request_id_of(asked.http),
            )
            return response

    return recording


def _itself(caller: Caller) -> dict[str, str]:
    """The target of a call that names none: a key that revokes itself."""
    return {"key_id": caller.key.id} if caller.key else {}


def _target(values: dict[str, Any], result: BaseModel | None) -> dict[str, str]:
    """The ids of the path, and that of what was made."""
    target = {name: value for name, value in values.items() if name not in ("body", "query")}
    made = getattr(result, "id", None)
    return target | ({"id": made} if made and made not in target.values() else {})
