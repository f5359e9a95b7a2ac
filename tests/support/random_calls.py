"""Calls of an episode as chance makes them: agents, turns, forks, several answers, grammars,
cancelled ones.
"""

import random

from gpu_runtime.journal.records import CallRecord, Completion, Parent
from gpu_runtime.journal.token_values import UNKNOWN, set_pack
from gpu_runtime.trajectories import stored_calls

DRIFT = {"continues": "x", "message": 0, "reason": "why", "saw": "a", "renders": "b"}


def completion(
    choice: int, ids: tuple[int, ...], draw: random.Random, *, bound: bool = False
) -> Completion:
    """An answer with the log-probabilities of 32 bits that an engine computes, under a grammar
    where ``bound``; of some those at temperature 1 were not recorded.
    """
    sets = [None, UNKNOWN, set_pack(b"\x07"), set_pack(b"\x01\x10")]
    return Completion(
        choice=choice, token_ids_T=ids, logprobs_T=drawn(ids, draw), raw_logprobs_T=draw.choice([drawn(ids, draw), ()]),
        versions_T=tuple(draw.randrange(3) for _ in ids), text="", finish_reason=draw.choice(["stop", "length"]),
        message={"role": "assistant", "content": "ä"},
        allowed_T=tuple(draw.choice(sets) for _ in ids) if bound else (),
        experts_T=experts(ids),
        trainer_logprobs_T=draw.choice([drawn(ids, draw), (None, *drawn(ids, draw)[1:]) if ids else (), ()]),
        trainer_logprobs_after_T=draw.choice([drawn(ids, draw), (None, *drawn(ids, draw)[1:]) if ids else (), ()]),
    )  # fmt: skip


def drawn(ids: tuple[int, ...], draw: random.Random) -> tuple[float, ...]:
    """A log-probability for each."""
    return stored_calls.unpack_floats(stored_calls.pack_floats([-draw.expovariate(1) for _ in ids]))


def experts(ids: tuple[int, ...]) -> tuple[bytes | None, ...]:
    """Of some answers, and of some of their tokens."""
    draw = random.Random(str(ids))
    return draw.choice([(), tuple(draw.choice([None, draw.randbytes(4)]) for _ in ids)])


def calls_of(episode_id: str, draw: random.Random) -> list[CallRecord]:
    """What an episode of several agents, turns and answers records; some are cancelled, some sample
    nothing.
    """
    made: list[CallRecord] = []
    for number in range(draw.randrange(1, 5)):
        agent = draw.choice([None, "critic"])
        earlier = draw.choice([*made, None])
        prompt, parent = tuple(draw.choices(range(90), k=draw.randrange(1, 6))), None
        if earlier is not None and earlier.status == "completed":
            answer = earlier.completions[0]
            prompt = earlier.prompt_ids_P + answer.token_ids_T + prompt
            parent, agent = Parent(earlier.id, 0, len(answer.token_ids_T)), earlier.agent
        bound = draw.random() < 0.3
        answers = tuple(
            completion(
                choice, tuple(draw.choices(range(90), k=draw.randrange(0, 6))), draw, bound=bound
            )
            for choice in range(draw.choice([1, 1, 2]))
        )
        call = CallRecord(
            f"call_{episode_id}_{number}", episode_id, prompt, answers, begun_at=number + 0.25, ended_at=number + 0.5,
            status=draw.choice(["completed"] * 4 + ["cancelled"]), agent=agent, parent=parent, messages_from=number,
            messages=[{"role": "user", "content": "hello"}],
            options={"sampling": {"temperature": draw.choice([0.7, 1.0]), "grammar": bound}},
            drift=DRIFT if number == 3 else None,
        )  # fmt: skip
        made.append(call)
    return made
