"""JSON bodies of the Tinker wire that name an operation of a model or of a sampler. Unknown fields
are refused by name.

Source: the types of the ``tinker`` client, version 0.38.0.
"""

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.model_interfaces import AdamParams

M = TypeVar("M", bound=BaseModel)
MAX_SAMPLES, MAX_TOP = 1024, 20
MAX_ROW = 128  # tokens that are scored, or drawn, at one place of a prompt


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    type: str = ""


class AdamOptions(_Body):
    """``adam_params``: AdamParams as they are sent, with its defaults."""

    learning_rate: float = Field(AdamParams.learning_rate, ge=0, le=1e3, allow_inf_nan=False)
    beta1: float = Field(AdamParams.beta1, ge=0, lt=1)
    beta2: float = Field(AdamParams.beta2, ge=0, lt=1)
    eps: float = Field(AdamParams.eps, gt=0, le=1, allow_inf_nan=False)
    weight_decay: float = Field(AdamParams.weight_decay, ge=0, le=1e3, allow_inf_nan=False)
    grad_clip_norm: float = Field(AdamParams.grad_clip_norm, ge=0, allow_inf_nan=False)


class OptimStep(_Body):
    """``/optim_step``. ``optimizer_params`` is how a client asks for another optimizer than
    Adam.
    """

    model_id: str
    seq_id: int
    adam_params: AdamOptions | None = None
    optimizer_params: dict[str, Any] | None = None


class LoadWeights(_Body):
    """``/load_weights`` into a model that is there; the control plane makes those that begin from a
    state.
    """

    model_id: str
    seq_id: int
    path: str = Field(max_length=400)
    optimizer: bool
    weights_access_token: str | None = None


class SaveWeights(_Body):
    """``/save_weights`` and ``/save_weights_external``."""

    model_id: str
    seq_id: int
    path: str | None = None
    ttl_seconds: int | None = None
    overwrite: bool = False
    user_metadata: dict[str, str] | None = None
    age_encryption_recipients: list[str] | None = None


class SaveForSampler(_Body):
    """``/save_weights_for_sampler``: a name, or the number of a sampling session."""

    model_id: str
    seq_id: int
    path: str | None = None
    sampling_session_seq_id: int | None = Field(None, ge=0)
    kind: Literal["snapshot", "inflight"] = "snapshot"
    ttl_seconds: int | None = None
    user_metadata: dict[str, str] | None = None


class Chunk(_Body):
    """A piece of a prompt."""

    tokens: list[int] | None = None
    data: Any = None
    format: Any = None
    expected_tokens: Any = None
    location: Any = None
    dmel: Any = None


class Prompt(_Body):
    """A ModelInput."""

    chunks: list[Chunk]


class SamplingParams(_Body):
    """How to sample. ``stop``: strings, or token ids; an empty list takes the end of turn away
    too.
    """

    max_tokens: int | None = Field(None, ge=0)
    seed: int | None = None
    stop: str | list[str] | list[int] | None = None
    temperature: float = Field(1.0, ge=0, le=100, allow_inf_nan=False)
    top_k: int = Field(-1, ge=-1)
    top_p: float = Field(1.0, gt=0, le=1)


class TargetTensor(BaseModel):
    """``target_prompt_logprobs``: token ids of shape [len(prompt) - 1, K], dense or in compressed
    sparse rows; -1 asks for nothing.
    """

    model_config = ConfigDict(extra="forbid")

    data: list[int]
    dtype: Literal["int64"]
    shape: list[int] = Field(min_length=2, max_length=2)
    sparse_crow_indices: list[int] | None = None
    sparse_col_indices: list[int] | None = None


class Sample(_Body):
    """``/asample``. ``record_stability_info`` asks for what ``stable_reinforce`` needs later: here
    that is nothing beyond the log-probabilities and the ids of the sequences, which every sample
    comes with.
    """

    sampling_session_id: str
    seq_id: int = Field(ge=0)
    num_samples: int = Field(1, ge=1, le=MAX_SAMPLES)
    prompt: Prompt
    sampling_params: SamplingParams = SamplingParams()
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int = Field(0, ge=0, le=MAX_TOP)
    topk_sample_logprobs: int = Field(0, ge=0, le=MAX_TOP)
    target_prompt_logprobs: TargetTensor | None = None
    prompt_alt_tokens_k: int = Field(0, ge=0, le=MAX_ROW)
    prompt_logprobs_last_n: int | None = Field(None, ge=1)
    record_stability_info: bool | None = None
    # the sampling session says what is sampled from, and a request no other thing
    base_model: None = None
    model_path: None = None


class Retrieve(_Body):
    """``/retrieve_future``."""

    request_id: str
    allow_metadata_only: bool = False


class SamplingTarget(_Body):
    """One sampling client: the original (0), or a copy of it in another process."""

    sampling_session_id: str
    cloned_sampler_id: int = Field(0, ge=0, lt=2**62)


class RetrieveFinished(_Body):
    """``/retrieve_futures``. ``retrieved_request_ids`` says what may be dropped: results are
    bounded without it.
    """

    target: SamplingTarget
    prev_cursor: int = Field(0, ge=0)
    timeout: float | None = Field(None, ge=0)
    retrieved_request_ids: list[str] = []


class Named(_Body):
    """``/get_info`` and ``/cancel_future``: one id."""

    model_id: str | None = None
    request_id: str | None = None


def body_parse(model: type[M], body: bytes) -> M:
    """Validates a JSON body as ``model``. Raises UserMistake, which names the field."""
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UserMistake(f"{field}: {first['msg']}" if field else first["msg"]) from None
