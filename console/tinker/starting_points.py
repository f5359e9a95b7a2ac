"""What a client names to begin a session: a base model, or something that its project has
trained."""

from console.errors import InvalidRequest, NotFound
from console.sessions.models import Checkpoint
from console.sessions.starting_points import StartingPoint, starting_point_of
from console.tinker.checkpoints import checkpoints_of
from console.tinker.models import TinkerCheckpoint
from console.users.models import Project
from tinkerscript.wire.sessions import SessionKind
from tinkerscript.wire.tinker.ids import TINKER_PATH

MARKS = ("ckp_", "tinker://")  # any other name is one of the catalogue


def starting_point(*, project: Project, name: str) -> StartingPoint:
    """Where a session begins whose base model is given as ``name``. Of checkpoints the project's
    own alone are found.

    Raises InvalidRequest for what no session can begin from, Conflict for what is not committed,
    NotFound.
    """
    if not name.startswith(MARKS):
        return StartingPoint(name)
    if name.startswith("tinker://"):
        return _of_client(_by_path(project, name))
    found = (
        Checkpoint.objects.filter(session__project=project, id=name)
        .select_related("session")
        .first()
    )
    if found is None:
        raise NotFound(
            f"There is no checkpoint {name[:80]} in this project.",
            hint="GET /v1/sessions/{id}/checkpoints.",
        )
    if found.session.kind == SessionKind.TINKER:
        named = checkpoints_of(project=project).filter(checkpoint=found).first()
        if named is not None:
            return _of_client(named)
    return starting_point_of(found)


def _by_path(project: Project, path: str) -> TinkerCheckpoint:
    parts = TINKER_PATH.fullmatch(path)
    if parts is None:
        raise InvalidRequest(
            f"{path[:200]!r} is no path of the form tinker://MODEL/weights|sampler_weights/NAME."
        )
    found = checkpoints_of(project=project, model_id=parts["model_id"])
    named = found.filter(segment=parts["segment"], name=parts["name"]).first()
    if named is None:
        raise NotFound(
            f"There is no checkpoint {path} in this project.",
            hint="It may have expired, or not be written yet.",
        )
    return named


def _of_client(named: TinkerCheckpoint) -> StartingPoint:
    if named.segment == "external_weights":
        raise InvalidRequest(
            f"{named.path} is files for other programs, which this server does not train.",
            hint="Save it with save_state or save_weights_for_sampler, and name the path that this "
            "returns.",
        )
    return starting_point_of(named.checkpoint, tinker_path=named.path)
