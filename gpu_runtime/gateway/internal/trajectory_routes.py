"""The internal route of an episode's tokens, until they are in the object store: ``GET
/episodes/{id}/timelines``.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.gateway.http import check_relay_key
from gpu_runtime.journal.records import CallRecord, EpisodeRecord
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.trajectories.advantages import step_advantages
from gpu_runtime.trajectories.documents import episode_document
from gpu_runtime.trajectories.token_texts import TokenTexts
from tinkerscript.wire.episodes import EpisodeView
from tinkerscript.wire.runtime import Assignment


class TrajectoryRoutes:
    """One route. The document is made anew for each request, in a thread."""

    def __init__(self, episodes: Episodes, renderer: Renderer, assignment: Assignment) -> None:
        self._episodes, self._assignment = episodes, assignment
        self._texts = TokenTexts(renderer)

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        return [Route("/episodes/{episode_id}/timelines", self.timelines, methods=["GET"])]

    async def timelines(self, request: Request) -> Response:
        """``GET /episodes/{id}/timelines``: the episode, its whole document, and the advantages of
        its calls.
        """
        check_relay_key(request, self._assignment.relay_key)
        episode_id = request.path_params["episode_id"]
        # what is known of an open one alone, such as its warning
        shown = await self._episodes.view(episode_id)
        record, calls = await self._episodes.recorded(episode_id)
        batches, step = self._episodes.batches, record.trained_step
        advantages = None
        if step is not None and (batch := await batches.batch(step)) is not None:
            of_step = await asyncio.to_thread(step_advantages, batch, await batches.config_at(step))
            advantages = of_step.get(record.id)
        body = await asyncio.to_thread(
            self._body, record.view(warning=shown.warning), record, calls, advantages
        )
        return Response(body, media_type="application/json")

    def _body(
        self,
        view: EpisodeView,
        record: EpisodeRecord,
        calls: Sequence[CallRecord],
        advantages: dict[str, float] | None,
    ) -> str:
        body: dict[str, Any] = {
            "episode": view.model_dump(mode="json"),
            "document": episode_document(record, calls, self._texts),
            "advantages": advantages,
        }
        return json.dumps(body)
