"""What a user may set about a session. Every field is wired; every default has its reason beside
it.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from .training.engine_correction import EngineCorrection
from .training.losses import LossName
from .training.option_rules import CONTRADICTIONS, RULES, problem_of
from .training.reading_options import ModelNames, ReadingOptions

HERE = "here"  # the place that every server has
PLACE_PATTERN = r"[a-z0-9][a-z0-9-]{0,39}"
# what training/changes.py lets change between two steps too
LearningRate = Annotated[float | None, Field(gt=0, le=1e-2)]
KlCoef = Annotated[float, Field(ge=0, le=1)]


class SessionConfig(ReadingOptions):
    """The options of a training session. Bounds are checked when the session is created.

    Lengths are in tokens, times in seconds, sizes in episodes or groups as named.
    """

    seed: int = Field(
        0,
        ge=0,
        lt=2**31,
        description="One seed for sampling order, batches, initial noise and new LoRA weights.",
    )

    grpo_n: int = Field(
        8,
        ge=2,
        le=256,
        description="Episodes per group: attempts at one task that share a baseline.",
    )
    tasks_per_batch: int = Field(4, ge=1, le=1024, description="Groups per step.")
    max_steps: int | None = Field(
        None, ge=1, description="Stop training after this many steps; none means no limit."
    )
    max_staleness: int = Field(
        0,
        ge=0,
        le=16,
        description="How many versions old an episode may be when trained; 0 is strictly "
        "on-policy.",
    )

    # Off: a loop that plays each task once would lose tasks. DAPO (arXiv:2503.14476, section 3.2)
    # has it on.
    dynamic_sampling: bool = Field(
        False,
        description="Set groups of equal rewards aside before the batch, and wait for others in "
        "their place.",
    )

    # None: a group that never fills is reported, and nothing is trained on fewer attempts than was
    # asked for.
    group_timeout_s: float | None = Field(
        None,
        ge=1,
        le=604_800,
        description="Train a group of at least two as it is once a member has waited so long. "
        "None: wait for grpo_n.",
    )

    learning_rate: LearningRate = Field(
        None,
        description="AdamW peak learning rate. None: by the model's size, 2e-5 up to 0.5B weights, "
        "5e-6 up to 2B, 2e-6 up to 5B, else 1e-6; LoRA: ten times as much.",
    )
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up.")
    # Constant: what GRPO, DAPO and Dr. GRPO were published with, and what a run without a known end
    # needs.
    lr_schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant",
        description="From the peak down to its minimum at max_steps, which must then be set.",
    )
    # A tenth: Hoffmann et al. 2022 (arXiv:2203.15556), appendix B; Llama 2 and 3 did the same.
    lr_min_ratio: float = Field(
        0.1, ge=0, le=1, description="Where a schedule ends, as a part of the peak."
    )
    # Kingma and Ba 2015 (arXiv:1412.6980), section 2; also the defaults of torch.optim.AdamW.
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="AdamW: decay of the mean of gradients.")
    adam_beta2: float = Field(
        0.999, ge=0, lt=1, description="AdamW: decay of the mean of squared gradients."
    )
    adam_eps: float = Field(
        1e-8, gt=0, le=1e-2, description="AdamW: added to the root of the second moment."
    )
    # None: a run of RL takes few steps, and what should hold a policy near its base is the KL term.
    weight_decay: float = Field(0.0, ge=0, le=1.0, description="AdamW: decoupled weight decay.")
    # 1: as GRPO was published (arXiv:2402.03300) and as TRL and verl ship.
    grad_clip: float = Field(1.0, gt=0, description="Maximum global gradient norm.")
    # A thousand times the clip: what is left of such a gradient is a direction that a few tokens
    # dictate.
    grad_norm_limit: float = Field(
        1000.0,
        gt=0,
        # beside a large grad_clip the default is refused too, now and not when it is read again
        validate_default=True,
        description="A step whose gradient norm, before the clip, is above this is refused.",
    )

    # 1 and 1: one update per batch is on-policy, and its ratio to the policy before it is 1.
    minibatches: int = Field(
        1,
        ge=1,
        le=1024,
        description="Optimizer updates per pass over a batch, each on a part of its groups.",
    )
    epochs: int = Field(1, ge=1, le=64, description="Passes over a batch.")
    # None: as GRPO was published. 0.015: Spinning Up's PPO (1.5 times its target_kl of 0.01).
    kl_stop: float | None = Field(
        None,
        gt=0,
        le=10,
        description="End the updates of a step once the mean KL from the policy before it is above "
        "this; 0.015 is usual. None: all of them.",
    )

    loss: LossName = Field(
        "grpo", description="Policy loss. cross_entropy: log-probabilities weighted by advantage."
    )
    # On: where engine and trainer agree, as in float32, every weight is 1 and no token is left out.
    engine_correction: EngineCorrection = Field(
        EngineCorrection(),
        description="What a token counts whose log-probability the engine, or older weights, gave "
        "otherwise than the trainer before the step: weight, mask and veto by trainer / engine.",
    )
    # Of each loss its own: wire/training/losses.py, with sources.
    clip_low: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Ratio clip below 1, of updates after the first. None: the loss's own, of GRPO "
        "0.2; the session's configuration shows it.",
    )
    clip_high: float | None = Field(
        None,
        gt=0,
        le=10,
        description="Ratio clip above 1, of updates after the first. None: the loss's own, of GRPO "
        "0.2; the session's configuration shows it.",
    )
    # None: as GRPO, DAPO and GSPO were published. 3: Ye et al. 2020, arXiv:1912.09729, section 3,
    # and verl.
    dual_clip: float | None = Field(
        None,
        gt=1,
        le=100,
        description="The most that a ratio may weigh where the advantage is negative; 3 is usual. "
        "None: no bound.",
    )
    dro_beta: float = Field(
        0.05, gt=0, le=10, description="DRO: weight of the squared log-ratio (Tinker: 0.05)."
    )
    # Without it one answer takes over where a model cannot do better: docs/learning.md has 0, 0.04,
    # 0.1 and 0.3. GRPO was published with 0.04 (arXiv:2402.03300, section 4.2).
    kl_coef: KlCoef = Field(
        0.1, description="Weight of the KL term to the reference; 0 loads no reference."
    )
    # The loss: as GRPO and TRL. The reward: as PPO for language models began (arXiv:2203.02155),
    # before the baseline.
    kl_in: Literal["loss", "reward"] = Field(
        "loss",
        description="The KL term is added to the loss of each token, or taken from the reward of "
        "the episode.",
    )
    # k3: never negative, as GRPO and TRL. Not k1, whose gradient as a loss is 0 on average
    # (arXiv:2506.09477).
    kl_estimator: Literal["k2", "k3"] = Field(
        "k3", description="How the KL term is estimated on sampled tokens."
    )
    # None: the base model stays the reference, as in GRPO.
    reference_decay: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="The reference of the KL term follows the policy: this part of it stays after "
        "each update (EMA). None: the base model.",
    )
    # 0: a moving reference is there to let the policy leave its base.
    kl_base_coef: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Weight of a second KL term, to the base model beside a moving reference.",
    )
    # Of each its own: Dr. GRPO (arXiv:2503.20783) and RLOO (arXiv:2402.14740) leave the division
    # out.
    normalize_advantage: bool | None = Field(
        None,
        description="Divide group advantages by their standard deviation. None: as published, so "
        "not with loss dr_grpo or advantage_baseline leave_one_out.",
    )
    # The group: GRPO (arXiv:2402.03300). leave_one_out: RLOO (arXiv:2402.14740). batch: REINFORCE++
    # (arXiv:2501.03262).
    advantage_baseline: Literal["group", "leave_one_out", "batch"] = Field(
        "group",
        description="What a reward is compared with: the mean (and standard deviation) of its "
        "group, of the others in it, or of the whole batch.",
    )
    # None: every attempt that was asked for is trained. Xu et al. 2025 (arXiv:2504.13818) keep a
    # quarter of 64.
    keep_n: int | None = Field(
        None,
        ge=2,
        le=255,
        description="Of each group of grpo_n train the so many whose rewards differ most. None: "
        "all of them.",
    )
    # 0: a reward is what the loop says. Kimi k1.5 (arXiv:2501.12599, section 2.3.3) adds it late in
    # training.
    length_penalty: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Times what is added to a reward for its length within the group: 1/2 for the "
        "shortest attempt to -1/2 for the longest, nothing above 0 for a failed one.",
    )
    # 0: rewards_by_call says what each call earned, and what it led to is in its own number.
    call_discount: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Returns-to-go of rewards_by_call: a call is credited with its own reward plus "
        "this times the next call's return. 0: its own reward alone; 1: all that came after it.",
    )

    # 0: as GRPO was published. 1e-3 is usual (TRL, verl).
    entropy_coef: float = Field(
        0.0, ge=0, le=1, description="Weight of the entropy of sampled positions, as a bonus."
    )
    # Skywork-OR1 (arXiv:2505.22312, section 3.2): a fixed weight is too much for one run and too
    # little for another.
    entropy_target: float | None = Field(
        None,
        gt=0,
        le=20,
        description="Adapt entropy_coef, its first value, by 0.005 a step to hold the entropy "
        "(nats) at this.",
    )

    max_context_length: int = Field(
        2048, ge=16, le=1_048_576, description="Prompt plus answer of one call, in tokens."
    )
    max_tokens: int = Field(256, ge=1, description="Answer length when a call does not say.")
    temperature: float = Field(
        1.0, ge=0, le=2, description="Sampling temperature when a call does not say."
    )
    # Both as DAPO (arXiv:2503.14476, section 3.4) has them; off, since a short answer is not worth
    # more everywhere.
    mask_truncated: bool = Field(
        False,
        description="Leave answers that max_tokens cut off out of the loss; their rewards stay in "
        "the baseline.",
    )
    # on: an agent that reasons in one call and acts in another learns both
    train_calls_without_tools: bool = Field(
        True,
        description="Train the calls without tools of an episode that has others with them: coding "
        "agents write titles and summaries so.",
    )
    overlong_buffer: int = Field(
        0,
        ge=0,
        le=1_048_576,
        description="Of the last so many tokens before max_tokens each costs a part of 1 reward.",
    )
    model_names: ModelNames = Field(  # own: a name that is sent by mistake is seen at once
        "own",
        description="Other names of the model in calls: none, any, or a map of names to the calls' "
        "agents.",
    )

    # Off: it costs a forward pass over the batch, and nothing is trained on it.
    logprobs_after_step: bool = Field(
        False,
        description="Keep the trainer's log-probability of each trained token after its step too.",
    )

    lora_rank: int = Field(
        0, ge=0, le=1024, description="Rank of LoRA adapters; 0 trains every weight."
    )
    # 32, whatever the rank: Schulman et al. 2025, "LoRA Without Regret"; the best rate then hardly
    # depends on the rank.
    lora_alpha: float = Field(
        32.0, gt=0, le=4096, description="LoRA: an adapter counts alpha / rank times."
    )
    lora_targets: Literal["all-linear", "attention", "mlp"] = Field(
        "all-linear", description="LoRA: which linear layers get an adapter."
    )

    # As verl has it by default (freeze_moe_router False), and without the auxiliary loss that
    # verl and SkyRL leave out of reinforcement learning (moe_router_load_balancing_type none).
    router: Literal["trained", "frozen"] = Field(
        "trained",
        description="Of a mixture of experts: whether its routers are trained, as all else is.",
    )
    # verl (router_replay mode) and SkyRL (moe_enable_routing_replay) leave it off, since it asks
    # for an engine that returns experts. Here every engine does, so it is on.
    routing_replay: bool = Field(
        True,
        description="Of a mixture of experts: record the experts that sampled each token, and have "
        "the trainer compute it by the same ones. A byte for each chosen expert of each layer.",
    )

    zero_stage: Literal[1, 2, 3] = Field(2, description="DeepSpeed ZeRO stage.")
    offload_optimizer: bool = Field(
        False,
        description="Keep AdamW's moments in host memory. On a CPU, where they are there already, "
        "refused.",
    )
    trainer_ranks: int = Field(1, ge=1, le=64, description="Trainer processes (one per device).")
    # 1: ranks of one machine exchange gradients in its memory, those of several over the network.
    nodes: int = Field(
        1,
        ge=1,
        le=64,
        description="Machines that the trainer's ranks are spread over, evenly, by Ray; each has "
        "an engine of its own. More than 1 with the launchers ray, slurm and kubernetes.",
    )
    # Off: ranks with rows of their own exchange gradients alone, and not tokens for heads in every
    # layer.
    sequence_parallel: bool = Field(
        False,
        description="The ranks share the tokens, and so the activations, of each row (Ulysses). On "
        "CPUs alone.",
    )
    placement: Literal["auto", "shared", "split"] = Field(
        "auto",
        description="Engine and trainer on one GPU, by turns (shared), or each on its own (split); "
        "auto: split where there are enough. On a CPU, where both use all of it, only auto.",
    )
    # None: what the server gives each session, or what trainer_ranks and placement need where that
    # is more.
    devices: int | None = Field(
        None,
        ge=1,
        le=64,
        description="GPUs of this session, within the project's quota; none: as many as the server "
        "gives each session.",
    )
    place: str = Field(
        HERE,
        pattern=rf"^{PLACE_PATTERN}$",
        description="Where the session runs: a place of the server, or a kind of machines that "
        "some of its places have, such as h100x8. GET /v1/places lists them.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: float32 on CPU, bfloat16 on GPU."
    )
    micro_batch_tokens: int = Field(
        4096, ge=64, description="Tokens per forward/backward pass; bounds memory."
    )
    gradient_checkpointing: bool = Field(
        False, description="Recompute activations in the backward pass."
    )
    # Off: what it frees is small beside the weights unless contexts are long, and each layer waits
    # for its copy.
    offload_activations: bool = Field(
        False,
        description="Keep what gradient_checkpointing saves in host memory. On a CPU, where it is, "
        "refused.",
    )

    checkpoint_every_steps: int = Field(10, ge=1, description="Steps between `state` checkpoints.")
    journal_interval_s: float = Field(
        60.0, ge=1, le=3600, description="Seconds between two copies of the journal."
    )
    episode_idle_timeout_s: float = Field(
        600.0, ge=1, le=86_400, description="An episode with no call or heartbeat expires."
    )
    episode_timeout_s: float = Field(
        3600.0, ge=1, le=604_800, description="The deadline of one without its own."
    )
    idle_suspend_s: float = Field(
        3600.0, ge=10, le=604_800, description="A session with no episode suspends after this."
    )

    # An option that another one makes meaningless is refused by its own name, so that a form can
    # mark it. Each looks only at fields declared above its own: those are the ones that have been
    # checked by then.

    @field_validator("lr_schedule")
    @classmethod
    def _schedule_has_an_end(cls, value: str, info: ValidationInfo) -> str:
        if value == "constant":
            return value
        last, warmup = info.data.get("max_steps"), info.data.get("warmup_steps", 0)
        if last is None:
            raise ValueError(f"{value} needs max_steps, where the schedule ends")
        if warmup >= last:
            raise ValueError(
                f"{value} never begins: warmup_steps ({warmup}) must be below max_steps ({last})"
            )
        return value

    @property
    def divides_by_spread(self) -> bool:
        """Whether group advantages are divided by their standard deviation."""
        if self.normalize_advantage is None:
            return self.loss != "dr_grpo" and self.advantage_baseline != "leave_one_out"
        return self.normalize_advantage

    @property
    def has_many_updates(self) -> bool:
        """Whether a batch gets more than one optimizer update."""
        return self.minibatches * self.epochs > 1

    @property
    def has_kl_loss(self) -> bool:
        """Whether the loss has a KL term, which every token feels whatever its advantage is."""
        return self.kl_coef > 0 and self.kl_in == "loss"

    @field_validator(*{**CONTRADICTIONS, **RULES})
    @classmethod
    def _has_a_meaning(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        default = cls.model_fields[name].default
        if problem := problem_of(name, value, info.data, is_default=value == default):
            raise ValueError(problem)
        return value
