"""Batches of completed episodes, made by hand: what a step is trained on."""

from gpu_runtime.journal.records import CallRecord, Completion, EpisodeRecord
from gpu_runtime.loop.batching import Batch, Group, TrainedEpisode
from tinkerscript.wire.episodes import EpisodeState, WorkflowOutput


def call(
    name: str, prompt, sampled, agent: str | None = None, status: str = "completed", begun_at: float = 0.0,
    temperature: float = 1.0, grammar: bool = False, allowed=(),
) -> CallRecord:  # fmt: skip
    message = {"role": "assistant", "content": "x"}
    logprobs = tuple(-0.5 - i for i in range(len(sampled)))
    answer = Completion(
        0, tuple(sampled), logprobs, (0,) * len(sampled), "x", "stop", message, allowed_T=allowed
    )
    options = {
        "sampling": {"temperature": temperature, "top_p": 1.0}
        | ({"grammar": True} if grammar else {})
    }
    return CallRecord(
        name,
        "e",
        tuple(prompt),
        (answer,),
        begun_at,
        1.0,
        agent=agent,
        status=status,
        options=options,
    )


def episode(
    number: int, reward: float, *calls: CallRecord, by_agent=None, by_call=None, version: int = 3
) -> TrainedEpisode:
    output = WorkflowOutput(reward=reward, rewards_by_agent=by_agent, rewards_by_call=by_call)
    nothing = dict.fromkeys(["task", "fate", "reason", "report", "trained_step"])
    record = EpisodeRecord(
        **{
            "seq": number,
            "id": f"e{number}",
            "group_key": "g",
            "eval": False,
            "state": EpisodeState.COMPLETED,
        },
        **{"output": output, "calls": len(calls)},
        **{
            "sampled_tokens": 0,
            "version_first": version,
            "version_last": version,
            "begun_at": 0.0,
            "deadline_at": 1.0,
        },
        **{"ended_at": 1.0, "end_seq": number},
        **nothing,
    )
    return TrainedEpisode(record, calls)


def batch(*groups: list[TrainedEpisode]) -> Batch:
    return Batch(4, 3, tuple(Group(f"g{n}", tuple(members)) for n, members in enumerate(groups)))
