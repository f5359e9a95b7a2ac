"""The internal route of batches: ``GET /batches/{name}``, forwarded by the control plane, streamed
as JSON lines.
"""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gpu_runtime.episodes.batch_export import batch_lines
from gpu_runtime.episodes.batches import Batches
from gpu_runtime.gateway.http import check_relay_key
from gpu_runtime.refusals import NotFound
from tinkerscript.wire.runtime import Assignment


class BatchRoutes:
    """One route. A name is a step's number or what the event of a refusal calls the batch."""

    def __init__(self, batches: Batches, assignment: Assignment) -> None:
        self._batches, self._assignment = batches, assignment

    def routes(self) -> list[Route]:
        """The routes, for the app."""
        return [Route("/batches/{name}", self.batch, methods=["GET"])]

    async def batch(self, request: Request) -> Response:
        """``GET /batches/{name}``. Lines are made in a thread while they are sent."""
        check_relay_key(request, self._assignment.relay_key)
        name = request.path_params["name"]
        kept = await self._batches.kept(name)
        if kept is None:
            raise NotFound(
                f"this session has no batch {name}",
                hint="A step's number, or the batch that a step_refused event names.",
            )
        return StreamingResponse(
            batch_lines(kept, self._assignment), media_type="application/x-ndjson"
        )
