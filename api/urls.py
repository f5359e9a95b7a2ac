"""Every route of the REST API: method, path, view, who may, what it answers."""

from django.urls import path, re_path

from api import errors
from api.auth import Door, LeaseDoor
from api.contract import Api
from api.views import account, checkpoints, episodes, pages, runtime, sessions
from tinkerscript.wire.account import AccountView, KeyCreated, KeyList, Scope
from tinkerscript.wire.checkpoints import CheckpointDownload, CheckpointList, CheckpointView
from tinkerscript.wire.episodes import EpisodeBegun, EpisodeList, EpisodeView
from tinkerscript.wire.events import EventPage
from tinkerscript.wire.runtime import Assignment, Orders, UploadCommitted, UploadPlan
from tinkerscript.wire.sessions import Accounting, BaseModelList, SessionList, SessionView

anyone = Door(None)
read, write = Door(Scope.SESSIONS_READ), Door(Scope.SESSIONS_WRITE)
play = Door(Scope.EPISODES)
fetch = Door(Scope.CHECKPOINTS_READ)
# A key makes keys only as an admin; a person in the console makes what their role allows (console.users.services).
see_keys = make_keys = Door(Scope.ADMIN, person_scope=Scope.SESSIONS_READ)
end_keys = Door(Scope.ADMIN, person_scope=Scope.SESSIONS_WRITE)
lease = LeaseDoor()

SESSION = "/sessions/{session_id}"
CHECKPOINT = SESSION + "/checkpoints/{checkpoint_id}"
EPISODE = SESSION + "/episodes/{episode_id}"

api = Api()
route = api.route

route("GET", "/account", account.account_get, anyone, AccountView)
route("GET", "/keys", account.key_list, see_keys, KeyList)
route("POST", "/keys", account.key_create, make_keys, KeyCreated, status=201, once=True, secret=True)
route("DELETE", "/keys/{key_id}", account.key_revoke, end_keys, None, status=204)

route("GET", "/base-models", sessions.base_model_list, read, BaseModelList)
route("GET", "/sessions", sessions.session_list, read, SessionList)
route("POST", "/sessions", sessions.session_create, write, SessionView, status=201, once=True)
route("GET", SESSION, sessions.session_get, read, SessionView)
route("POST", SESSION + "/stop", sessions.session_stop, write, SessionView, once=True)
route("GET", SESSION + "/events", sessions.event_list, read, EventPage)

route("POST", SESSION + "/checkpoints", checkpoints.checkpoint_create, write, CheckpointView, status=202, once=True)
route("GET", SESSION + "/checkpoints", checkpoints.checkpoint_list, fetch, CheckpointList)
route("GET", CHECKPOINT, checkpoints.checkpoint_get, fetch, CheckpointView)
route("GET", CHECKPOINT + "/download", checkpoints.checkpoint_download, fetch, CheckpointDownload)

# Checked here, answered by the session's gateway, which also keeps them from happening twice.
route("POST", SESSION + "/episodes", episodes.episode_begin, play, EpisodeBegun, status=201)
route("GET", SESSION + "/episodes", episodes.episode_list, read, EpisodeList)
route("GET", EPISODE, episodes.episode_get, read, EpisodeView)
route("POST", EPISODE + "/end", episodes.episode_end, play, EpisodeView)
route("POST", EPISODE + "/abandon", episodes.episode_abandon, play, EpisodeView)
route("POST", EPISODE + "/heartbeat", episodes.episode_heartbeat, play, EpisodeView)
route("GET", SESSION + "/accounting", episodes.accounting_get, read, Accounting)

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
