"""One game of twenty questions as a plain loop: the player is the model that learns; answerer and
search are not.

The whole conversation is sent each time, so every question is sampled on the tokens of those before
it: one timeline.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from answerer import Answer, Answerer, Secret
from openai import OpenAI
from search import TOOL, Search

TURNS, TOLD = 20, 0.2
SEARCHES_A_TURN = 1
MAX_TOKENS, MAX_TOKENS_WITH_TOOL = 24, 64
PLAYER = {"X-Agent": "player"}
RULES = (
    "We play twenty questions. I think of a thing; ask one yes-or-no question at a time and name "
    "the thing when you "
    "know it. It is one of: animal, food, tool, place, instrument, vehicle, clothing, profession. "
    'Reply with one short question and nothing else, such as "Is it a tool?" or "Does it start '
    'with B?".'
)


class AnswersUnread(RuntimeError):
    """No answer of a game could be read: it says nothing about the player."""


@dataclass
class Game:
    """``asked`` is every question with its answer; ``solved`` says whether one of them named the
    secret.

    ``answers_unread`` counts the answers that came in another form and were "n/a" to the player.
    """

    secret: Secret
    asked: list[tuple[str, str]] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    solved: bool = False
    answers_unread: int = 0

    def take(self, question: str, answer: Answer) -> None:
        """One turn more."""
        self.asked.append((question, answer.said))
        self.answers_unread += not answer.is_read
        self.solved = answer.correct

    def check(self) -> None:
        """At the end. Raises AnswersUnread where every answer was unread, which a reward of 0 would
        hide.
        """
        if self.asked and self.answers_unread == len(self.asked):
            raise AnswersUnread(
                f"none of the {len(self.asked)} answers of the answerer could be read"
            )

    @property
    def reward_parts(self) -> dict[str, float]:
        """1 for a solved game, whenever it was solved; else TOLD times the share of turns that told
        something.

        Those are the turns with a question that was not asked before and was answered by yes or no.
        """
        told = {question.strip().lower() for question, said in self.asked if said != "n/a"}
        share = len(told) / len(self.asked) if self.asked else 0.0
        return {"solved": float(self.solved), "told": 0.0 if self.solved else TOLD * share}

    @property
    def reward(self) -> float:
        """The sum of its parts."""
        return sum(self.reward_parts.values())


def play(
    secret: Secret,
    client: OpenAI,
    model: str,
    answerer: Answerer,
    *,
    turns: int = TURNS,
    search: Search | None = None,
    **sampling: Any,
) -> Game:
    """Play until it is solved or the turns are over. A player that says nothing has used its turn.

    Raises AnswersUnread.
    """
    game, messages = Game(secret), [{"role": "user", "content": RULES}]
    for turn in range(turns):
        question = ask(client, model, messages, game, search, sampling)
        answer = answerer(question, secret)
        game.take(question, answer)
        if game.solved:
            break
        messages.append(
            {"role": "user", "content": f"{answer.said}. {turns - turn - 1} questions left."}
        )
    game.check()
    return game


def ask(
    client: OpenAI,
    model: str,
    messages: list[dict[str, Any]],
    game: Game,
    search: Search | None,
    sampling: dict,
) -> str:
    """The player's next question, after at most one search; ``messages`` grow by what was said."""
    sampling = {"max_tokens": MAX_TOKENS_WITH_TOOL if search else MAX_TOKENS, **sampling}
    if search:
        sampling["tools"] = [TOOL]
    for used in range(SEARCHES_A_TURN + 1):
        reply = client.chat.completions.create(
            model=model, messages=messages, extra_headers=PLAYER, **sampling
        )
        said = reply.choices[0].message
        messages.append(
            said.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True)
        )
        if not said.tool_calls or search is None:
            break
        for call in said.tool_calls:
            found = (
                searched(call.function.arguments, game, search)
                if used < SEARCHES_A_TURN
                else "Ask now."
            )
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
    return said.content or ""


def searched(arguments: str, game: Game, search: Search) -> str:
    """What the search finds; arguments that are no JSON object with a query are told to the
    player.
    """
    try:
        query = str(json.loads(arguments)["query"])
    except (ValueError, TypeError, KeyError):
        return 'Call it with {"query": "..."}.'
    game.searched.append(query)
    return search(query)
