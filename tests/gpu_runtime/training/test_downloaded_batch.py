"""What a step reports can be recomputed from the file of its batch alone, without any of our code."""

import base64
import dataclasses
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from e2e.random_kills import HashingEngine
from transformers import AutoModelForCausalLM

from gpu_runtime.episodes.batch_export import batch_lines
from gpu_runtime.journal.allowed_tokens import set_pack
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion
from gpu_runtime.training.logprob_mismatch import BOUNDS
from gpu_runtime.training.ranks import TrainerRanks
from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import learner_open, plane_assign
from support.tiny_model import tiny_model_make
from tinkerscript.wire.episodes import WorkflowOutput

pytestmark = pytest.mark.engine
STEP_ONE = {"learning_rate": 1e-3, "micro_batch_tokens": 64, "grpo_n": 2, "tasks_per_batch": 3, "max_staleness": 16}
STEP_ONE |= {"clip_low": 0.2, "clip_high": 0.2}  # as a server fills them in


def play(
    journal: Journal, name: str, task: str, reward: float, answers: list[list[int]], *, bound: bool = False
) -> None:
    """An episode whose every call continues the one before; log-probabilities near those of an untrained model.

    Under a grammar (``bound``) each token is one of three, the first of an answer the only one.
    """
    journal.episodes.begin(name, task=task, eval=False, deadline_at=4e9)
    prompt = [5, 9, *map(ord, task)]
    prompt = [token % 90 + 3 for token in prompt]
    for turn, ids in enumerate(answers):
        logprobs = tuple(-4.2 - 0.1 * (token % 7) for token in ids)
        answer = Completion(0, tuple(ids), logprobs, (0,) * len(ids), "", "stop", {"role": "assistant"})
        options = {}
        if bound:
            sets = [{ids[0]}, *({token, 3, 60} for token in ids[1:])]
            allowed = tuple(set_pack(sum(1 << token for token in each).to_bytes(16, "little")) for each in sets)
            near = tuple(logprob + 3.4 for logprob in logprobs)
            answer = dataclasses.replace(answer, allowed_T=allowed, logprobs_T=near)
            options = {"sampling": {"temperature": 1.0, "grammar": True}}
        made = float(turn), turn + 0.5
        call = CallRecord(f"call_{name}_{turn}", name, tuple(prompt), (answer,), *made, options=options)
        journal.calls.record(call)
        prompt = [*prompt, *ids, 7, 8]
    journal.episodes.end(name, WorkflowOutput(reward=reward), {"timelines": 1, "calls": len(answers), "agents": []})


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    journal = Journal(folder / "journal.sqlite3")
    play(journal, "a0", "add", 1.0, [[11, 12, 13], [14, 15]])
    play(journal, "a1", "add", 0.2, [[11, 12, 20]])
    play(journal, "b0", "sub", 0.0, [[31, 32, 33, 34]])
    play(journal, "b1", "sub", 0.7, [[35, 39], [36, 37, 38]], bound=True)
    play(journal, "c0", "mul", 0.5, [[41]])
    play(journal, "c1", "mul", 0.5, [[42]])
    journal.close()
    return folder


@pytest.mark.parametrize(("loss", "zero_stage"), [("grpo", 2), ("grpo", 3)])
async def test_loss_and_gradient_are_those_of_the_downloaded_batch(
    volume: Path, tmp_path: Path, loss: str, zero_stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BOUNDS, "float32", 1.0)  # these log-probabilities are made by hand, and no engine's
    model = tiny_model_make(tmp_path / "model")
    with FakeControlPlane(part_size_bytes=1 << 22) as plane:
        config = plane_assign(plane, model, loss=loss, zero_stage=zero_stage, **STEP_ONE)
        trainer = TrainerRanks(str(model), config, "cpu")
        try:
            async with learner_open(plane, volume, engine=HashingEngine(volume / "served"), trainer=trainer) as it:
                await it.train_next()
                text = b"".join(batch_lines(await it.batches.kept("1"), it.assignment)).decode()
        finally:
            await trainer.close()
    lines = [json.loads(line) for line in text.splitlines()]
    loss_value, norm = recompute(lines, model)
    metrics = lines[0]["metrics"]
    assert loss_value == pytest.approx(metrics["loss"], rel=1e-4, abs=1e-7)
    assert norm == pytest.approx(metrics["grad_norm"], rel=1e-4)
    assert norm > 0.01


def recompute(lines: list[dict], model_folder: Path) -> tuple[float, float]:
    """GRPO by its formula, one unpacked sample after the other, on the model that step 1 began with."""
    config = lines[0]["config"]
    samples = [line for line in lines if line["kind"] == "sample" and line["in_gradient"]]
    assert {sample["episode_id"] for sample in samples} == {"a0", "a1", "b0", "b1"}, "group c says nothing"
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    episodes = sum(sample["weight"] for sample in samples)
    assert [sum(s["mask"]) for s in samples if s["episode_id"] == "b1"] == [3], "two of its tokens were an only choice"
    total = torch.tensor(0.0)
    for sample in samples:
        ids = torch.tensor([sample["token_ids"]])
        logits = model(ids).logits[0, :-1]
        sets = [zlib.decompress(base64.b64decode(each)) for each in sample["allowed_sets"]]
        for t, number in enumerate(sample["allowed"][1:]):
            if number >= 0:
                bits = np.unpackbits(np.frombuffer(sets[number], np.uint8), bitorder="little")[: logits.shape[1]]
                forbidden = torch.zeros_like(logits, dtype=torch.bool)
                forbidden[t] = torch.from_numpy(bits == 0)
                logits = logits.masked_fill(forbidden, -torch.inf)
        logprobs = logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        mask = torch.tensor(sample["mask"][1:], dtype=torch.bool)
        old, advantage = torch.tensor(sample["logprobs"][1:])[mask], torch.tensor(sample["advantages"][1:])[mask]
        ratio = torch.exp(logprobs[mask] - old)
        clipped = ratio.clamp(1 - config["clip_low"], 1 + config["clip_high"])
        by_token = -torch.minimum(ratio * advantage, clipped * advantage)
        total = total + by_token.mean() * sample["weight"] / episodes
    total.backward()
    norm = torch.sqrt(sum(parameter.grad.square().sum() for parameter in model.parameters()))
    return total.item(), norm.item()
