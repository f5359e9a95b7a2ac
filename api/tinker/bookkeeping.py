"""Sessions, models and samplers of Tinker clients: what the control plane serves by itself. Each
runs in a thread.
"""

from api.rest.authentication import KeyCaller
from api.tinker.answers import Answer, Json
from api.tinker.callers import project_check
from api.tinker.requests import (
    ClientVersion,
    ModelCreateBody,
    ModelLoadBody,
    ModelNamed,
    SamplerCreateBody,
    SessionCreateBody,
    SessionFinish,
    SessionNamed,
    Telemetry,
    WeightsCopy,
)
from console.catalogue.base_models import base_model_list
from console.errors import DomainError, Forbidden, InvalidRequest, NotFound
from console.tinker import services
from console.tinker.checkpoints import checkpoint_find
from console.tinker.copies import checkpoint_copy
from console.tinker.models import TinkerModel, TinkerSampler, TinkerSession
from console.tinker.runtimes import context_length
from console.tinker.telemetry import telemetry_keep
from console.tinker.tokens import credential_key
from console.users.models import Project
from tinkerscript.wire.account import Scope
from tinkerscript.wire.tinker.ids import PromiseId
from tinkerscript.wire.tinker.messages import LoraOptions

DEFAULT_RANK = 32


def client_config(caller: KeyCaller, body: ClientVersion) -> Json:
    """``POST /client/config``: what the client may use of the wire."""
    return {
        "pjwt_auth_enabled": True,
        "proto_compress_fwdbwd": True,
        "parallel_fwdbwd_chunks": True,
        "sample_use_retrieve_futures": False,
        "custom_loss_server_side": False,
        "sample_join_sampling_session": True,
    }


def client_dynamic_config(caller: KeyCaller, body: ClientVersion) -> Json:
    """``POST /client/dynamic_config``."""
    return {
        "refresh_interval_sec": 300,
        "sample_cancel_enabled": True,
        "sample_cancel_max_batch_size": 64,
    }


def healthz(caller: KeyCaller) -> Json:
    """``GET /healthz``."""
    return {"status": "ok"}


def capabilities(caller: KeyCaller) -> Json:
    """``GET /get_server_capabilities``: the base models that this key may use and whose weights are
    here.
    """
    models = []
    for model in base_model_list():
        if caller.key.allowed_models is not None and model.name not in caller.key.allowed_models:
            continue
        try:
            length = context_length(model.name)
        except DomainError:
            continue
        models.append(
            {
                "model_name": model.name,
                "max_context_length": length,
                "trainable": True,
                "sampleable": True,
            }
        )
    return {"supported_models": models}


def session_create(caller: KeyCaller, body: SessionCreateBody) -> Json:
    """``POST /create_session``."""
    if body.project_id is not None and body.project_id != caller.project.id:
        raise InvalidRequest(
            f"project_id is {body.project_id!r}; this key acts in {caller.project.id} alone.",
            hint="Leave TINKER_PROJECT_ID out, or use a key of that project.",
        )
    made = services.tinker_session_create(
        project=caller.project,
        key=caller.key,
        display_name=body.display_name or "",
        sdk_version=body.sdk_version,
        tags=body.tags,
        user_metadata=body.user_metadata or {},
    )
    messages = {"info_message": None, "warning_message": None, "error_message": None}
    return {"type": "create_session", "session_id": made.id} | messages


def session_heartbeat(caller: KeyCaller, body: SessionNamed) -> Json | Answer:
    """``POST /session_heartbeat``; 410 ends them."""
    if not services.tinker_session_beat(tinker_session=_session(caller, body.session_id)):
        return Answer.of({"detail": "This session is finished."}, 410)
    return {"type": "session_heartbeat"}


def session_finish(caller: KeyCaller, body: SessionFinish, *, session_id: str) -> None:
    """``POST /sessions/{id}/finish``."""
    found = _session(caller, session_id)
    services.tinker_session_finish(
        tinker_session=found, reason=body.reason.type, detail=body.detail or ""
    )


def telemetry(caller: KeyCaller, body: Telemetry) -> Json:
    """``POST /telemetry``: what the client says of itself goes on the record of its sessions."""
    try:
        found = _session(caller, body.session_id)
    except NotFound:  # a client without a session reports under a name of its own
        return {"status": "accepted"}
    telemetry_keep(tinker_session=found, events=body.events)
    return {"status": "accepted"}


def model_create(caller: KeyCaller, body: ModelCreateBody) -> Json:
    """``POST /create_model``."""
    lora = body.lora_config or LoraOptions(rank=DEFAULT_RANK)
    # the same in every session: a program that is run again begins with the same adapters
    if lora.seed is None:
        lora = lora.model_copy(update={"seed": body.model_seq_id})
    made = services.model_create(
        tinker_session=_session(caller, body.session_id),
        key=caller.key,
        number=body.model_seq_id,
        base_model=body.base_model,
        lora=lora,
        user_metadata=body.user_metadata,
    )
    return _model_promised(made)


def model_load(caller: KeyCaller, body: ModelLoadBody) -> Json:
    """``POST /load_weights`` with a session: a model that begins from a saved state."""
    stored = checkpoint_find(project=_reader(caller, body.weights_access_token), path=body.path)
    if stored.segment != "weights":
        raise InvalidRequest(
            f"{body.path} is no training state: use a path that save_state returned."
        )
    base_model = stored.model.base_model
    if body.base_model not in (None, base_model):
        raise InvalidRequest(
            f"base_model is {body.base_model!r}; the checkpoint is of {base_model!r}."
        )
    made = services.model_create(
        tinker_session=_session(caller, body.session_id),
        key=caller.key,
        number=body.model_seq_id,
        base_model=base_model,
        lora=LoraOptions.model_validate(stored.lora),
        user_metadata=body.user_metadata,
        source={
            "path": body.path,
            "checkpoint_id": stored.checkpoint_id,
            "optimizer": body.optimizer,
        },
    )
    return _model_promised(made)


def weights_copy(caller: KeyCaller, body: WeightsCopy, *, once: str) -> Json:
    """``POST /copy_weights``: a checkpoint that the caller may read, once more, in the caller's
    project.
    """
    by_session = {
        body.session_id is not None,
        body.model_seq_id is not None,
        body.destination_project_id is None,
    }
    if len(by_session) != 1:
        raise InvalidRequest("Give destination_project_id, or else session_id and model_seq_id.")
    project_check(caller, body.destination_project_id)
    tinker_session = None
    if body.session_id is not None:
        tinker_session = _session(caller, body.session_id)
    copied = checkpoint_copy(
        reader=_reader(caller, body.weights_access_token),
        project=caller.project,
        key=caller.key,
        path=body.source_path,
        ttl_seconds=body.ttl_seconds,
        tinker_session=tinker_session,
        number=body.model_seq_id or 0,
        once=once,
    )
    return {"tinker_path": copied.path}


def model_info(caller: KeyCaller, body: ModelNamed) -> Json:
    """``POST /get_info``."""
    model = services.model_get(project=caller.project, model_id=body.model_id)
    return {
        "type": "get_info",
        "model_id": model.id,
        "model_data": {"arch": None, "model_name": model.base_model, "tokenizer_id": None},
        "is_lora": model.lora["rank"] > 0,
        "lora_rank": model.lora["rank"] or None,
        "model_name": model.base_model,
        "optimizer_config": {"type": "adamw"},
    }


def sampler_create(caller: KeyCaller, body: SamplerCreateBody) -> Json:
    """``POST /create_sampling_session``."""
    made = services.sampler_create(
        tinker_session=_session(caller, body.session_id),
        key=caller.key,
        number=body.sampling_session_seq_id,
        base_model=body.base_model,
        model_path=body.model_path,
    )
    return {"type": "create_sampling_session", "sampling_session_id": made.id}


def sampler_get(caller: KeyCaller, *, sampler_id: str) -> Json:
    """``GET /samplers/{id}``."""
    sampler: TinkerSampler = services.sampler_get(project=caller.project, sampler_id=sampler_id)
    path = {"model_path": sampler.model_path} if sampler.model_path else {}
    return {"sampler_id": sampler.id, "base_model": sampler.base_model} | path


def _session(caller: KeyCaller, session_id: str) -> TinkerSession:
    """The Tinker session of a call that changes it. Raises NotFound, Forbidden."""
    return services.tinker_session_of_key(key=caller.key, tinker_session_id=session_id)


def _reader(caller: KeyCaller, weights_access_token: str | None) -> Project:
    """The project whose paths may be read: the caller's, or that of the key or token that the owner
    gave away.
    """
    if weights_access_token is None:
        return caller.project
    key = credential_key(secret=weights_access_token)
    if not {Scope.CHECKPOINTS_READ, Scope.ADMIN} & set(key.scopes):
        raise Forbidden("weights_access_token is of a key without the scope checkpoints:read.")
    return key.project


def _model_promised(model: TinkerModel) -> Json:
    promise = PromiseId(model.session_id, "train", model.id, 0)
    return {"request_id": str(promise), "model_id": model.id}
