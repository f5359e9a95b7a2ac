"""A step of several updates: which samples each takes, the policy before it once, and when it ends
early.
"""

import dataclasses
import math

import pytest

from gpu_runtime.errors import EngineMismatch, StepRefused
from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.model_interfaces import BEFORE, Datum
from gpu_runtime.steps.updates import batch_train, update_parts
from support.fakes import FakeTrainer, below
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import OLD, TARGETS, WEIGHTS

SAMPLES = [
    Sample((1, 2, 10 * group + member), (0, 1, 1), (0.0, -0.5, -1.0), advantage=1.0, group=group)
    for group in range(4)
    for member in range(2)
]


class Watched(FakeTrainer):
    """Keeps what it was given, and moves away from the policy before the step by ``per_update``
    nats an update.
    """

    def __init__(self, per_update: float = 0.0) -> None:
        super().__init__()
        self.given: list[list[Datum]] = []
        self.scored: list[list[Datum]] = []
        self.per_update = per_update
        self.moved = 0.0  # engine and trainer agree

    async def logprobs(self, data, reference=False):
        self.scored.append(data)
        return await super().logprobs(data, reference)

    async def forward_backward(self, data, loss_fn, loss_config):
        self.given.append(data)
        self.kl_before = self.per_update * len(self.steps)
        return await super().forward_backward(data, loss_fn, loss_config)

    @property
    def scales(self) -> list[list[float]]:
        """Of the targets of each datum of each update."""
        return [[float(each.loss_inputs[WEIGHTS][0]) for each in data] for data in self.given]


def tokens_of(datum: Datum) -> list[int]:
    return datum.loss_inputs[TARGETS].tolist()


async def trained(trainer: FakeTrainer, **options: object) -> dict[str, float]:
    return (await batch_train(trainer, SessionConfig(**options), SAMPLES, 3, 0)).metrics


def test_one_update_takes_the_batch_as_it_is():
    assert update_parts(SAMPLES, SessionConfig(), 1) == [SAMPLES]


def test_every_epoch_takes_every_group_whole_and_once_in_an_order_of_its_own():
    config = SessionConfig(minibatches=2, epochs=3)
    parts = update_parts(SAMPLES, config, 1)
    assert parts == update_parts(SAMPLES, config, 1), "a replay must do the same"
    assert parts != update_parts(SAMPLES, config, 2)
    assert parts != update_parts(SAMPLES, config.model_copy(update={"seed": 1}), 1)
    assert [len({sample.group for sample in part}) for part in parts] == [2] * 6
    for epoch in range(3):
        seen = [sample for part in parts[2 * epoch : 2 * epoch + 2] for sample in part]
        assert sorted(seen, key=SAMPLES.index) == SAMPLES
    orders = {tuple(part[0].group for part in parts[at : at + 2]) for at in (0, 2, 4)}
    assert len(orders) == 2, "the order is another in some epoch"


@pytest.mark.parametrize("minibatches", [2, 3])
async def test_each_update_is_packed_as_the_policy_before_the_step_was_computed(minibatches):
    """The same weights give another log-probability in bfloat16 where a row has other samples: more
    than GSPO's clip is wide.
    """
    trainer = Watched()
    await trained(trainer, loss="gspo", minibatches=minibatches, epochs=4)
    compositions = [
        [[tokens_of(datum) for datum in data] for data in calls]
        for calls in ([trainer.given[0], *trainer.scored], trainer.given)
    ]
    before, updates = compositions
    assert len(updates) == 4 * minibatches and all(each in before for each in updates)


async def test_the_averages_of_the_session_go_with_each_update_as_weights_of_a_sum():
    each_token, each_episode = Watched(), Watched()
    await trained(each_token, loss="dapo", minibatches=2)
    await trained(each_episode, loss="grpo")
    assert each_token.scales == [[1 / 8] * 4] * 2, "of an update's own tokens"
    assert each_episode.scales == [[1 / 16] * 8]


@pytest.mark.parametrize(
    ("several", "passes"), [({}, 0), ({"epochs": 3}, 0), ({"minibatches": 2, "epochs": 2}, 1)]
)
async def test_the_policy_before_the_step_costs_a_pass_only_where_no_update_takes_the_whole_batch(
    several, passes
):
    trainer, points = Watched(), list[str]()

    async def reach(point: str) -> None:
        points.append(point)

    trainer.reach = reach
    found = await trained(trainer, **several)
    first, *later = trainer.given
    assert points.count("logprobs") == passes and len(trainer.steps) == found["updates"]
    assert all(BEFORE not in datum.loss_inputs for datum in first), (
        "the ratio of the first update is to itself"
    )
    passed = [tokens_of(datum) for data in trainer.scored for datum in data]
    of_first = [tokens_of(datum) for datum in first]
    every = [tokens_of(datum) for datum in sample_data(SAMPLES)]
    assert not passed or passed == [it for it in every if it not in of_first], (
        "packed as it is trained"
    )
    assert all(
        (datum.loss_inputs[BEFORE] == datum.loss_inputs[OLD]).all()
        for part in later
        for datum in part
    )
    assert found["tokens_trained"] == several.get("epochs", 1) * sum(
        sum(sample.mask_T) for sample in SAMPLES
    )


async def test_the_updates_end_once_the_policy_has_moved_too_far():
    trainer = Watched(per_update=0.01)
    found = await trained(trainer, epochs=8, kl_stop=0.025)
    assert len(trainer.given) == 4 and found["updates"] == 3, (
        "the fourth gradient is seen at 0.03 and dropped"
    )
    assert trainer.gradient == []


async def test_what_is_not_finite_is_refused_at_any_update():
    trainer = Watched(per_update=math.inf)
    with pytest.raises(StepRefused, match="kl_before"):
        await trained(trainer, epochs=2, kl_stop=0.1)
    assert trainer.gradient == []


async def test_the_gap_to_the_engine_is_that_of_the_policy_before_the_step():
    trainer = Watched()

    async def moved(data, reference=False):
        return [below(datum, 0.1) for datum in data]

    trainer.logprobs, trainer.moved = moved, 0.1
    with pytest.raises(EngineMismatch, match="KL of 0.0048"):
        await trained(trainer, minibatches=2)
    assert trainer.steps == []


async def test_one_token_that_is_far_off_is_counted_and_ends_no_step():
    trainer = Watched()
    trainer.kl_engine = 0.3  # the mean that the token makes
    poisoned = dataclasses.replace(SAMPLES[0], logprobs_T=(0.0, -0.5, -6.0))
    inner = trainer.forward_backward

    async def as_if_it_were_near(*given):
        result = await inner(*given)
        result.outputs[0]["logprobs"][1] = -1.0
        return result

    trainer.forward_backward = as_if_it_were_near
    found = (await batch_train(trainer, SessionConfig(), [poisoned, *SAMPLES[1:]], 3, 0)).metrics
    assert (
        trainer.steps == [1]
        and found["engine_gap_max"] == 5.0
        and found["engine_gap_far"] == 1 / 16
    )
    assert found["engine_gap_p50"] == 0.0


async def test_a_step_that_was_counted_is_not_compared_with_the_engine_again():
    """A later version may have a tighter bound: refused then, the step would be missing below those
    that follow it.
    """
    trainer = Watched()
    trainer.kl_engine, trainer.moved = 0.3, 0.5
    with pytest.raises(EngineMismatch):
        await trained(trainer)
    found = await batch_train(trainer, SessionConfig(), SAMPLES, 3, 0, True)
    assert found.metrics["kl_engine"] == 0.3 and trainer.steps == [1]


@pytest.mark.parametrize(
    "several", [{}, {"minibatches": 2, "epochs": 2}], ids=["one update", "four"]
)
async def test_log_probabilities_after_a_step_are_computed_once_after_its_last_update_where_they_are_asked_for(
    several,
):
    computed: dict[bool, list[str]] = {}
    for asked in (False, True):
        trainer, points = Watched(), computed.setdefault(asked, [])

        async def reach(point: str, points: list[str] = points) -> None:
            points.append(point)

        trainer.reach = reach
        config = SessionConfig(logprobs_after_step=asked, **several)
        done = await batch_train(trainer, config, SAMPLES, 3, 0)
        assert list(done.after_ST) == (
            [list(sample.logprobs_T) for sample in SAMPLES] if asked else []
        )
    assert (
        computed[True] == [*computed[False], "logprobs"]
        and computed[False][-1] == f"optim_step {int(done.metrics['updates'])} done"
    )


async def test_a_step_that_was_counted_keeps_the_log_probabilities_after_it_that_it_has():
    done = await batch_train(
        Watched(), SessionConfig(logprobs_after_step=True), SAMPLES, 3, 0, True
    )
    assert not done.after_ST and done.before_ST
