"""The table of routes of the REST API: method, path, view, caller, and what holds for it."""

from typing import Any

from api.rest.permissions import RequireLease, RequireScope, RequireShare
from api.rest.route import RouteTable
from api.views import (
    account,
    alerts,
    checkpoints,
    episodes,
    kinds,
    projects,
    runtime,
    server,
    sessions,
    sharing,
    tasks,
    trajectories,
)
from console.server.request_limits import MAX_LARGE_BODY_BYTES as LARGE
from console.sessions.runtime import episode_reports, leases, uploads
from console.tinker import checkpoints as named
from console.tinker import runtimes, work
from tinkerscript.wire.account import Scope
from tinkerscript.wire.episodes import (
    EpisodeBegun,
    EpisodeList,
    EpisodesHeartbeatResult,
    EpisodesRescored,
    EpisodeView,
)
from tinkerscript.wire.reading.calls import EpisodeCalls
from tinkerscript.wire.reading.trajectories import EpisodeTimelines
from tinkerscript.wire.sessions import Accounting
from tinkerscript.wire.training.changes import ConfigChange

any_caller = RequireScope(None)
signed_in = RequireScope(None, people_only=True)
sessions_read = RequireScope(Scope.SESSIONS_READ)
sessions_write = RequireScope(Scope.SESSIONS_WRITE)
episodes_run = RequireScope(Scope.EPISODES)
checkpoints_read = RequireScope(Scope.CHECKPOINTS_READ)
admin = RequireScope(Scope.ADMIN)
# A key needs the admin scope; a signed-in person may do it as far as their role allows
# (console.users).
admin_key_or_person = RequireScope(Scope.ADMIN, person_scope=Scope.SESSIONS_READ)
person_writes = RequireScope(Scope.SESSIONS_WRITE, people_only=True)
lease = RequireLease()
link = RequireShare()
made: dict[str, Any] = {"status": 201, "once": True}  # of what makes something

SESSION = "/sessions/{session_id}"
CHECKPOINT = SESSION + "/checkpoints/{checkpoint_id}"
EPISODE = SESSION + "/episodes/{episode_id}"
SERVING_KEYS = SESSION + "/serving-keys"
TASK = SESSION + "/tasks/{task_id}"
INVITATION = "/invitations/{member_id}"

api = RouteTable("/v1")
route = api.route

route("GET", "/server", server.server_get, any_caller)
route("GET", "/account", account.account_get, any_caller)
route("GET", "/account/sign-ins", account.sign_in_list, signed_in)
route("GET", "/keys", account.key_list, admin_key_or_person)
route("POST", "/keys", account.key_create, admin_key_or_person, **made, secret=True)
route("DELETE", "/keys/{key_id}", account.key_revoke, admin_key_or_person)

route("GET", "/projects", projects.project_list, any_caller)
route("POST", "/projects", projects.project_create, admin_key_or_person, **made)
route("PATCH", "/projects/{project_id}", projects.project_rename, admin)
route("GET", "/members", projects.member_list, admin_key_or_person)
route("POST", "/members", projects.member_invite, admin, **made)
route("PATCH", "/members/{member_id}", projects.member_update, admin)
route("DELETE", "/members/{member_id}", projects.member_remove, admin_key_or_person)
# These concern another project than the caller's: the services write them to the audit log of that
# one.
route("POST", INVITATION + "/accept", projects.invitation_accept, signed_in, once=True, audit=False)
route("DELETE", INVITATION, projects.invitation_decline, signed_in, audit=False)
route("GET", "/usage", projects.usage_list, sessions_read)
route("GET", "/usage/days", projects.usage_days, sessions_read)
route("GET", "/capacity", server.capacity_get, sessions_read)
route("GET", "/alerts", alerts.alert_list, sessions_read)
route("POST", "/alerts/read", alerts.alerts_read, signed_in, audit=False)
route("GET", "/alert-rules", alerts.metric_rule_list, sessions_read)
route("POST", "/alert-rules", alerts.metric_rule_create, sessions_write, **made)
route("PATCH", "/alert-rules/{rule_id}", alerts.metric_rule_update, sessions_write)
route("DELETE", "/alert-rules/{rule_id}", alerts.metric_rule_delete, sessions_write)
route("GET", "/saved-views", sharing.saved_view_list, sessions_read)
route("POST", "/saved-views", sharing.saved_view_create, sessions_write, **made)
route("PATCH", "/saved-views/{view_id}", sharing.saved_view_update, sessions_write)
route("DELETE", "/saved-views/{view_id}", sharing.saved_view_delete, sessions_write)
route("GET", "/audit", projects.audit_list, admin)
route("GET", "/webhooks", projects.webhook_list, admin)
route("POST", "/webhooks", projects.webhook_create, admin, **made, secret=True)
route("DELETE", "/webhooks/{webhook_id}", projects.webhook_delete, admin)
route("GET", "/webhooks/{webhook_id}/deliveries", projects.delivery_list, admin)

route("GET", "/base-models", sessions.base_model_list, sessions_read)
route("GET", "/places", sessions.place_list, sessions_read)
route("GET", "/sessions", sessions.session_list, sessions_read)
route("POST", "/sessions", sessions.session_create, sessions_write, **made)
route("POST", "/sessions/dry-run", sessions.session_dry_run, sessions_write, audit=False)
route("GET", SESSION, sessions.session_get, sessions_read)
route("PATCH", SESSION, sessions.session_update, sessions_write)
route("DELETE", SESSION, sessions.session_delete, sessions_write)
route("POST", SESSION + "/stop", sessions.session_stop, sessions_write, once=True)
route("POST", SESSION + "/suspend", sessions.session_suspend, sessions_write, once=True)
route("POST", SESSION + "/resume", sessions.session_resume, sessions_write, once=True)
route("GET", SESSION + "/logs", sessions.session_logs, sessions_read)
route("GET", SESSION + "/events", sessions.event_list, sessions_read)
route("GET", SESSION + "/metrics", sessions.metric_columns, sessions_read)
route("GET", SESSION + "/resources", sessions.resource_columns, sessions_read)
route("GET", SESSION + "/usage", projects.session_usage, sessions_read)
route("GET", SESSION + "/alerts", alerts.session_alert_list, sessions_read)
route(
    "POST", SESSION + "/evaluations", sessions.evaluation_create, episodes_run, **made, audit=False
)

# A model that is served and not trained. Its key is signed anew for each request and kept nowhere.
route("POST", "/serving", kinds.serving_create, sessions_write, **made)
route("POST", SERVING_KEYS, kinds.serving_key_create, episodes_run, **made, secret=True)

# Of a Tinker client's checkpoint. Who has an API key sends that one.
route(
    "POST",
    CHECKPOINT + "/serving-keys",
    kinds.checkpoint_key_create,
    person_writes,
    **made,
    secret=True,
)

# What the console asks of others for the playground. Its body holds a key of theirs, so the view
# writes its own entry of the audit log.
route("POST", "/outside-calls", kinds.outside_call, episodes_run, limit_bytes=LARGE)

route(
    "POST",
    SESSION + "/checkpoints",
    checkpoints.checkpoint_create,
    sessions_write,
    status=202,
    once=True,
)
route("GET", SESSION + "/checkpoints", checkpoints.checkpoint_list, checkpoints_read)
route("GET", CHECKPOINT, checkpoints.checkpoint_get, checkpoints_read)
route("PATCH", CHECKPOINT, checkpoints.checkpoint_update, sessions_write)
route("DELETE", CHECKPOINT, checkpoints.checkpoint_delete, sessions_write)
route("GET", CHECKPOINT + "/provenance", checkpoints.checkpoint_provenance, checkpoints_read)
route("POST", CHECKPOINT + "/publish", checkpoints.checkpoint_publish, sessions_write)
route("DELETE", CHECKPOINT + "/publish", checkpoints.checkpoint_unpublish, sessions_write)
route(
    "GET", CHECKPOINT + "/download", checkpoints.checkpoint_download, checkpoints_read, audit=True
)

# Checked here, then forwarded to the session's gateway, which also makes a repeated request
# harmless.
route("POST", SESSION + "/episodes", episodes.episode_begin, episodes_run, EpisodeBegun, status=201)
route("GET", SESSION + "/episodes", trajectories.episode_list, sessions_read, EpisodeList)
route("GET", SESSION + "/episodes/facets", trajectories.episode_facets, sessions_read)
route("GET", SESSION + "/episodes/nearest", trajectories.episodes_nearest, sessions_read)
route("GET", SESSION + "/episodes/export", episodes.episode_export, sessions_read, audit=True)
route(
    "GET",
    SESSION + "/episodes/documents",
    trajectories.episode_documents,
    sessions_read,
    audit=True,
)
route("GET", EPISODE, trajectories.episode_get, sessions_read, EpisodeView)
route("DELETE", EPISODE, trajectories.episode_erase, sessions_write, status=204)
route("PATCH", EPISODE + "/annotation", trajectories.episode_annotate, sessions_write)
route("GET", EPISODE + "/calls", trajectories.episode_calls, sessions_read, EpisodeCalls)
route("GET", EPISODE + "/neighbours", trajectories.episode_neighbours, sessions_read)
route(
    "GET", EPISODE + "/timelines", trajectories.episode_timelines, sessions_read, EpisodeTimelines
)
route("POST", EPISODE + "/end", episodes.episode_end, episodes_run, EpisodeView, limit_bytes=LARGE)
route("POST", EPISODE + "/abandon", episodes.episode_abandon, episodes_run, EpisodeView)
route("POST", EPISODE + "/heartbeat", episodes.episode_heartbeat, episodes_run, EpisodeView)
route(
    "POST",
    SESSION + "/heartbeats",
    episodes.episodes_heartbeat,
    episodes_run,
    EpisodesHeartbeatResult,
)
route("POST", SESSION + "/rescore", episodes.episodes_rescore, episodes_run, EpisodesRescored)
route("PATCH", SESSION + "/config", episodes.session_config_update, sessions_write, ConfigChange)
route("GET", SESSION + "/accounting", episodes.accounting_get, sessions_read, Accounting)

# What workers pull. A lease whose response was lost runs out; the lease makes the rest harmless
# when it is repeated.
route("POST", SESSION + "/tasks", tasks.tasks_put, episodes_run, **made, limit_bytes=LARGE)
route("GET", SESSION + "/tasks", tasks.task_counts, sessions_read)
route("POST", SESSION + "/tasks/lease", tasks.tasks_lease, episodes_run, audit=False)
route("POST", TASK + "/episode", tasks.task_episode_set, episodes_run, audit=False)
route("POST", TASK + "/group", tasks.task_group_set, episodes_run, audit=False, limit_bytes=LARGE)
route("POST", TASK + "/finish", tasks.task_finish, episodes_run, audit=False)

# What runtimes reported: there in every state of the session.
route("GET", SESSION + "/groups", trajectories.group_list, sessions_read)
route("GET", SESSION + "/steps/{step}", trajectories.step_get, sessions_read)

# Tokens, so from the gateway too: a file of JSON lines (tinkerscript.wire.reading.batches).
route("GET", SESSION + "/batches/{batch}", episodes.batch_get, sessions_read)

# Sessions of the tinker client; for others there is nothing here.
route("GET", SESSION + "/tinker", kinds.tinker_run_get, sessions_read)
route("GET", SESSION + "/tinker/{model_id}/calls", kinds.model_calls, sessions_read)

# Public links to a run. Readers' routes name no session: the link does, and it is good for no other
# route.
route("GET", SESSION + "/shares", sharing.share_list, sessions_read)
route("POST", SESSION + "/shares", sharing.share_create, sessions_write, **made, secret=True)
route("DELETE", SESSION + "/shares/{share_id}", sharing.share_revoke, sessions_write)
route("GET", "/shared", sharing.shared_get, link)
route("GET", "/shared/metrics", sharing.shared_metrics, link)
route("GET", "/shared/episodes", sharing.shared_episodes, link)
route(
    "GET",
    "/shared/episodes/{episode_id}/timelines",
    sharing.shared_timelines,
    link,
    EpisodeTimelines,
)

# For runtimes, under a lease: not in the OpenAPI document.
route("POST", "/runtime/register", leases.runtime_register, lease)
route("POST", "/runtime/heartbeat", leases.runtime_heartbeat, lease)
route("POST", "/runtime/report", leases.runtime_report, lease, limit_bytes=LARGE)
route("POST", "/runtime/episodes", episode_reports.rows_save, lease, limit_bytes=LARGE)
route("POST", "/runtime/documents", runtime.runtime_documents, lease)
route("POST", "/runtime/fail", leases.runtime_fail, lease)
route("POST", "/runtime/failed-checkpoints", uploads.checkpoint_fail, lease)
route("POST", "/runtime/named-checkpoints", named.named_checkpoint_open, lease)
route("POST", "/runtime/named-states", named.named_state_find, lease)
route("POST", "/runtime/tinker-work", work.work_record, lease)
route("POST", "/runtime/tinker-clients", runtimes.clients_over, lease)
route("POST", "/runtime/uploads", runtime.upload_open, lease, limit_bytes=LARGE)
route(
    "POST", "/runtime/uploads/{upload_id}/commit", uploads.upload_commit, lease, limit_bytes=LARGE
)
