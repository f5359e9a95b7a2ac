"""What may change in a session that runs: options between two of its steps, and the rewards of
episodes that wait to be trained, by what people said of them, say, or a better judge.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypedDict

from pydantic import ValidationError

from tinkerscript.connection.session_api import SessionApi, pages
from tinkerscript.connection.user_calls import each_within
from tinkerscript.errors import InvalidRequest, InvalidReward, UnknownOption
from tinkerscript.outputs import sentences
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import (
    MAX_RESCORED,
    EpisodeList,
    EpisodesRescore,
    EpisodesRescored,
    EpisodeView,
)
from tinkerscript.wire.training.changes import ConfigChange, ConfigUpdate


class ChangeableOptions(TypedDict, total=False):
    """The options of ``Session.update``, for type checkers."""

    learning_rate: float
    kl_coef: float


def update(session: SessionApi, options: Mapping[str, Any]) -> ConfigChange:
    """As Session.update()."""
    unknown = [name for name in options if name not in SessionConfig.model_fields]
    if unknown:
        raise UnknownOption(
            f"Unknown option {', '.join(unknown)}.",
            hint=f"These can change: {', '.join(ConfigUpdate.model_fields)}.",
        )
    try:
        body = ConfigUpdate(**options)
    except ValidationError as failure:
        raise InvalidRequest(f"The options stay as they are: {sentences(failure)}") from failure
    return session.config_update(body)


Rewards = Mapping[str, float] | Callable[[EpisodeView], float | None]
PAGE = 200
REWARD_TIMEOUT_S = 600.0  # of one episode: a judge that asks a model is done long before

log = logging.getLogger("tinkerscript")


def rescore(session: SessionApi, rewards: Rewards) -> EpisodesRescored:
    """As Session.rescore()."""
    if isinstance(rewards, Mapping):
        wanted = dict(rewards)
    else:
        judged = each_within(
            rewards, list(_waiting(session)), timeout_s=REWARD_TIMEOUT_S, name="rewards"
        )
        wanted = {episode.episode_id: reward for episode, reward in judged if reward is not None}
    done = EpisodesRescored(changes=[], unchanged=[], refused={})
    for body in list(_requests(wanted)):  # all are checked before the first is sent
        part = session.episodes_rescore(body)
        done = EpisodesRescored(
            changes=done.changes + part.changes,
            unchanged=done.unchanged + part.unchanged,
            refused=done.refused | part.refused,
        )
    if done.refused:
        first, why = next(iter(done.refused.items()))
        log.warning("%d episodes keep their reward; %s: %s.", len(done.refused), first, why)
    return done


def _requests(wanted: Mapping[str, float]) -> Iterator[EpisodesRescore]:
    left = iter(wanted.items())
    while some := dict(islice(left, MAX_RESCORED)):
        try:
            yield EpisodesRescore(rewards=some)
        except ValidationError as failure:
            wrong = failure.errors()[0]
            raise InvalidReward(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from failure


def _waiting(session: SessionApi) -> Iterator[EpisodeView]:
    """Those that wait to be trained, as the server was told of them: seconds after their end."""

    def read(cursor: str | None) -> EpisodeList:
        return session.read(
            "/episodes", EpisodeList, fate="waiting", sort="oldest", limit=PAGE, cursor=cursor
        )

    for page in pages(read):
        yield from page.items
