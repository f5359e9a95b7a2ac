"""Sessions that serve a model and train nothing."""

from api.presenters import session_view
from api.rest.requests import ApiRequest
from console.sessions import serving
from tinkerscript.wire.serving.endpoints import ServingCreate, ServingEndpoint, ServingKeyCreate
from tinkerscript.wire.sessions import SessionView


def serving_create(request: ApiRequest, body: ServingCreate) -> SessionView:
    """Start an engine for a base model or a ``model`` checkpoint, without a trainer."""
    caller = request.auth
    made = serving.serving_create(project=caller.project, body=body, key=caller.key, person=caller.user)
    return session_view(made)


def serving_key_create(request: ApiRequest, session_id: str, body: ServingKeyCreate) -> ServingEndpoint:
    """A key for calls of the model that this session serves, and where to send them."""
    caller = request.auth
    return serving.serving_key_create(
        project=caller.project, session_id=session_id, caller_id=caller.id, days=body.expires_in_days
    )
