"""Every route of the REST API: method, path, view, who may, what it answers."""

from django.urls import path, re_path

from api import errors
from api.auth import Door, LeaseDoor
from api.contract import Api
from api.views import account, audit, batches, checkpoints, episodes, pages, projects, runtime, sessions, webhooks
from tinkerscript.wire.account import AccountView, KeyCreated, KeyList, ProjectView, Scope, SignInList
from tinkerscript.wire.audit import AuditPage
from tinkerscript.wire.calls import EpisodeCalls
from tinkerscript.wire.checkpoints import CheckpointDownload, CheckpointList, CheckpointView
from tinkerscript.wire.episodes import EpisodeBegun, EpisodeExport, EpisodeList, EpisodeView
from tinkerscript.wire.events import EventPage
from tinkerscript.wire.projects import MemberList, MemberView, ProjectList, UsageList
from tinkerscript.wire.runtime import Assignment, Orders, UploadCommitted, UploadPlan
from tinkerscript.wire.sessions import (
    Accounting,
    BaseModelList,
    SessionList,
    SessionLogs,
    SessionPlan,
    SessionView,
)
from tinkerscript.wire.webhooks import DeliveryList, WebhookCreated, WebhookList

anyone = Door(None)
read, write = Door(Scope.SESSIONS_READ), Door(Scope.SESSIONS_WRITE)
play = Door(Scope.EPISODES)
fetch = Door(Scope.CHECKPOINTS_READ)
# For a key only as an admin; for everybody in the project in person, as far as their role allows (console.users).
people = Door(Scope.ADMIN, person_scope=Scope.SESSIONS_READ)
own = Door(Scope.ADMIN)
person = Door(None, people_only=True)
lease = LeaseDoor()

SESSION = "/sessions/{session_id}"
CHECKPOINT = SESSION + "/checkpoints/{checkpoint_id}"
EPISODE = SESSION + "/episodes/{episode_id}"
INVITATION = "/invitations/{member_id}"

api = Api()
route = api.route

route("GET", "/account", account.account_get, anyone, AccountView)
route("GET", "/account/sign-ins", account.sign_in_list, person, SignInList)
route("GET", "/keys", account.key_list, people, KeyList)
route("POST", "/keys", account.key_create, people, KeyCreated, status=201, once=True, secret=True)
route("DELETE", "/keys/{key_id}", account.key_revoke, people, None, status=204)

route("GET", "/projects", projects.project_list, anyone, ProjectList)
route("POST", "/projects", projects.project_create, people, ProjectView, status=201, once=True)
route("PATCH", "/projects/{project_id}", projects.project_rename, own, ProjectView)
route("GET", "/members", projects.member_list, people, MemberList)
route("POST", "/members", projects.member_invite, own, MemberView, status=201, once=True)
route("PATCH", "/members/{member_id}", projects.member_update, own, MemberView)
route("DELETE", "/members/{member_id}", projects.member_remove, people, None, status=204)
# Of another project than the one that the caller works in: the services write them down there.
route("POST", INVITATION + "/accept", projects.invitation_accept, person, ProjectView, once=True, audit=False)
route("DELETE", INVITATION, projects.invitation_decline, person, None, status=204, audit=False)
route("GET", "/usage", projects.usage_list, read, UsageList)
route("GET", "/audit", audit.audit_list, own, AuditPage)
route("GET", "/webhooks", webhooks.webhook_list, own, WebhookList)
route("POST", "/webhooks", webhooks.webhook_create, own, WebhookCreated, status=201, once=True, secret=True)
route("DELETE", "/webhooks/{webhook_id}", webhooks.webhook_delete, own, None, status=204)
route("GET", "/webhooks/{webhook_id}/deliveries", webhooks.delivery_list, own, DeliveryList)

route("GET", "/base-models", sessions.base_model_list, read, BaseModelList)
route("GET", "/sessions", sessions.session_list, read, SessionList)
route("POST", "/sessions", sessions.session_create, write, SessionView, status=201, once=True)
route("POST", "/sessions/dry-run", sessions.session_dry_run, write, SessionPlan, audit=False)
route("GET", SESSION, sessions.session_get, read, SessionView)
route("DELETE", SESSION, sessions.session_delete, write, None, status=204)
route("POST", SESSION + "/stop", sessions.session_stop, write, SessionView, once=True)
route("POST", SESSION + "/suspend", sessions.session_suspend, write, SessionView, once=True)
route("POST", SESSION + "/resume", sessions.session_resume, write, SessionView, once=True)
route("GET", SESSION + "/logs", sessions.session_logs, read, SessionLogs)
route("GET", SESSION + "/events", sessions.event_list, read, EventPage)

route("POST", SESSION + "/checkpoints", checkpoints.checkpoint_create, write, CheckpointView, status=202, once=True)
route("GET", SESSION + "/checkpoints", checkpoints.checkpoint_list, fetch, CheckpointList)
route("GET", CHECKPOINT, checkpoints.checkpoint_get, fetch, CheckpointView)
route("PATCH", CHECKPOINT, checkpoints.checkpoint_update, write, CheckpointView)
route("DELETE", CHECKPOINT, checkpoints.checkpoint_delete, write, None, status=204)
route("GET", CHECKPOINT + "/download", checkpoints.checkpoint_download, fetch, CheckpointDownload, audit=True)

# Checked here, answered by the session's gateway, which also keeps them from happening twice.
route("POST", SESSION + "/episodes", episodes.episode_begin, play, EpisodeBegun, status=201)
route("GET", SESSION + "/episodes", episodes.episode_list, read, EpisodeList)
route("GET", SESSION + "/episodes/export", episodes.episode_export, read, EpisodeExport, audit=True)
route("GET", EPISODE, episodes.episode_get, read, EpisodeView)
route("GET", EPISODE + "/calls", episodes.episode_calls, read, EpisodeCalls)
route("POST", EPISODE + "/end", episodes.episode_end, play, EpisodeView)
route("POST", EPISODE + "/abandon", episodes.episode_abandon, play, EpisodeView)
route("POST", EPISODE + "/heartbeat", episodes.episode_heartbeat, play, EpisodeView)
route("GET", SESSION + "/accounting", episodes.accounting_get, read, Accounting)

# Tokens, so from the gateway too: one file of JSON lines (tinkerscript.wire.batches).
route("GET", SESSION + "/batches/{batch}", batches.batch_get, read, None)

# The lease side: for runtimes, not in the OpenAPI document.
route("POST", "/runtime/register", runtime.runtime_register, lease, Assignment)
route("POST", "/runtime/heartbeat", runtime.runtime_heartbeat, lease, Orders)
route("POST", "/runtime/report", runtime.runtime_report, lease, None, status=204)
route("POST", "/runtime/fail", runtime.runtime_fail, lease, None, status=204)
route("POST", "/runtime/uploads", runtime.upload_open, lease, UploadPlan)
route("POST", "/runtime/uploads/{upload_id}/commit", runtime.upload_commit, lease, UploadCommitted)

api.close()

urlpatterns = [
    path("v1/", api.urls),
    path("healthz", pages.healthz),
    path("readyz", pages.readyz),
    path("metrics", pages.metrics),
    path("openapi.json", pages.openapi),
    re_path(r"^(?:v1|openai|ws|_allauth|static)(?:/|$)", errors.not_found),
    re_path(r"^", pages.single_page),
]
