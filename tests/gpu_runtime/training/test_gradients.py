"""The trainer's loss and gradient are those of its formula, computed by plain transformers one
sample at a time.

Nothing of the trainer is used on the other side: no packing, no chunked log-probabilities, no
DeepSpeed.
"""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from gpu_runtime.loop.sample import Sample
from support.gradient_cases import CONFIGS, PLAIN, SAMPLES, samples_of
from support.plain_losses import Token, plain_token, settings_of
from support.rank_probe import gradients, in_a_rank
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import LOSSES

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(tiny_model_make(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def trained(model):
    """What ``rank_probe.gradients`` answers under each of CONFIGS."""
    runs = [
        (SessionConfig(**PLAIN | options), samples_of(name)) for name, options in CONFIGS.items()
    ]
    return dict(zip(CONFIGS, in_a_rank(gradients, model, runs), strict=True))


def plain_model(path: str):
    return AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager"
    )


def token_logprobs(model, sample: Sample, entropies: list | None = None) -> list[torch.Tensor]:
    """Scalars, one per trained token; ``entropies`` takes those of their positions."""
    logits_TV = model(torch.tensor([sample.token_ids_T])).logits[0]
    positions = [t for t, trained in enumerate(sample.mask_T) if trained]
    temperatures_T = sample.temperatures_T or (1.0,) * len(sample.mask_T)
    tempered = {
        t: torch.log_softmax(logits_TV[t - 1].float() / temperatures_T[t], dim=-1)
        for t in positions
    }
    if entropies is not None:
        entropies.extend(-(tempered[t].exp() * tempered[t]).sum() for t in positions)
    return [tempered[t][sample.token_ids_T[t]] for t in positions]


def token_loss(config: SessionConfig, k: int, all_now, all_engine, all_before, advantage: float):
    """The formula of the sample's ``k``-th token. ``all_before``: those of a later update."""
    fixed = [each.item() for each in all_now]
    before = fixed if all_before is None else all_before
    moved = [a - b for a, b in zip(fixed, before, strict=True)]
    token = Token(
        all_now[k], fixed[k], before[k], advantage, settings_of(config), sum(moved) / len(moved)
    )
    loss = plain_token(config.loss, token)
    if config.dual_clip is not None and advantage < 0:
        loss = min(loss, -config.dual_clip * advantage)
    if not LOSSES[config.loss].has_ratio:
        return loss
    gaps = [b - e for b, e in zip(before, all_engine, strict=True)]
    return loss * correction(config.engine_correction, k, gaps)


def correction(options, k: int, gaps: list[float]) -> float:
    """What the token counts for the gaps of its sample."""
    gaps = [gap if abs(gap) > 1e-4 else 0.0 for gap in gaps]
    at = {"none": 0.0, "token": gaps[k], "sequence": sum(gaps), "geometric": sum(gaps) / len(gaps)}
    weight, masked = math.exp(at[options.weight]), math.exp(at[options.mask])
    if options.veto is not None and max(map(abs, gaps)) > -math.log(options.veto):
        return 0.0
    if masked < (options.mask_low or 0.0) or masked > (options.mask_high or math.inf):
        return 0.0
    return (
        weight
        if options.weight == "none"
        else min(max(weight, options.weight_low or 0.0), options.weight_high)
    )


def plain_loss(
    config: SessionConfig, path: str, samples: list[Sample] = SAMPLES, weights: dict | None = None
):
    """(loss, model with its gradient), at ``weights`` or at those of the base."""
    model, base, mean = plain_model(path), plain_model(path), plain_model(path)
    if weights is not None:
        model.load_state_dict(weights, strict=False)  # a head that is tied has no name of its own
    if config.reference_decay is not None:
        for of_mean, of_policy in zip(mean.parameters(), model.parameters(), strict=True):
            of_mean.data.lerp_(of_policy.data, 1 - config.reference_decay)
    episodes = sum(sample.weight for sample in samples)
    tokens = sum(sum(sample.mask_T) for sample in samples)
    total = torch.tensor(0.0)
    for sample in samples:
        entropies: list[torch.Tensor] = []
        now = token_logprobs(model, sample, entropies)
        engine, before = [
            None
            if of_T is None
            else [value for value, trained in zip(of_T, sample.mask_T, strict=True) if trained]
            for of_T in (sample.logprobs_T, sample.before_T)
        ]
        with torch.no_grad():
            reference, at_base = token_logprobs(mean, sample), token_logprobs(base, sample)
        scale = {
            "tokens": 1 / tokens,
            "constant": 1 / config.max_tokens / episodes,
            "episodes": sample.weight / episodes / len(now),
        }[LOSSES[config.loss].average]
        for k in range(len(now)):
            loss = token_loss(config, k, now, engine, before, sample.advantage)
            for coef, gap in (
                (config.kl_coef, reference[k] - now[k]),
                (config.kl_base_coef, at_base[k] - now[k]),
            ):
                loss = loss + coef * (
                    0.5 * gap**2 if config.kl_estimator == "k2" else torch.exp(gap) - gap - 1
                )
            total = total + scale * (loss - config.entropy_coef * entropies[k])
    total.backward()
    return total.item(), model


def relative_error(measured: dict, expected: dict) -> float:
    assert measured.keys() == expected.keys()
    apart = sum((measured[name] - expected[name]).square().sum() for name in expected)
    return (apart / sum(tensor.square().sum() for tensor in expected.values())).sqrt().item()


def gradient_of(model) -> dict:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    "name", [name for name in CONFIGS if not name.startswith(("LoRA", "bfloat16"))]
)
def test_loss_and_gradient_equal_the_plain_computation(trained, model, name):
    metrics, gradient, weights = trained[name]
    config = SessionConfig(**PLAIN | CONFIGS[name])
    loss, plain = plain_loss(config, model, samples_of(name), weights)
    assert ("kl_reference" in metrics) == config.has_kl_loss
    assert metrics["loss"] == pytest.approx(loss, rel=1e-5, abs=1e-7)
    assert relative_error(gradient, gradient_of(plain)) < 1e-5
    norm = sum(tensor.square().sum() for tensor in gradient.values()).sqrt().item()
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert metrics["tokens_trained"] == sum(sum(sample.mask_T) for sample in SAMPLES)


def test_the_bounds_cut_some_tokens_of_this_batch_and_spare_others(trained):
    for name in CONFIGS:
        is_cut = name.startswith(("truncated", "masked", "vetoed"))
        if is_cut or (name.startswith("later") and LOSSES[CONFIGS[name]["loss"]].clip):
            assert 0 < trained[name][0]["clip_fraction"] < 1, (
                f"{name}: give it other bounds in tests/support/gradient_cases.py"
            )


def test_small_rows_and_checkpointing_change_the_cost_and_not_the_gradient(trained):
    metrics, gradient, _ = trained["grpo"]
    for name in ("small rows", "checkpointing"):
        assert relative_error(trained[name][1], gradient) < 1e-6, name
    assert trained["small rows"][0]["tokens_computed"] > metrics["tokens_computed"]


def test_the_reference_of_adapters_is_the_model_under_them(trained, model):
    metrics, _, adapters = trained["LoRA with KL"]
    merged = plain_model(model).state_dict()
    for name, b_OR in adapters.items():
        if ".lora_B." in name:
            a_RI = adapters[name.replace("lora_B", "lora_A")]
            merged[f"{name.removesuffix('.lora_B.default.weight')}.weight"] += 32 / 4 * b_OR @ a_RI
    with_term, without = (
        plain_loss(SessionConfig(**options), model, weights=merged)[0]
        for options in (CONFIGS["LoRA with KL"], PLAIN)
    )
    assert metrics["loss"] == pytest.approx(with_term, rel=1e-4)
    assert with_term != pytest.approx(without, rel=1e-2)


def test_an_adapter_begins_with_the_gradient_that_the_chain_rule_gives_it(trained, model):
    """B is zero, so A gets none, and B the gradient of W' = W + (alpha / rank) B A: (alpha / rank)
    G A^T.
    """
    _, gradient, adapters = trained["LoRA"]
    _, plain = plain_loss(SessionConfig(**PLAIN), model)
    full = gradient_of(plain)
    adapted = [
        name.removesuffix(".lora_B.default.weight") for name in gradient if ".lora_B." in name
    ]
    linear = [name for name, module in plain.named_modules() if isinstance(module, torch.nn.Linear)]
    assert sorted(adapted) == sorted(name for name in linear if name != "lm_head")
    for name in adapted:
        assert gradient[f"{name}.lora_A.default.weight"].abs().max() == 0
        a_RI = adapters[f"{name}.lora_A.default.weight"]
        expected = 8 / 4 * full[f"{name}.weight"] @ a_RI.T
        torch.testing.assert_close(
            gradient[f"{name}.lora_B.default.weight"], expected, rtol=1e-4, atol=1e-7
        )


@pytest.mark.parametrize("name", [name for name in CONFIGS if name.startswith("bfloat16")])
def test_bfloat16_gradients_summed_over_many_rows_stay_near_those_of_float32(trained, name):
    assert trained[name][0]["loss"] == pytest.approx(trained["grpo"][0]["loss"], abs=0.02)
    assert relative_error(trained[name][1], trained["grpo"][1]) < 0.05
