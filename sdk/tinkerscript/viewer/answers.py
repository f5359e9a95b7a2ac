"""The requests of the console's pages, served from an exported run: those of the REST API that read
one run.
"""

import re
from collections.abc import Callable
from typing import Any

from tinkerscript.errors import Conflict, InvalidRequest, NotFound
from tinkerscript.wire.account import AccountView, ProjectView, Role
from tinkerscript.wire.reading.token_pages import outline, timelines_page
from tinkerscript.wire.server import ServerView
from tinkerscript.wire.sessions import SessionLogs
from tinkerscript.wire.version import VERSION

from .facets import episode_facets, episodes_nearest
from .lists import (
    Asked,
    episode_neighbours,
    episode_page,
    event_page,
    metric_columns,
    number,
    one,
    step_view,
)
from .run_folder import Json, RunFolder

MAX_LOG_LINES = 5000


class Answers:
    """Every answer comes from the folder. Raises NotFound for what no exported run has."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        run = folder.run
        self._whole: dict[str, Json] = {
            "": _plain(run.session),
            "/usage": _plain(run.usage),
            "/checkpoints": _plain(run.checkpoints),
            "/tasks": _plain(run.tasks),
            "/resources": _plain(run.resources),
            "/accounting": _plain(run.session.accounting),
            "/alerts": {"items": [], "unread": 0, "next_cursor": None},
        }
        self._computed: list[tuple[str, Callable[..., Json]]] = [
            (r"/logs", self._logs),
            (r"/events", lambda asked: event_page(folder, asked)),
            (r"/metrics", lambda asked: metric_columns(folder, asked)),
            (r"/episodes", lambda asked: episode_page(folder, asked)),
            (r"/episodes/facets", lambda asked: episode_facets(folder, asked)),
            (r"/episodes/nearest", lambda asked: episodes_nearest(folder, asked)),
            (r"/episodes/([^/]+)", lambda asked, episode_id: self._episode(episode_id)),
            (
                r"/episodes/([^/]+)/neighbours",
                lambda asked, episode_id: episode_neighbours(folder, asked, episode_id),
            ),
            (r"/episodes/([^/]+)/timelines", self._timelines),
            (r"/steps/([0-9]{1,9})", lambda asked, step: step_view(folder, int(step))),
        ]

    def get(self, path: str, asked: Asked) -> Json:
        """The JSON of ``GET path``. Raises NotFound, InvalidRequest, Conflict."""
        session = self._folder.run.session
        if path == "/v1/account":
            # A viewer of a project may change nothing: the pages show no button that would.
            project = ProjectView(id=session.project_id, name="Exported run", role=Role.VIEWER)
            return _plain(AccountView(email="", projects=[project]))
        if path == "/v1/server":
            return _plain(ServerView(version=VERSION, minimum_client=VERSION, capabilities=[]))
        if path == "/v1/sessions":
            return {"items": [self._whole[""]], "next_cursor": None}
        below = path.removeprefix(f"/v1/sessions/{session.id}")
        if below == path or (below and not below.startswith("/")):
            raise NotFound(
                "An exported run has nothing of the kind.", hint="Ask the server that it came from."
            )
        if below in self._whole:
            return self._whole[below]
        for pattern, answer in self._computed:
            if matched := re.fullmatch(pattern, below):
                return answer(asked, *matched.groups())
        raise NotFound(
            "An exported run has nothing of the kind.", hint="Ask the server that it came from."
        )

    def _logs(self, asked: Asked) -> Json:
        """After the place that a page ended with comes nothing: no runtime writes any more."""
        lines, containing = self._folder.run.logs.lines, one(asked, "q").lower()
        found = (
            [] if one(asked, "after") else [line for line in lines if containing in line.lower()]
        )
        most = number(asked, "lines", 200, least=1, most=MAX_LOG_LINES)
        return _plain(SessionLogs(lines=found[-most:], cursor=self._folder.run.logs.cursor))

    def _episode(self, episode_id: str) -> Json:
        if episode_id not in self._folder.by_id:
            raise NotFound("There is no such episode in this session.")
        return self._folder.by_id[episode_id]

    def _timelines(self, asked: Asked, episode_id: str) -> Json:
        episode = self._episode(episode_id)
        start = number(asked, "cursor", 0)
        limit = number(asked, "limit", 20_000, least=1, most=100_000)
        document = self._folder.document(episode_id)
        if document is None:
            raise Conflict("The tokens of this episode were not stored when the run was exported.")
        advantages = self._folder.documents[episode_id].advantages or episode["advantage"]
        try:
            runs, more = timelines_page(document, advantages=advantages, start=start, limit=limit)
            whole = {"report": document["report"], "calls": document["calls"]}
            first = whole | {"outline": outline(document, advantages)} if start == 0 else {}
            output = document["output"] or {}
        except (KeyError, TypeError, AttributeError, ValueError) as failure:
            raise InvalidRequest(
                "The document of this episode is damaged.", hint="Export the run again."
            ) from failure
        reported = {name: output.get(name) for name in ("rewards_by_call", "metadata")}
        page: Json = {
            "episode": episode | reported,
            "timelines": runs,
            "next_cursor": None if more is None else str(more),
        }
        return {"report": None, "calls": [], "outline": None} | first | page


def _plain(view: Any) -> Json:
    plain: Json = view.model_dump(mode="json")
    return plain
