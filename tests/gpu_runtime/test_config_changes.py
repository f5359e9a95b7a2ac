"""Another learning_rate and kl_coef between two steps: of which step they hold first, and the same
bits after a kill.
"""

import json
from pathlib import Path

import pytest

from gpu_runtime.episodes.batch_export import batch_lines
from gpu_runtime.episodes.config_changes import ConfigChanges
from gpu_runtime.refusals import BadRequest, OutputConflict
from gpu_runtime.weights.model_card import card_write
from support.fake_control_plane import FakeControlPlane
from support.gateway_harness import RELAY_KEY, running_gateway
from support.runtime_harness import Parts, learner_open, plane_assign, volume_fill
from tinkerscript.wire.training.changes import ConfigUpdate

BEGAN = {"tasks_per_batch": 1, "learning_rate": 1e-5, "kl_coef": 0.1}


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (made := tmp_path / "volume").mkdir()
    return made


def changes_of(it: Parts) -> ConfigChanges:
    return ConfigChanges(it.journal, it.assignment.config, it.batches)


async def trained(volume: Path, *, killed: bool) -> tuple[str, list[tuple[float, float]]]:
    """Weights and (rate, weight of the KL term) after three steps; ``killed``: between a change
    that was made while step 2 was in the journal and the end of that step.
    """
    volume.mkdir()
    volume_fill(volume, "abc")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, **BEGAN)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            first = await changes_of(it).change(ConfigUpdate(learning_rate=4e-6), "key_ada")
            assert (first.first_step, first.was) == (2, {"learning_rate": 1e-5})
            batch = await it.batches.next_batch()
            assert batch is not None and batch.step == 2
            wanted = ConfigUpdate(kl_coef=0.3, learning_rate=2e-6)
            second = await changes_of(it).change(wanted, "key_ada")
            assert second.first_step == 3, "the batch of step 2 is in the journal"
            if not killed:
                await it.train_next()
                await it.train_next()
        async with learner_open(plane, volume) as it:
            await it.learner.restore()
            while it.batches.policy_version < 3:
                await it.train_next()
            metrics = [await it.batches.step_metrics(step) for step in (1, 2, 3)]
            header, *_ = batch_lines(await it.batches.kept("3"), it.assignment)
            assert json.loads(header)["config"]["kl_coef"] == 0.3
            found = [(each["learning_rate"], each["kl_coef"]) for each in metrics if each]
            return it.trainer.weights, found


async def test_a_change_holds_from_its_step_on_and_a_kill_ends_in_the_same_bits(
    tmp_path: Path,
) -> None:
    through = await trained(tmp_path / "through", killed=False)
    assert through[1] == [(1e-5, 0.1), (4e-6, 0.1), (2e-6, 0.3)]
    assert await trained(tmp_path / "killed", killed=True) == through


async def test_a_refused_batch_keeps_the_options_it_was_tried_with(volume: Path) -> None:
    volume_fill(volume, "ab")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, **BEGAN)
        async with learner_open(plane, volume) as it:
            batch = await it.batches.next_batch()
            assert batch is not None
            await it.batches.step_refused(1, "step_refused: no number")
            made = await changes_of(it).change(ConfigUpdate(learning_rate=1e-6), "key_ada")
            assert made.first_step == 1, "its number is free again"
            name = it.journal.database.rows("SELECT name FROM refused_batches")[0]["name"]
            header, *_ = batch_lines(await it.batches.kept(name), it.assignment)
            assert json.loads(header)["config"]["learning_rate"] == 1e-5
            config = await it.batches.config_at(1)
            card_write(it.assignment, config, 1, volume)
            assert '"learning_rate": 1e-06' in (volume / "README.md").read_text()


async def test_what_cannot_change_is_refused_in_words_and_changes_nothing(volume: Path) -> None:
    volume_fill(volume, "a")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        for began, options, words in (
            ({"kl_coef": 0.0}, {"kl_coef": 0.1}, "began with 0 and has loaded no reference"),
            (
                {"kl_in": "reward"},
                {"kl_coef": 0.0},
                "so: kl_in: has an effect only with a kl_coef above 0",
            ),
            ({"reference_decay": 0.9}, {"kl_coef": 0.0}, "reference_decay: "),
        ):
            plane_assign(plane, **(BEGAN | began))
            async with learner_open(plane, volume) as it:
                with pytest.raises(BadRequest, match=words):
                    await changes_of(it).change(ConfigUpdate(**options), "")
                assert await it.batches.config_at(1) == it.assignment.config
        plane_assign(plane, **(BEGAN | {"kl_coef": 0.0, "lora_rank": 4}))
        async with learner_open(plane, volume) as it:
            await changes_of(it).change(ConfigUpdate(kl_coef=0.1), "")
            assert (await it.batches.config_at(1)).has_kl_loss, "the base is under the adapters"
        plane_assign(plane, **(BEGAN | {"max_steps": 1}))
        async with learner_open(plane, volume) as it:
            await it.train_next()
            with pytest.raises(OutputConflict, match="no step follows"):
                await changes_of(it).change(ConfigUpdate(learning_rate=1e-6), "")


async def test_the_route_changes_once_what_is_sent_again_and_names_what_stays(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path, learning_rate=1e-5) as gateway:

        async def ask(body: dict[str, object], key_id: str = "key_ada") -> tuple[int, dict]:
            headers = {"X-Relay-Key": RELAY_KEY, "X-Key-Id": key_id}
            answer = await gateway.http.patch("/config", json=body, headers=headers)
            return answer.status_code, answer.json()

        status, made = await ask({"learning_rate": 2e-6})
        assert (status, made["seq"], made["first_step"]) == (200, 1, 1)
        assert made["options"] == {"learning_rate": 2e-6} and made["was"] == {"learning_rate": 1e-5}
        assert await ask({"learning_rate": 2e-6}) == (200, made), "its answer may have been lost"
        status, none = await ask({"learning_rate": 2e-6}, "key_bob")
        assert (status, none["seq"], none["options"]) == (200, 0, {})
        for body in ({}, {"learning_rate": None}, {"learning_rate": 0}, {"rate": 1.0}):
            assert (await ask(body))[0] == 400, body
        status, refused = await ask({"grpo_n": 4, "learning_rate": 1e-6})
        assert status == 400 and "learning_rate and kl_coef can" in str(refused), refused
        assert (await gateway.http.patch("/config", json={"kl_coef": 0})).status_code == 401
