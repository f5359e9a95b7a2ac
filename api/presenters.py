"""Rows as the wire shows them."""

from collections.abc import Iterable

from console.sessions.models import Checkpoint, Session
from console.sessions.selectors import queue_position
from console.users.models import ApiKey, Membership, User
from tinkerscript.wire.account import AccountView, KeyCreated, KeyView, ProjectView
from tinkerscript.wire.checkpoints import CheckpointView
from tinkerscript.wire.sessions import Accounting, Failure, SessionView


def account_view(user: User, memberships: Iterable[Membership]) -> AccountView:
    """A user and where they may work."""
    projects = [
        ProjectView(id=membership.project.id, name=membership.project.name, role=membership.role)
        for membership in memberships
    ]
    return AccountView(email=user.email, projects=projects)


def key_view(key: ApiKey) -> KeyView:
    """A key without its secret."""
    return KeyView.model_validate(key, from_attributes=True)


def key_created(key: ApiKey, secret: str) -> KeyCreated:
    """A new key: the only time that its secret is shown."""
    return KeyCreated(**key_view(key).model_dump(), secret=secret)


def session_view(session: Session) -> SessionView:
    """A session as its project may see it: nothing of lease, launcher or address."""
    return SessionView(
        id=session.id,
        project_id=session.project_id,
        name=session.name or session.id,
        base_model=session.base_model,
        state=session.state,
        phase=session.phase,
        queue_position=queue_position(session=session),
        failure=Failure.model_validate(session.failure) if session.failure else None,
        config=session.config,
        policy_version=session.policy_version,
        reward_mean=session.reward_mean,
        accounting=Accounting.model_validate(session.accounting),
        restarts=session.restarts,
        created_at=session.created_at,
        updated_at=session.updated_at,
    )


def checkpoint_view(checkpoint: Checkpoint) -> CheckpointView:
    """A checkpoint in any state."""
    sizes = [file["size_bytes"] for file in checkpoint.files]
    return CheckpointView(
        id=checkpoint.id,
        session_id=checkpoint.session_id,
        kind=checkpoint.kind,
        state=checkpoint.state,
        step=checkpoint.step,
        size_bytes=sum(sizes) if sizes else None,
        failure=checkpoint.failure,
        created_at=checkpoint.created_at,
        committed_at=checkpoint.committed_at,
    )
