"""One game of twenty questions: the player is the model that learns, the answerer is somebody else.

The whole conversation is sent each time, so every question is sampled on the tokens of those before it: one timeline.
"""

from dataclasses import dataclass, field

from answerer import Answerer, Secret
from openai import OpenAI

TURNS = 20
RULES = (
    "We play twenty questions. I think of a thing; ask one yes-or-no question at a time and name the thing when you "
    "know it. It is one of: animal, food, tool, place, instrument, vehicle, clothing, profession. "
    "Reply with one short question and nothing else."
)


@dataclass
class Game:
    """``asked`` is every question with its answer; ``solved`` says whether one of them named the secret."""

    secret: Secret
    asked: list[tuple[str, str]] = field(default_factory=list)
    solved: bool = False

    @property
    def reward(self) -> float:
        """1 for a solved game, whenever it was solved."""
        return float(self.solved)


def play(secret: Secret, client: OpenAI, model: str, answerer: Answerer, *, turns: int = TURNS, **sampling) -> Game:
    """Play until it is solved or the turns are over. A player that says nothing has used its turn."""
    game, messages = Game(secret), [{"role": "user", "content": RULES}]
    for turn in range(turns):
        reply = client.chat.completions.create(model=model, messages=messages, max_tokens=24, **sampling)
        question = reply.choices[0].message.content or ""
        answer = answerer(question, secret)
        game.asked.append((question, answer.said))
        if answer.correct:
            game.solved = True
            break
        messages += [
            {"role": "assistant", "content": question},
            {"role": "user", "content": f"{answer.said}. {turns - turn - 1} questions left."},
        ]
    return game
