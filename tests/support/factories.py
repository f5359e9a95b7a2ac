"""Rows for tests, made the way the product makes them wherever it can."""

from django.utils import timezone

from console.live.services import event_record
from console.sessions.alerts.models import MetricRule
from console.sessions.models import Alert, Checkpoint, EpisodeRecord, Session
from console.sessions.runtime.leases import lease_issue
from console.sessions.saved_views.models import SavedView
from console.sessions.services import session_create
from console.sessions.sharing.services import share_create
from console.sessions.tasks.models import QueuedTask
from console.tinker.models import TinkerModel, TinkerRuntime, TinkerSession
from console.users.keys import key_create
from console.users.members import member_invite
from console.users.models import ApiKey, Membership, Project, User
from console.users.services import user_create
from console.webhooks.services import webhook_create
from tinkerscript.wire.account import Role, Scope
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionCreate, SessionState
from tinkerscript.wire.tinker.messages import LoraOptions
from tinkerscript.wire.webhooks import WebhookTopic

BASE_MODEL = "SmolLM2-135M-Instruct"
PASSWORD = "correct horse battery"
EVERY_SCOPE = [Scope.SESSIONS_READ, Scope.SESSIONS_WRITE, Scope.EPISODES, Scope.CHECKPOINTS_READ]


def user_make(name: str) -> User:
    """A user with a project of their own and PASSWORD."""
    return user_create(email=f"{name}@example.com", password=PASSWORD)


def member_make(project: Project, name: str, role: Role) -> User:
    """A user who is in another user's project too. Their own project comes first."""
    user = user_make(name)
    Membership.objects.create(project=project, user=user, role=role)
    return user


def key_make(project: Project, user: User, scopes: list[Scope] | None = None) -> str:
    """The secret of a new key."""
    return key_create(project=project, user=user, name="test", scopes=scopes or EVERY_SCOPE)[1]


def session_make(
    project: Project, *, config: SessionConfig | None = None, **fields: object
) -> Session:
    """A session; ``fields`` (state, desired, address...) are set as they are, past the table of
    moves.
    """
    body = SessionCreate(base_model=BASE_MODEL, config=config or SessionConfig())
    session = session_create(project=project, body=body)
    if fields:
        Session.objects.filter(id=session.id).update(**fields)
        session.refresh_from_db()
    return session


def runtime_make(
    project: Project, state: SessionState = SessionState.READY, **fields: object
) -> tuple[Session, str]:
    """A session that has a runtime, and the token of its lease."""
    now = timezone.now()
    fields = {
        "launch_handle": {"launch": "test"},
        "launcher": "fake",
        "progress_at": now,
        "state_since": now,
    } | fields
    session = session_make(project, state=state, **fields)
    token = lease_issue(session=session)
    return session, token


def ids_make(project: Project, user: User) -> dict[str, str]:
    """Something of the project of every kind that a path can name, in a session that has ended."""
    session = session_make(project, state=SessionState.STOPPED)
    checkpoint = Checkpoint.objects.create(session=session, kind="model")
    episode = EpisodeRecord.objects.create(
        session=session,
        episode_id=f"ep_{session.id}",
        seq=1,
        fate="trained",
        trained_step=734_501,
        begun_at=0,
    )
    Alert.objects.create(session=session, rule="stuck", text=f"of {session.id}")
    task = QueuedTask.objects.create(session=session, name="of a test", row=1, tries=1, judged=True)
    refused = f"batch-of-{session.id}"
    event_record(
        session_id=session.id,
        kind=EventKind.EVENT,
        data={"name": "step_refused"},
        key=f"refused {refused}",
    )
    key_make(project, user)
    key = ApiKey.objects.filter(project=project).latest("created_at")
    invited = member_invite(
        project=project, email=f"invited-by-{user.email}", role=Role.MEMBER, by=user
    )
    webhook = webhook_create(
        project=project, url="https://example.com/hook", topics=list(WebhookTopic)
    )
    client = TinkerSession.objects.create(project=project)
    TinkerRuntime.objects.create(
        tinker_session=client, base_model=session.base_model, session=session
    )
    model = TinkerModel.objects.create(
        id=f"{client.id}:train:0",
        tinker_session=client,
        session=session,
        number=0,
        base_model=session.base_model,
        lora=LoraOptions(rank=8).model_dump(),
    )
    return {
        "session_id": session.id,
        "model_id": model.id,
        "checkpoint_id": checkpoint.id,
        "episode_id": episode.episode_id,
        "task_id": task.task_id,
        "step": "734501",
        "key_id": key.id,
        "project_id": project.id,
        "member_id": invited.member_id,
        "webhook_id": webhook.id,
        "rule_id": MetricRule.objects.create(
            project=project, name="kl", metric="kl_engine", above=True, value=1, steps=3
        ).id,
        "view_id": SavedView.objects.create(
            project=project, name=f"of {session.id}", address="x=time"
        ).id,
        "share_id": share_create(
            project=project, session_id=session.id, person=user, expires_in_days=1
        )[0].id,
        "batch": refused,
    }
