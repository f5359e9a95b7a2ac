"""Writing down who did what: every route that changes something adds to its project's audit log by itself."""

import functools
from collections.abc import Callable
from typing import Any

from django.db import transaction
from pydantic import BaseModel
from rest_framework.response import Response

from api.rest.requests import ApiRequest
from console.audit.services import audit_record
from console.server.request_id import request_id_of


def audited(view: Callable[..., Response]) -> Callable[..., Response]:
    """Record what ``view`` did, in the transaction that does it. A refusal leaves no entry."""

    @functools.wraps(view)
    def recording(request: ApiRequest, **values: Any) -> Response:
        with transaction.atomic():
            response = view(request, **values)
            caller, body = request.auth, values.get("body")
            audit_record(
                project_id=caller.project.id,
                actor=caller.user.email,
                key_id=caller.key.id if caller.key else None,
                action=view.__name__,
                target=_target(values, response.data),
                details=body.model_dump(mode="json", exclude_unset=True) if isinstance(body, BaseModel) else {},
                request_id=request_id_of(request.http),
            )
            return response

    return recording


def _target(values: dict[str, Any], result: BaseModel | None) -> dict[str, str]:
    """The ids of the path, and that of what was made."""
    target = {name: value for name, value in values.items() if name not in ("body", "query")}
    made = getattr(result, "id", None)
    return target | ({"id": made} if made and made not in target.values() else {})
