"""Refuses data that cannot be trained, before anything is computed: the message names datum, tensor
and shape.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gpu_runtime.model_interfaces import Datum, InvalidTrainingInput, LossConfig
from tinkerscript.wire.training.losses import CLIENT_LOSSES, HIGH, LOW, RATIO_MASK, TARGETS, Loss


def loss_find(name: str) -> Loss:
    """The loss of that name. Raises InvalidTrainingInput."""
    if name not in CLIENT_LOSSES:
        raise InvalidTrainingInput(
            f"loss_fn {name!r} is unknown; there are {', '.join(CLIENT_LOSSES)}. A loss of your "
            "own is computed by the client: pass the function to forward_backward_custom"
        )
    return CLIENT_LOSSES[name]


def settings_check(name: str, loss: Loss, config: LossConfig) -> dict[str, float]:
    """Every setting of the loss: the caller's, else the default. Raises InvalidTrainingInput."""
    settings = dict(loss.settings or {})
    for key, value in config.items():
        if key not in settings:
            known = ", ".join(settings) or "none"
            raise InvalidTrainingInput(
                f"loss_fn_config {key!r} is no setting of {name}; it has {known}"
            )
        if isinstance(value, (bool, str)) or not math.isfinite(value):
            raise InvalidTrainingInput(
                f"loss_fn_config {key!r} must be a finite number, not {value!r}"
            )
        settings[key] = float(value)
    low, high = settings.get(LOW, 0.0), settings.get(HIGH, math.inf)
    if not 0 <= low <= high:
        raise InvalidTrainingInput(
            f"clip_low_threshold {low:g} and clip_high_threshold {high:g} must be 0 <= low <= "
            "high: they are bounds of"
            " the ratio itself (such as 0.8 and 1.2), not distances from 1"
        )
    return settings


def data_check(
    data: Sequence[Datum], name: str, loss: Loss, *, vocabulary: int, longest: int
) -> None:
    """Raises InvalidTrainingInput for the first datum that does not fit the loss or the model."""
    if not data:
        raise InvalidTrainingInput("data is empty: there is nothing to compute")
    for index, datum in enumerate(data):
        _check_tokens(f"datum {index}, model_input", datum.token_ids_N, vocabulary)
        tokens = len(datum.token_ids_N)
        if tokens > longest:
            raise InvalidTrainingInput(
                f"datum {index} has {tokens} tokens; this model takes at most {longest}"
            )
        _check_names(index, datum.loss_inputs, name, loss)
        targets = datum.loss_inputs[TARGETS]
        _check_shape(index, targets, tokens, name, many_targets=loss.many_targets)
        _check_tokens(f"datum {index}, {TARGETS}", targets, vocabulary)
        for key, tensor in datum.loss_inputs.items():
            _check_values(index, key, tensor, targets.shape)


def _check_tokens(where: str, ids: np.ndarray, vocabulary: int) -> None:
    if ids.dtype.kind not in "iu":
        raise InvalidTrainingInput(f"{where} holds {ids.dtype}; token ids are integers")
    if ids.ndim == 0 or ids.size == 0:
        raise InvalidTrainingInput(f"{where} is empty (shape {list(ids.shape)})")
    outside = (ids < 0) | (ids >= vocabulary)
    if outside.any():
        at = np.argwhere(outside)[0].tolist()
        raise InvalidTrainingInput(
            f"{where} has the token {ids[tuple(at)]} at {at}; this model's tokens are 0 to "
            f"{vocabulary - 1}"
        )


def _check_names(index: int, tensors: Mapping[str, np.ndarray], name: str, loss: Loss) -> None:
    required = (TARGETS, *loss.required)
    allowed = (*required, *loss.optional)
    missing = [key for key in required if key not in tensors]
    if missing:
        raise InvalidTrainingInput(
            f"datum {index} has no tensor {missing[0]!r} in loss_fn_inputs; {name} takes "
            f"{', '.join(allowed)}"
        )
    unknown = sorted(set(tensors) - set(allowed))
    if unknown:
        raise InvalidTrainingInput(
            f"datum {index} has a tensor {unknown[0]!r} in loss_fn_inputs, which {name} does not "
            "use; it takes"
            f" {', '.join(allowed)}"
        )


def _check_shape(
    index: int, targets: np.ndarray, tokens: int, name: str, *, many_targets: bool
) -> None:
    shape = list(targets.shape)
    if many_targets and targets.ndim == 2 and shape[0] == tokens and shape[1] > 0:
        return
    if shape != [tokens]:
        wanted = f"[{tokens}] or [{tokens}, K]" if many_targets else f"[{tokens}]"
        raise InvalidTrainingInput(
            f"datum {index}, {TARGETS} has the shape {shape}; its model_input has {tokens} tokens, "
            f"so {name} takes"
            f" {wanted}"
        )


def _check_values(index: int, key: str, tensor: np.ndarray, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        raise InvalidTrainingInput(
            f"datum {index}, {key} has the shape {list(tensor.shape)}; {TARGETS} has "
            f"{list(shape)}, which it must equal"
        )
    if tensor.dtype.kind not in "iufb":
        raise InvalidTrainingInput(
            f"datum {index}, {key} holds {tensor.dtype}; it must hold numbers"
        )
    finite = np.isfinite(tensor)
    if not finite.all():
        at = np.argwhere(~finite)[0].tolist()
        raise InvalidTrainingInput(
            f"datum {index}, {key} is {tensor[tuple(at)]} at {at}; it must be finite"
        )
    if key == RATIO_MASK and not np.isin(tensor, (0, 1)).all():
        raise InvalidTrainingInput(f"datum {index}, {key} must hold 0 and 1 alone")
