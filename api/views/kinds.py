"""Sessions of the other kinds: those that serve a model and train nothing, those of the ``tinker``
client; and calls of models that stand elsewhere.
"""

from contextlib import suppress
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from django.http import HttpRequest

from api.presenters import session_view
from api.rest.authentication import Caller
from api.views.queries import CallsQuery
from console.audit.services import audit_record
from console.operations.outside_calls import outside_chat
from console.server.request_id import request_id_of
from console.sessions import selectors, serving
from console.tinker import endpoints, work
from tinkerscript.wire.serving import (
    OutsideAnswer,
    OutsideCall,
    ServingCreate,
    ServingEndpoint,
    ServingKeyCreate,
)
from tinkerscript.wire.sessions import SessionView
from tinkerscript.wire.tinker.messages import LoraOptions
from tinkerscript.wire.tinker.runs import (
    ModelCalls,
    TinkerClientView,
    TinkerModelView,
    TinkerRun,
    TinkerSamplerView,
)


def serving_create(caller: Caller, body: ServingCreate) -> SessionView:
    """Start an engine for a base model or a ``model`` checkpoint, without a trainer."""
    made = serving.serving_create(
        project=caller.project, body=body, key=caller.key, person=caller.user
    )
    return session_view(made)


def serving_key_create(caller: Caller, session_id: str, body: ServingKeyCreate) -> ServingEndpoint:
    """A key for calls of the model that this session serves, and where to send them."""
    return serving.serving_key_create(
        project=caller.project,
        session_id=session_id,
        caller_id=caller.id,
        days=body.expires_in_days,
    )


def checkpoint_key_create(
    caller: Caller, session_id: str, checkpoint_id: str, body: ServingKeyCreate
) -> ServingEndpoint:
    """A person's key for calls of what a Tinker client saved, and where to send them."""
    return endpoints.checkpoint_key_create(
        project=caller.project,
        session_id=session_id,
        checkpoint_id=checkpoint_id,
        caller_id=caller.id,
        days=body.expires_in_days,
    )


def tinker_run_get(caller: Caller, session_id: str) -> TinkerRun:
    """What a session of the tinker client has: its models, with their steps and learning rates."""
    session = selectors.session_get(project=caller.project, session_id=session_id)
    clients = work.tinker_clients(session=session)
    newest, samplers = work.samplers_newest(session=session)
    return TinkerRun(
        clients=[
            TinkerClientView(
                tinker_session_id=client.id,
                display_name=client.display_name,
                sdk_version=client.sdk_version,
                tags=client.tags,
                user_metadata=client.user_metadata,
                finished=client.finished["type"] if client.finished else None,
                created_at=client.created_at,
            )
            for client in clients
        ],
        samplers=samplers,
        newest_samplers=[
            TinkerSamplerView(
                id=sampler.id,
                base_model=sampler.base_model,
                model_path=sampler.model_path or None,
                created_at=sampler.created_at,
            )
            for sampler in newest
        ],
        tokens=work.tokens_count(session=session),
        models=[
            TinkerModelView(
                id=model.id,
                base_model=model.base_model,
                lora=LoraOptions.model_validate(model.lora),
                source_path=model.source["path"] if model.source else None,
                user_metadata=model.user_metadata,
                steps=model.steps,
                calls=model.calls_in_all,
                learning_rate=model.learning_rate,
                created_at=model.created_at,
                last_request_at=model.last_request_at,
            )
            for model in work.session_models(session=session)
        ],
    )


def model_calls(caller: Caller, session_id: str, model_id: str, query: CallsQuery) -> ModelCalls:
    """What the calls of a model returned, put together to as many points as are asked for, with
    their extremes.
    """
    session = selectors.session_get(project=caller.project, session_id=session_id)
    work.tinker_clients(session=session)
    return work.model_calls(
        session=session,
        model_id=model_id,
        kind=query.kind,
        points=query.points,
        first=query.number_from,
        last=query.number_to,
    )


async def outside_call(caller: Caller, request: HttpRequest, body: OutsideCall) -> OutsideAnswer:
    """Ask another OpenAI-compatible endpoint for one chat completion, from this server.

    The audit log has who called which host, written before anything is sent there: of the body the
    model's name alone, and never the key.
    """
    await sync_to_async(audit_record)(
        project_id=caller.project.id,
        actor=caller.user.email,
        key_id=caller.key.id if caller.key else None,
        action="outside_call",
        target={"host": _host(body.base_url)},
        details={"model": str(body.body.get("model", ""))[:200]},
        request_id=request_id_of(request),
    )
    answered = await outside_chat(
        project_id=caller.project.id,
        base_url=body.base_url,
        api_key=body.api_key,
        body=body.body,
    )
    return OutsideAnswer(status=answered.status, body=answered.body)


def _host(url: str) -> str:
    """Host and port, without a name and password before them; empty where there is none."""
    with suppress(ValueError):
        return urlsplit(url).netloc.rpartition("@")[2]
    return ""
