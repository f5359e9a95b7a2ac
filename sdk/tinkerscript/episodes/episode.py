"""One run of an agent on one task: where its LLM calls go, and how it ends."""

import logging
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tinkerscript.arguments import NamedArguments
from tinkerscript.connection.http_client import certificates
from tinkerscript.connection.proxies import proxy_for
from tinkerscript.connection.session_api import LEAVE_RETRY_S
from tinkerscript.errors import TinkerScriptError
from tinkerscript.wire.episodes import EpisodeBegun, EpisodeView

from .agent_environment import agent_environment
from .episode_state import EpisodeState

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

log = logging.getLogger("tinkerscript")


class Episode(NamedArguments):
    """An open episode. Unpacks as ``base_url, api_key``; also a context manager that abandons what
    was not ended.

    While this object is in use, or a key unpacked from it, the session sends heartbeats in the
    background, so that a slow tool does not count as idle. An episode that was dropped without an
    end expires on the server.

    Example::

        with session.begin_episode(task="3+4") as episode:
            answer = my_agent(episode.openai(), episode.model)
            episode.end(1.0 if answer == "7" else 0.0)
    """

    made_by = "An episode comes from begin_episode() or episode() of a session."

    def __init__(self, state: EpisodeState, begun: EpisodeBegun, *, task: str | None) -> None:
        self._state = state
        self._begun = begun
        self.id = begun.episode_id
        self.task = task
        self.base_url = begun.base_url
        self.api_key = begun.api_key
        self.model = begun.model
        self.policy_version = begun.policy_version

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process: the same episode, of the session as it is there. It can be ended
        once.
        """
        return _in_this_process, (self._state.api, self._begun, self.task)

    def __iter__(self) -> Iterator[str]:
        return iter((self.base_url, _KeyWithEpisode(self)))

    def __repr__(self) -> str:
        return f"<Episode {self.id} task={self.task!r} {self._state.closed_because or 'open'}>"

    @property
    def is_open(self) -> bool:
        """Whether it can still be ended, as far as this process knows."""
        return self._state.is_open

    @property
    def result(self) -> EpisodeView | None:
        """What its end returned; None when this process has not ended it."""
        return self._state.result

    def openai(self, **options: Any) -> "OpenAI":
        """An ``openai.OpenAI`` client for this episode; ``options`` go to its constructor. Needs
        the openai package.
        """
        import openai

        if "http_client" not in options:
            options["http_client"] = openai.DefaultHttpxClient(**self._http_settings())
        return openai.OpenAI(base_url=self.base_url, api_key=_KeyWithEpisode(self), **options)

    def async_openai(self, **options: Any) -> "AsyncOpenAI":
        """An ``openai.AsyncOpenAI`` client for this episode, as openai()."""
        import openai

        if "http_client" not in options:
            options["http_client"] = openai.DefaultAsyncHttpxClient(**self._http_settings())
        return openai.AsyncOpenAI(base_url=self.base_url, api_key=_KeyWithEpisode(self), **options)

    def _http_settings(self) -> dict[str, Any]:
        """As the session's own connection. The certificates are shared: reading them takes 60 ms of
        each client, which in an asyncio loop of many episodes is time in which nothing else runs.
        """
        ours = self._state.api.http_options
        proxy = proxy_for(self.base_url, ours.proxy)
        return {"verify": certificates(ours.ca_file), "proxy": proxy, "trust_env": False}

    def end(self, output: Any) -> EpisodeView:
        """Hand in the result and return what the server made of it, once it is on the server's
        disk.

        ``output``: a WorkflowOutput, an object or dict with the same fields, or a number. Ending
        twice with the same output returns the same view. Raises InvalidReward (before anything is
        sent), EmptyEpisode when no call was captured (the episode stays open), EpisodeClosed when
        it is over, with another result or by a clock.
        """
        return self._state.end(output)

    def abandon(self, reason: str | BaseException = "abandoned") -> EpisodeView:
        """Give it up: it is counted under ``reason`` (200 characters, or an exception) and never
        trained.

        Raises EpisodeClosed when it has been ended.
        """
        return self._state.abandon(reason)

    def environment(self, agent: str | None = None) -> dict[str, str]:
        """This process's environment with the episode's address and key in it, for an agent that is
        a program.

        It has what OpenAI's and Anthropic's clients read, and not the API key of the session's
        owner. ``agent`` (``claude-code`` or another of the page "Train a coding agent") adds what
        that one reads, and what keeps it from sending anything elsewhere. Raises InvalidRequest for
        any other.

        Example: ``subprocess.run(["claude", "-p", task], env=episode.environment("claude-code"),
        check=True)``
        """
        return agent_environment(self._begun, agent)

    def heartbeat(self) -> EpisodeView:
        """Say now that the agent is alive; tried again while the server is away, as every request
        is.

        The session does so by itself in the background.
        """
        return self._state.heartbeat()

    def __enter__(self) -> "Episode":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.is_open:
            return
        try:
            if kind is None:
                self.abandon("not_ended")
            else:
                self._state.abandon(kind.__name__, retry_timeout_s=LEAVE_RETRY_S)
        except TinkerScriptError as problem:
            if kind is None:
                raise
            # The agent's own exception matters more; the server expires the episode.
            log.warning("Episode %s could not be abandoned: %s", self.id, problem)


def _in_this_process(session: Any, begun: EpisodeBegun, task: str | None) -> Episode:
    episode: Episode = session.adopt(begun, task)[1]
    return episode


class _KeyWithEpisode(str):
    """An episode's key that keeps its Episode in use: an agent that unpacked it holds nothing
    else.
    """

    def __new__(cls, episode: Episode) -> "_KeyWithEpisode":
        key = super().__new__(cls, episode.api_key)
        key.episode = episode
        return key

    episode: Episode

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # what is copied or sent to another process is the plain key
