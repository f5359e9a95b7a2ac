"""Writing down who did what: every route that changes something adds to its project's audit log by itself."""

import functools
import json
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from pydantic import BaseModel

from console.audit.services import audit_record
from console.request_id import request_id_of


def audited(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Record what ``view`` did, in the transaction that does it. A refusal leaves no entry."""

    @functools.wraps(view)
    def recording(request: HttpRequest, **values: Any) -> HttpResponse:
        with transaction.atomic():
            response = view(request, **values)
            if response.status_code < 400:
                caller, body = request.auth, values.get("body")
                audit_record(
                    project_id=caller.project.id,
                    actor=caller.user.email,
                    key_id=caller.key.id if caller.key else None,
                    action=view.__name__,
                    target=_target(request, response),
                    details=body.model_dump(mode="json", exclude_unset=True) if isinstance(body, BaseModel) else {},
                    request_id=request_id_of(request),
                )
            return response

    return recording


def _target(request: HttpRequest, response: HttpResponse) -> dict[str, str]:
    """The ids of the path, and that of what was made."""
    target = {name: str(value) for name, value in request.resolver_match.kwargs.items()}
    made = json.loads(response.content).get("id") if response.content else None
    return target | ({"id": made} if made and made not in target.values() else {})
