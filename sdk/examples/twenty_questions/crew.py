"""The same game as a CrewAI flow: ask, answer, then a router that goes on or ends (``pip install
crewai``).

The agent writes the history into a new prompt for each question, so its calls do not merge: a
timeline for each turn.
"""

from typing import Any

from answerer import Answerer, Secret
from crewai import LLM, Agent
from crewai.events.event_listener import event_listener
from crewai.flow.flow import Flow, listen, or_, router, start
from crewai.tools import tool
from game import MAX_TOKENS, MAX_TOKENS_WITH_TOOL, PLAYER, RULES, TURNS, Game
from openai import OpenAI
from search import Search

# it frames each step of every game, and many are played side by side
event_listener.formatter.verbose = False


class TwentyQuestions(Flow):
    """``game`` is what was played; ``left`` how many questions are."""

    def __init__(self, player: Agent, game: Game, answerer: Answerer, turns: int) -> None:
        super().__init__(tracing=False, suppress_flow_events=True)
        self.player, self.game, self.answerer, self.left = player, game, answerer, turns

    @start()
    def begin(self) -> str:
        return "next turn"

    @listen(or_("begin", "next_turn"))
    def ask(self) -> str:
        said = "\n".join(
            f"You asked: {question} Answer: {answer}" for question, answer in self.game.asked
        )
        return self.player.kickoff(f"{RULES}\n{said}\n{self.left} questions left.").raw

    @router(ask)
    def answer(self, question: str) -> str:
        answer = self.answerer(question, self.game.secret)
        self.game.take(question, answer)
        self.left -= 1
        return "game_over" if self.game.solved or self.left == 0 else "next_turn"


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
    """As game.play; ``client`` says where the player's model is."""
    game = Game(secret)

    @tool("search")
    def look_up(query: str) -> str:
        """Look nouns up, for example: animal that starts with o."""
        game.searched.append(query)
        return search(query) if search else "nothing"

    llm = LLM(
        model=f"openai/{model}",
        base_url=str(client.base_url),
        api_key=client.api_key,
        default_headers=PLAYER,
        max_tokens=MAX_TOKENS_WITH_TOOL if search else MAX_TOKENS,
        **sampling,
    )
    player = Agent(
        role="player",
        goal="find the secret noun",
        backstory="You play twenty questions.",
        llm=llm,
        max_iter=3,
        tools=[look_up] if search else [],
    )
    TwentyQuestions(player, game, answerer, turns).kickoff()
    game.check()
    return game
