"""A batch read from the object store has the samples that the trainer was given."""

import gzip
import json
import random
from collections.abc import Sequence

import pytest

from console.sessions.episodes.batch_samples import episode_samples, samples_finish
from console.sessions.episodes.documents import calls_page
from gpu_runtime.episodes.batch_export import KeptBatch, batch_lines
from gpu_runtime.episodes.call_views import episode_calls
from gpu_runtime.loop.batching import batch_advantages
from gpu_runtime.trajectories.documents import document_pack, episode_document
from gpu_runtime.trajectories.token_texts import TokenTexts
from support.fake_control_plane import FakeControlPlane
from support.light_tokenizer import LightTokenizer
from support.random_calls import calls_of
from support.runtime_harness import tiny_model
from support.trained_batches import batch, episode
from tinkerscript.wire.reading.batches import BatchSample
from tinkerscript.wire.reading.calls import CallView, SampledAnswer
from tinkerscript.wire.runtime import Assignment


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> TokenTexts:
    return TokenTexts(LightTokenizer(tiny_model(tmp_path_factory.mktemp("tiny"))))


def test_calls_read_of_a_document_say_of_each_token_what_the_journal_does(
    texts: TokenTexts,
) -> None:
    for number in range(20):
        member = episode(number, 1.0, *calls_of(f"e{number}", random.Random(number)))
        document = json.loads(
            gzip.decompress(document_pack(episode_document(member.record, member.calls, texts)))
        )
        read = [CallView.model_validate(call) for call in calls_page(document, start=0, limit=9)]
        kept = episode_calls(member.calls, start=0, limit=9).items
        for found, expected in zip(answers_of(read), answers_of(kept), strict=True):
            assert (found.token_ids, found.policy_versions) == (
                expected.token_ids,
                expected.policy_versions,
            )
            for values, kept_values in (
                (found.logprobs, expected.logprobs), (found.raw_logprobs, expected.raw_logprobs),
            ):  # fmt: skip
                assert values == (
                    None if kept_values is None else pytest.approx(kept_values, rel=1e-8)
                )


def answers_of(calls: Sequence[CallView]) -> list[SampledAnswer]:
    return [answer for call in calls for answer in call.completions]


@pytest.mark.parametrize(
    "options",
    [{}, {"mask_truncated": True}, {"train_calls_without_tools": False}, {"kl_coef": 0.1}],
)
def test_samples_made_of_documents_are_those_that_were_trained(
    texts: TokenTexts, options: dict
) -> None:
    draw = random.Random(str(options))
    plane = FakeControlPlane(port=1).assignment() | {
        "config": {"grpo_n": 2, "tasks_per_batch": 8} | options
    }
    assignment = Assignment.model_validate(plane)
    config = assignment.config
    rewards = [(1.0, 1.0)] + [(draw.random(), draw.random()) for _ in range(7)]
    groups = [
        [
            episode(2 * g + i, reward, *calls_of(f"e{2 * g + i}", draw))
            for i, reward in enumerate(pair)
        ]
        for g, pair in enumerate(rewards)
    ]
    trained = batch(*groups)
    made: list[BatchSample] = []
    for index, (group, advantages_G) in enumerate(
        zip(groups, batch_advantages(trained, config), strict=True)
    ):
        samples = []
        for member, advantages in zip(group, advantages_G, strict=True):
            packed = document_pack(episode_document(member.record, member.calls, texts))
            document = json.loads(gzip.decompress(packed))
            samples += episode_samples(
                document,
                advantages=advantages,
                group=index,
                with_truncated=not config.mask_truncated,
                with_side=config.train_calls_without_tools,
            )
        made += samples_finish(samples, has_kl_loss=config.has_kl_loss)
    lines = [
        json.loads(line)
        for line in batch_lines(KeptBatch("4", trained, assignment.config, "journaled"), assignment)
    ]
    assert len(made) > 8 and {sample.in_gradient for sample in made} == {True, config.has_kl_loss}
    assert [sample.model_dump() for sample in made] == [
        line for line in lines if line["kind"] == "sample"
    ]
