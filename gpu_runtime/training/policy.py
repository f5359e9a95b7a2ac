"""The model as a trainer sees it: a packed row in, the log-probabilities of its targets out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig
from transformers.modeling_outputs import BaseModelOutput

from gpu_runtime.errors import ModelUnsupported
from tinkerscript.wire.training.prefixes import prefixes_apart

from .checkpointing import layers_recompute
from .cpu.token_logprobs import TokenLogprobs
from .cpu.tree_attention import ATTENTION
from .losses import token_entropy
from .models.replay import RoutingReplay
from .models.towers import auto_class, has_tower, tower_freeze
from .rows.packing import RowKind
from .rows.tensors import RowTensors, Timelines, visible_joined
from .sharding.sequence_parallel import SharedRow, WholeOfParts, attention_register, heads_verify
from .tree_flex import FLEX

# Positions whose logits exist at one time: 1024 x a vocabulary of 150,000 in fp32 is 0.6 GB.
LOGITS_CHUNK = 1024
# The logit of a token that a grammar forbids. Not minus infinity: p log p would be 0 times
# infinity.
FORBIDDEN = -1e30


class Policy(nn.Module):
    """A causal language model whose ``forward`` returns ``logprobs_K``, never ``[tokens,
    vocabulary]`` logits.
    """

    model: Any  # a Hugging Face model: its methods are its class's own

    def __init__(
        self, model: nn.Module, *, shares_rows: bool = False, apart: str | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self._shares_rows = shares_rows
        self.kind, self.apart = RowKind.TREES, ""
        self.replay = RoutingReplay(model)
        if apart:
            self.rows_become(RowKind.PADDED, apart)

    @classmethod
    def load(
        cls,
        path: str,
        dtype: torch.dtype,
        *,
        device: str = "cpu",
        gradient_checkpointing: bool = False,
        offload_activations: bool = False,
        shares_rows: bool = False,
    ) -> "Policy":
        """Load a Hugging Face folder or id, with the attention whose masks ``RowTensors`` makes for
        ``device``, or where its layers cannot share prefixes with its own.

        With ``shares_rows`` every rank calls ``forward`` with the same row and computes a part of
        it.

        Raises ModelUnsupported for a model that the library has no code of: that of a folder is
        never run; and for a folder whose weights are not those of its configuration.
        """
        attention: str | None = FLEX if device == "cuda" else ATTENTION
        try:
            config = AutoConfig.from_pretrained(path)
            apart = _apart(config)
            if apart:
                attention = None
            model, found = auto_class(config).from_pretrained(
                path,
                dtype=dtype,
                attn_implementation=attention,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are named below
            )
        except (
            ValueError
        ) as refusal:  # an unknown model_type, custom code, an attention that it cannot be given
            raise ModelUnsupported(
                f"transformers does not load this model: {str(refusal)[:500]}"
            ) from refusal
        _weights_verify(found)
        model.config.use_cache = False
        tower_freeze(model)
        if shares_rows and attention:
            heads_verify(model.config.get_text_config())
            model.set_attn_implementation(attention_register(attention))
        policy = cls(model, shares_rows=shares_rows, apart=apart)
        if gradient_checkpointing:  # around the routers, which replay when they compute again
            layers_recompute(model, offload=offload_activations)
        return policy

    def rows_become(self, kind: RowKind, apart: str) -> None:
        """Take rows of ``kind`` from now on, that share nothing, by the model's own forward;
        ``apart`` says why.

        Raises ModelUnsupported where several ranks would have to compute a row together.
        """
        if self._shares_rows:
            raise ModelUnsupported(
                f"sequence_parallel: ranks share the rows of attention over trees alone ({apart}); "
                "turn it off"
            )
        self.kind, self.apart = kind, self.apart or apart
        # It can be set, and not read.
        if self.model.config._attn_implementation in (FLEX, ATTENTION):  # noqa: SLF001
            self.model.set_attn_implementation(self.model.get_correct_attn_implementation(None))

    def forward(self, row: RowTensors, *, with_entropy: bool = False) -> Tensor:
        """``logprobs_K`` in fp32 of the row's targets under the current weights.

        With ``with_entropy`` [2, K]: those, and the entropy of each position in nats, both with a
        gradient.
        """
        if self._shares_rows:
            return self._forward_shared(row, with_entropy)
        self.replay.begin(_places(row))
        hidden_ND = self._hidden(row.tokens_N, row.depth_N, row.visible)
        return self._scores(hidden_ND[row.source_R], row, with_entropy)

    def forward_joined(self, rows: Sequence[RowTensors]) -> list[Tensor]:
        """``logprobs_K`` of each of several trees, computed as one row of at most LOGITS_CHUNK
        tokens; none sees another.
        """
        self.replay.begin(None)
        firsts = np.cumsum([0, *(len(row.tokens_N) for row in rows)])
        tokens_N, depth_N = (
            torch.cat([getattr(row, name) for row in rows]) for name in ("tokens_N", "depth_N")
        )
        hidden_ND = self._hidden(tokens_N, depth_N, visible_joined([row.visible for row in rows]))
        sources = [row.source_R + int(first) for row, first in zip(rows, firsts[:-1], strict=True)]
        logits = self.logits(hidden_ND[torch.cat(sources)]).split([len(each) for each in sources])
        return [
            self._of_logits(
                logits_RV,
                row.place_K,
                row.target_K,
                row.temperature_K,
                row.allowed_K,
                row.allowed_SB,
                with_entropy=False,
            )
            for logits_RV, row in zip(logits, rows, strict=True)
        ]

    def _forward_shared(self, row: RowTensors, with_entropy: bool) -> Tensor:
        """The whole row's scores on every rank, of which each computed those of its part."""
        assert row.place_K is None, "rows of a managed step have logits for each of their targets"
        shared = SharedRow.of(row.visible, len(row.tokens_N))
        self.replay.begin(None if row.experts_NW is None else shared.part(row.experts_NW, -1))
        hidden_nD = self._hidden(shared.part(row.tokens_N), shared.part(row.depth_N), shared)
        chosen, count = shared.own(row.source_R)
        mine = replace(
            row,
            target_K=row.target_K[chosen],
            temperature_K=None if row.temperature_K is None else row.temperature_K[chosen],
            allowed_K=None if row.allowed_K is None else row.allowed_K[chosen],
        )
        scores = self._scores(hidden_nD[shared.place(row.source_R[chosen])], mine, with_entropy)[
            ..., :count
        ]
        whole = scores.new_zeros(*scores.shape[:-1], len(row.source_R))
        found: Tensor = WholeOfParts.apply(whole.index_copy(-1, chosen[:count], scores))
        return found

    def _hidden(self, tokens_N: Tensor, depth_N: Tensor, tree: Any) -> Tensor:
        decoder = decoder_of(self.model)
        if isinstance(tree, Timelines):
            hidden_BLD: Tensor = decoder(input_ids=tree.ids_BL, use_cache=False).last_hidden_state
            return hidden_BLD.flatten(0, 1)[tree.place_N]
        hidden_1ND: Tensor = decoder(
            input_ids=tokens_N[None], position_ids=depth_N[None], use_cache=False, tree=tree
        ).last_hidden_state
        return hidden_1ND[0]

    def _scores(self, hidden_RD: Tensor, row: RowTensors, with_entropy: bool) -> Tensor:
        firsts = list(range(0, len(hidden_RD), LOGITS_CHUNK))
        entries = zip(*(_split(each, row.cuts(firsts)) for each in row.entries), strict=True)
        chunks = list(zip(firsts or [0], hidden_RD.split(LOGITS_CHUNK), entries, strict=True))
        rest = row.allowed_SB, with_entropy
        *arguments, last = [
            (hidden, None if places is None else places - first, *others, *rest)
            for first, hidden, (places, *others) in chunks
        ]
        logprobs = [checkpoint(self._logprobs, *each, use_reentrant=False) for each in arguments]
        # The last chunk is the first that the backward pass needs: its logits may as well stay.
        return torch.cat([*logprobs, self._logprobs(*last)], dim=-1)

    def logits(self, hidden_KD: Tensor) -> Tensor:
        """``[K, vocabulary]`` in fp32, as the model's own forward would return them."""
        return own_logits(self.model, hidden_KD).float()

    def _logprobs(
        self,
        hidden_RD: Tensor,
        place_K: Tensor | None,
        target_K: Tensor,
        temperature_K: Tensor | None,
        allowed_K: Tensor | None,
        allowed_SB: Tensor | None,
        with_entropy: bool,
    ) -> Tensor:
        return self._of_logits(
            self.logits(hidden_RD),
            place_K,
            target_K,
            temperature_K,
            allowed_K,
            allowed_SB,
            with_entropy=with_entropy,
        )

    @staticmethod
    def _of_logits(
        logits_KV: Tensor,
        place_K: Tensor | None,
        target_K: Tensor,
        temperature_K: Tensor | None,
        allowed_K: Tensor | None,
        allowed_SB: Tensor | None,
        *,
        with_entropy: bool,
    ) -> Tensor:
        if place_K is not None:
            if temperature_K is None and allowed_K is None and not with_entropy:
                return logits_KV[place_K, target_K] - logits_KV.logsumexp(dim=1)[place_K]
            logits_KV = logits_KV[place_K]
        if allowed_K is not None and allowed_SB is not None:
            logits_KV = allowed_alone(logits_KV, allowed_SB[allowed_K])
        logprobs_K = token_logprobs(logits_KV, target_K, temperature_K)
        if not with_entropy:
            return logprobs_K
        sampled_KV = logits_KV if temperature_K is None else logits_KV / temperature_K[:, None]
        return torch.stack([logprobs_K, token_entropy(sampled_KV)])


def _places(row: RowTensors) -> Tensor | None:
    """The rows of experts of all tokens that the decoder is given, padding included."""
    if row.experts_NW is None or not isinstance(row.visible, Timelines):
        return row.experts_NW
    experts_PW = row.experts_NW.new_full((row.visible.ids_BL.numel(), row.experts_NW.shape[1]), -1)
    experts_PW[row.visible.place_N] = row.experts_NW
    return experts_PW


def _split(values_K: Tensor | None, cuts: list[int]) -> Sequence[Tensor | None]:
    return [None] * (len(cuts) + 1) if values_K is None else values_K.tensor_split(cuts)


class _Hidden(BaseModelOutput):
    """What a decoder returns, of which there is nothing but the hidden states."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class _Decoded:
    """In the place of a decoder that has computed these hidden states before."""

    def __init__(self, decoder: nn.Module, hidden_KD: Tensor) -> None:
        self._decoder, self._hidden_KD = decoder, hidden_KD

    def __call__(self, *_: Any, **__: Any) -> _Hidden:
        return _Hidden(last_hidden_state=self._hidden_KD[None])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


def decoder_of(model: Any) -> Any:
    """The part of a model that makes hidden states of token ids."""
    decoder = model.get_decoder()
    if decoder is not model:
        return decoder
    # Llama 4's text model has its decoder under another name than it says.
    embedding = model.get_input_embeddings()
    return next(
        part for part in model.children() if any(module is embedding for module in part.modules())
    )


def own_logits(model: Any, hidden_KD: Tensor) -> Tensor:
    """``[K, vocabulary]``: what the model's own forward makes of these hidden states.

    So whatever a family does after its head (a factor, a cap, columns that it drops) is done as it
    does it.
    """
    # Of a model with a tower the forward calls what holds both.
    decoder = model.base_model if has_tower(model) else decoder_of(model)
    name = next(name for name, module in model.named_modules() if module is decoder)
    parent, _, own_name = name.rpartition(".")
    attributes = vars(model.get_submodule(parent))
    # Beside the module of that name, which is in another dictionary: nothing registered is changed.
    attributes[own_name] = _Decoded(decoder, hidden_KD)
    try:
        logits: Tensor = model.forward(input_ids=None, use_cache=False).logits[0]
    finally:
        del attributes[own_name]
    return logits


def _weights_verify(found: Mapping[str, Any]) -> None:
    """Raises ModelUnsupported where the library filled weights with noise: the files lack them, or
    have them in another shape. ``found`` is what it tells of loading.
    """
    if wrong := sorted(found["mismatched_keys"]):
        name, stored, expected = wrong[0]
        raise ModelUnsupported(
            f"its files have {name} of shape {list(stored)}, and its config.json makes it "
            f"{list(expected)}: take both from the same model"
        )
    if missing := sorted(found["missing_keys"]):
        raise ModelUnsupported(
            f"its files lack {len(missing)} weights that its config.json asks for, the first is "
            f"{missing[0]}: take all files of the same model"
        )


def _apart(config: Any) -> str | None:
    """Why a model of this configuration shares no prefixes; None where its layers may be trees'."""
    if why := prefixes_apart(config.get_text_config().to_dict()):
        return why
    kind = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if kind is None:
        return None
    if not (kind.is_backend_compatible() and kind._can_set_attn_implementation()):  # noqa: SLF001
        return f"{kind.__name__} takes no other attention than its own"
    return None


def allowed_alone(logits_KV: Tensor, allowed_KB: Tensor) -> Tensor:
    """The logits, FORBIDDEN where the id's bit is 0: their softmax is p(v) / p(allowed), and
    exactly 0 elsewhere.
    """
    places = torch.arange(8, dtype=torch.uint8, device=logits_KV.device)
    bits_KV = (allowed_KB[:, :, None] >> places & 1).flatten(1)[:, : logits_KV.shape[1]]
    return logits_KV.masked_fill(bits_KV == 0, FORBIDDEN)


def token_logprobs(
    logits_KV: Tensor, target_K: Tensor, temperature_K: Tensor | None = None
) -> Tensor:
    """log softmax(logits / T)[target] = logit[target] / T - logsumexp(logits / T): of the sampled
    distribution.
    """
    if logits_KV.device.type == "cpu":
        logprobs_K: Tensor = TokenLogprobs.apply(logits_KV, target_K, temperature_K)
        return logprobs_K
    if temperature_K is not None:
        logits_KV = logits_KV / temperature_K[:, None]
    return logits_KV.gather(1, target_K[:, None])[:, 0] - logits_KV.logsumexp(dim=1)
