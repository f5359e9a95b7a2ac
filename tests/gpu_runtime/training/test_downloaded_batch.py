"""What a step reports can be recomputed from the file of its batch alone, without any of our
code.
"""

import dataclasses
import json
import random
import shutil
from pathlib import Path

import pytest
from e2e.random_kills import HashingEngine

from gpu_runtime.episodes.batch_export import batch_lines
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion
from gpu_runtime.journal.token_values import set_pack
from gpu_runtime.loop.logprob_mismatch import BOUNDS
from gpu_runtime.training.ranks import TrainerRanks
from support.fake_control_plane import FakeControlPlane
from support.model_families import family_make
from support.plain_batch import gap_after, recompute
from support.runtime_harness import learner_open, plane_assign
from support.tiny_model import tiny_model_make
from tinkerscript.wire.episodes import WorkflowOutput

pytestmark = pytest.mark.engine
STEP_ONE = {
    "learning_rate": 1e-3,
    "micro_batch_tokens": 64,
    "grpo_n": 2,
    "tasks_per_batch": 3,
    "max_staleness": 16,
    "kl_coef": 0.0,
}
STEP_ONE |= {"logprobs_after_step": True}


def play(
    journal: Journal, name: str, task: str, reward: float, answers: list[list[int]], *, bound: bool = False,
    temperature: float = 1.0, layers: int = 0,
) -> None:  # fmt: skip
    """An episode whose every call continues the one before; log-probabilities near those of an
    untrained model, whose distribution no temperature changes much.

    Under a grammar (``bound``) each token is one of three, the first of an answer the only one.
    """
    journal.episodes.begin(name, task=task, eval=False, deadline_at=4e9)
    prompt = [5, 9, *map(ord, task)]
    prompt = [token % 90 + 3 for token in prompt]
    for turn, ids in enumerate(answers):
        logprobs = tuple(-4.2 - 0.1 * (token % 7) for token in ids)
        answer = Completion(
            0, tuple(ids), logprobs, (0,) * len(ids), "", "stop", {"role": "assistant"}
        )
        if layers:  # two of four experts, chosen by the tokens before alone: siblings share those
            draws = [random.Random(str([*prompt, *ids[:t]])) for t in range(len(ids))]
            rows = tuple(
                bytes(sum((draw.sample(range(4), 2) for _ in range(layers)), [])) for draw in draws
            )
            answer = dataclasses.replace(answer, experts_T=rows)
        options = {"sampling": {"temperature": temperature}}
        if temperature != 1.0:
            answer = dataclasses.replace(
                answer, raw_logprobs_T=tuple(logprob - 1.0 for logprob in logprobs)
            )
        if bound:
            sets = [{ids[0]}, *({token, 3, 60} for token in ids[1:])]
            allowed = tuple(
                set_pack(sum(1 << token for token in each).to_bytes(16, "little")) for each in sets
            )
            near = tuple(logprob + 3.4 for logprob in logprobs)
            answer = dataclasses.replace(answer, allowed_T=allowed, logprobs_T=near)
            options["sampling"]["grammar"] = True
        made = float(turn), turn + 0.5
        call = CallRecord(
            f"call_{name}_{turn}", name, tuple(prompt), (answer,), *made, options=options
        )
        journal.calls.record(call)
        prompt = [*prompt, *ids, 7, 8]
    journal.episodes.end(
        name, WorkflowOutput(reward=reward), {"timelines": 1, "calls": len(answers), "agents": []}
    )


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    journal = Journal(folder / "journal.sqlite3")
    play(journal, "a0", "add", 1.0, [[11, 12, 13], [14, 15]])
    play(journal, "a1", "add", 0.2, [[11, 12, 20]], temperature=0.3)
    play(journal, "b0", "sub", 0.0, [[31, 32, 33, 34]], temperature=2.0)
    play(journal, "b1", "sub", 0.7, [[35, 39], [36, 37, 38]], bound=True, temperature=0.7)
    play(journal, "c0", "mul", 0.5, [[41]])
    play(journal, "c1", "mul", 0.5, [[42]])
    journal.close()
    return folder


@pytest.mark.parametrize(("loss", "zero_stage"), [("grpo", 2), ("grpo", 3)])
async def test_loss_and_gradient_are_those_of_the_downloaded_batch(
    volume: Path, tmp_path: Path, loss: str, zero_stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # these log-probabilities are made by hand, and no engine's
    monkeypatch.setitem(BOUNDS, "float32", 1.0)
    model = tiny_model_make(tmp_path / "model")
    with FakeControlPlane(part_size_bytes=1 << 22) as plane:
        config = plane_assign(plane, model, loss=loss, zero_stage=zero_stage, **STEP_ONE)
        trainer = TrainerRanks(str(model), config, "cpu")
        try:
            async with learner_open(
                plane, volume, engine=HashingEngine(volume / "served"), trainer=trainer
            ) as it:
                await it.train_next()
                text = b"".join(batch_lines(await it.batches.kept("1"), it.assignment)).decode()
                await trainer.export_model(tmp_path / "after")
        finally:
            await trainer.close()
    lines = [json.loads(line) for line in text.splitlines()]
    raw = {line["episode_id"]: line["raw_logprobs"] for line in lines if line["kind"] == "sample"}
    sampled = {line["episode_id"]: line["logprobs"] for line in lines if line["kind"] == "sample"}
    assert raw["a0"] == sampled["a0"] and raw["c0"] == sampled["c0"], (
        "of temperature 1 there is but one"
    )
    assert raw["b0"] == pytest.approx([logprob and logprob - 1.0 for logprob in sampled["b0"]])
    before = {
        line["episode_id"]: line["trainer_logprobs"] for line in lines if line["kind"] == "sample"
    }
    assert set(before["c0"]) == {0.0, None}, "it was not in the gradient: no step computed it"
    live = [line for line in lines if line["kind"] == "sample" and line["in_gradient"]]
    assert {sample["episode_id"] for sample in live} == {"a0", "a1", "b0", "b1"}, (
        "group c says nothing"
    )
    assert [sum(s["mask"]) for s in live if s["episode_id"] == "b1"] == [3], (
        "two of its tokens were an only choice"
    )
    found, metrics = recompute(lines, model), lines[0]["metrics"]
    assert (
        sorted(found.temperatures) == pytest.approx([0.3, 0.7, 1.0, 2.0])
        and found.bound_tokens == 3
    )
    assert found.loss == pytest.approx(metrics["loss"], rel=1e-4, abs=1e-7)
    assert found.norm == pytest.approx(metrics["grad_norm"], rel=1e-4)
    assert found.norm > 0.01
    assert found.trainer_gap < 1e-5
    assert gap_after(lines, tmp_path / "after") < 1e-5
    moved = [
        one != other
        for line in live
        for one, other in zip(
            *(line[f"trainer_logprobs{of}"] for of in ("", "_after")), strict=True
        )
    ]
    assert sum(moved) == sum(sum(line["mask"]) for line in live), (
        "the step changed each trained token, and no other"
    )
    assert {
        line["episode_id"]: line["trainer_logprobs_after"]
        for line in lines
        if line["kind"] == "sample"
    }["c0"] == before["c0"]


@pytest.mark.parametrize("name", ["Qwen3-MoE", "GLM-4.5"])
async def test_a_batch_of_a_mixture_is_computed_again_with_the_experts_of_its_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BOUNDS, "float32", 5.0)  # log-probabilities and experts made by hand
    model = family_make(tiny_model_make(tmp_path / "model"), name)
    (volume := tmp_path / "volume").mkdir()
    journal, layers = Journal(volume / "journal.sqlite3"), 2 if name == "Qwen3-MoE" else 1
    play(journal, "a0", "add", 1.0, [[11, 12, 13], [14, 15]], layers=layers)
    play(journal, "a1", "add", 0.2, [[21, 12, 20]], layers=layers)
    play(journal, "b0", "sub", 0.0, [[31, 32, 33, 34]], layers=layers)
    play(journal, "b1", "sub", 0.7, [[35, 39], [36, 37, 38]], layers=layers)
    journal.close()
    found = {}
    for replays in (True, False):
        options = STEP_ONE | {"tasks_per_batch": 2, "routing_replay": replays}
        with FakeControlPlane(part_size_bytes=1 << 22) as plane:
            config = plane_assign(plane, model, **options)
            trainer = TrainerRanks(str(model), config, "cpu")
            try:
                served = HashingEngine(tmp_path / f"served-{replays}")
                copied = Path(shutil.copytree(volume, tmp_path / f"volume-{replays}"))
                async with learner_open(plane, copied, engine=served, trainer=trainer) as it:
                    await it.train_next()
                    text = b"".join(batch_lines(await it.batches.kept("1"), it.assignment))
            finally:
                await trainer.close()
        found[replays] = [json.loads(line) for line in text.decode().splitlines()]
    metrics = found[True][0]["metrics"]
    plain = recompute(found[True], model, mixture=name)
    assert plain.loss == pytest.approx(metrics["loss"], rel=1e-4, abs=1e-6)
    assert plain.norm == pytest.approx(metrics["grad_norm"], rel=1e-4)
    assert plain.trainer_gap < 1e-4 and 0.2 < metrics["routing_differs"] < 0.8
    others = found[False][0]["metrics"]  # a session that does not replay routes by itself
    assert others["routing_differs"] is None
    assert abs(others["grad_norm"] / metrics["grad_norm"] - 1) > 0.01
