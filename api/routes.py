"""The table of routes of the REST API: method, path, view, who may call it, what it returns."""

from api.rest.permissions import RequireLease, RequireScope, RequireShare
from api.rest.route import RouteTable
from api.views import runtime, sharing, trajectories
from api.views.account import account_get, key_create, key_list, key_revoke, sign_in_list
from api.views.alerts import (
    alert_list,
    alerts_read,
    metric_rule_create,
    metric_rule_delete,
    metric_rule_list,
    metric_rule_update,
    session_alert_list,
)
from api.views.batches import batch_get
from api.views.checkpoints import (
    checkpoint_create,
    checkpoint_delete,
    checkpoint_download,
    checkpoint_get,
    checkpoint_list,
    checkpoint_provenance,
    checkpoint_publish,
    checkpoint_unpublish,
    checkpoint_update,
)
from api.views.episodes import (
    accounting_get,
    episode_abandon,
    episode_begin,
    episode_end,
    episode_export,
    episode_heartbeat,
    episodes_heartbeat,
    episodes_rescore,
    session_config_update,
)
from api.views.kinds import (
    checkpoint_key_create,
    model_calls,
    serving_create,
    serving_key_create,
    tinker_run_get,
)
from api.views.outside import outside_call
from api.views.projects import (
    audit_list,
    invitation_accept,
    invitation_decline,
    member_invite,
    member_list,
    member_remove,
    member_update,
    project_create,
    project_list,
    project_rename,
    session_usage,
    usage_days,
    usage_list,
)
from api.views.server import capacity_get, server_get
from api.views.sessions import (
    base_model_list,
    evaluation_create,
    event_list,
    metric_columns,
    place_list,
    resource_columns,
    session_create,
    session_delete,
    session_dry_run,
    session_get,
    session_list,
    session_logs,
    session_resume,
    session_stop,
    session_suspend,
    session_update,
)
from api.views.tasks import (
    task_counts,
    task_episode_set,
    task_finish,
    task_group_set,
    tasks_lease,
    tasks_put,
)
from api.views.webhooks import delivery_list, webhook_create, webhook_delete, webhook_list
from console.server.request_limits import MAX_LARGE_BODY_BYTES as LARGE
from tinkerscript.wire.account import (
    AccountView,
    KeyCreated,
    KeyList,
    ProjectView,
    Scope,
    SignInList,
)
from tinkerscript.wire.calls import EpisodeCalls
from tinkerscript.wire.checkpoints import (
    CheckpointDownload,
    CheckpointList,
    CheckpointProvenance,
    CheckpointView,
)
from tinkerscript.wire.episodes import (
    AnnotationList,
    EpisodeBegun,
    EpisodeExport,
    EpisodeList,
    EpisodeNeighbours,
    EpisodesHeartbeatResult,
    EpisodesRescored,
    EpisodeView,
)
from tinkerscript.wire.events import Event, EventPage
from tinkerscript.wire.projects import (
    AuditPage,
    MemberList,
    MemberView,
    ProjectList,
    SessionSpending,
    UsageDays,
    UsageList,
)
from tinkerscript.wire.reading.alerts import AlertList, MetricRuleList, MetricRuleView
from tinkerscript.wire.reading.documents import EpisodeDocuments
from tinkerscript.wire.reading.facets import EpisodeFacets, NearestPlays
from tinkerscript.wire.reading.points import MetricColumns
from tinkerscript.wire.reading.resources import ResourceColumns
from tinkerscript.wire.reading.saved_views import SavedViewList, SavedViewView
from tinkerscript.wire.reading.sharing import ShareCreated, SharedRun, ShareList
from tinkerscript.wire.reading.trajectories import EpisodeTimelines, GroupList, StepView
from tinkerscript.wire.runtime import (
    Assignment,
    DocumentPlaces,
    Orders,
    UploadCommitted,
    UploadTargets,
)
from tinkerscript.wire.server import CapacityView, PlaceList, ServerView
from tinkerscript.wire.serving import OutsideAnswer, ServingEndpoint
from tinkerscript.wire.sessions import (
    Accounting,
    BaseModelList,
    SessionList,
    SessionLogs,
    SessionPlan,
    SessionView,
)
from tinkerscript.wire.tasks import TaskCounts, TaskLeases, TaskView
from tinkerscript.wire.tinker.messages import ClientsOver, NamedCheckpoint, NamedState
from tinkerscript.wire.tinker.runs import ModelCalls, TinkerRun
from tinkerscript.wire.training.changes import ConfigChange
from tinkerscript.wire.webhooks import DeliveryList, WebhookCreated, WebhookList

any_caller = RequireScope(None)
signed_in = RequireScope(None, people_only=True)
sessions_read = RequireScope(Scope.SESSIONS_READ)
sessions_write = RequireScope(Scope.SESSIONS_WRITE)
episodes = RequireScope(Scope.EPISODES)
checkpoints_read = RequireScope(Scope.CHECKPOINTS_READ)
admin = RequireScope(Scope.ADMIN)
# A key needs the admin scope; a signed-in person may do it as far as their role allows
# (console.users).
admin_key_or_person = RequireScope(Scope.ADMIN, person_scope=Scope.SESSIONS_READ)
person_writes = RequireScope(Scope.SESSIONS_WRITE, people_only=True)
lease = RequireLease()
link = RequireShare()

SESSION = "/sessions/{session_id}"
CHECKPOINT = SESSION + "/checkpoints/{checkpoint_id}"
EPISODE = SESSION + "/episodes/{episode_id}"
SERVING_KEYS = SESSION + "/serving-keys"
TASK = SESSION + "/tasks/{task_id}"
INVITATION = "/invitations/{member_id}"

api = RouteTable("/v1")
route = api.route

route("GET", "/server", server_get, any_caller, ServerView)
route("GET", "/account", account_get, any_caller, AccountView)
route("GET", "/account/sign-ins", sign_in_list, signed_in, SignInList)
route("GET", "/keys", key_list, admin_key_or_person, KeyList)
route(
    "POST", "/keys", key_create, admin_key_or_person, KeyCreated, status=201, once=True, secret=True
)
route("DELETE", "/keys/{key_id}", key_revoke, admin_key_or_person, None, status=204)

route("GET", "/projects", project_list, any_caller, ProjectList)
route("POST", "/projects", project_create, admin_key_or_person, ProjectView, status=201, once=True)
route("PATCH", "/projects/{project_id}", project_rename, admin, ProjectView)
route("GET", "/members", member_list, admin_key_or_person, MemberList)
route("POST", "/members", member_invite, admin, MemberView, status=201, once=True)
route("PATCH", "/members/{member_id}", member_update, admin, MemberView)
route("DELETE", "/members/{member_id}", member_remove, admin_key_or_person, None, status=204)
# These concern another project than the caller's: the services write them to the audit log of that
# one.
route(
    "POST",
    INVITATION + "/accept",
    invitation_accept,
    signed_in,
    ProjectView,
    once=True,
    audit=False,
)
route("DELETE", INVITATION, invitation_decline, signed_in, None, status=204, audit=False)
route("GET", "/usage", usage_list, sessions_read, UsageList)
route("GET", "/usage/days", usage_days, sessions_read, UsageDays)
route("GET", "/capacity", capacity_get, sessions_read, CapacityView)
route("GET", "/alerts", alert_list, sessions_read, AlertList)
route("POST", "/alerts/read", alerts_read, signed_in, None, status=204, audit=False)
route("GET", "/alert-rules", metric_rule_list, sessions_read, MetricRuleList)
route(
    "POST",
    "/alert-rules",
    metric_rule_create,
    sessions_write,
    MetricRuleView,
    status=201,
    once=True,
)
route("PATCH", "/alert-rules/{rule_id}", metric_rule_update, sessions_write, MetricRuleView)
route("DELETE", "/alert-rules/{rule_id}", metric_rule_delete, sessions_write, None, status=204)
route("GET", "/saved-views", sharing.saved_view_list, sessions_read, SavedViewList)
route(
    "POST",
    "/saved-views",
    sharing.saved_view_create,
    sessions_write,
    SavedViewView,
    status=201,
    once=True,
)
route("PATCH", "/saved-views/{view_id}", sharing.saved_view_update, sessions_write, SavedViewView)
route(
    "DELETE", "/saved-views/{view_id}", sharing.saved_view_delete, sessions_write, None, status=204
)
route("GET", "/audit", audit_list, admin, AuditPage)
route("GET", "/webhooks", webhook_list, admin, WebhookList)
route(
    "POST", "/webhooks", webhook_create, admin, WebhookCreated, status=201, once=True, secret=True
)
route("DELETE", "/webhooks/{webhook_id}", webhook_delete, admin, None, status=204)
route("GET", "/webhooks/{webhook_id}/deliveries", delivery_list, admin, DeliveryList)

route("GET", "/base-models", base_model_list, sessions_read, BaseModelList)
route("GET", "/places", place_list, sessions_read, PlaceList)
route("GET", "/sessions", session_list, sessions_read, SessionList)
route("POST", "/sessions", session_create, sessions_write, SessionView, status=201, once=True)
route("POST", "/sessions/dry-run", session_dry_run, sessions_write, SessionPlan, audit=False)
route("GET", SESSION, session_get, sessions_read, SessionView)
route("PATCH", SESSION, session_update, sessions_write, SessionView)
route("DELETE", SESSION, session_delete, sessions_write, None, status=204)
route("POST", SESSION + "/stop", session_stop, sessions_write, SessionView, once=True)
route("POST", SESSION + "/suspend", session_suspend, sessions_write, SessionView, once=True)
route("POST", SESSION + "/resume", session_resume, sessions_write, SessionView, once=True)
route("GET", SESSION + "/logs", session_logs, sessions_read, SessionLogs)
route("GET", SESSION + "/events", event_list, sessions_read, EventPage)
route("GET", SESSION + "/metrics", metric_columns, sessions_read, MetricColumns)
route("GET", SESSION + "/resources", resource_columns, sessions_read, ResourceColumns)
route("GET", SESSION + "/usage", session_usage, sessions_read, SessionSpending)
route("GET", SESSION + "/alerts", session_alert_list, sessions_read, AlertList)
route(
    "POST",
    SESSION + "/evaluations",
    evaluation_create,
    episodes,
    Event,
    status=201,
    once=True,
    audit=False,
)

# A model that is served and not trained. Its key is signed anew for each request and kept nowhere.
route("POST", "/serving", serving_create, sessions_write, SessionView, status=201, once=True)
route(
    "POST",
    SERVING_KEYS,
    serving_key_create,
    episodes,
    ServingEndpoint,
    status=201,
    once=True,
    secret=True,
)

# Of a Tinker client's checkpoint. Who has an API key sends that one.
route(
    "POST",
    CHECKPOINT + "/serving-keys",
    checkpoint_key_create,
    person_writes,
    ServingEndpoint,
    status=201,
    once=True,
    secret=True,
)

# What the console asks of others for the playground. Its body holds a key of theirs, so the view
# writes its own entry of the audit log.
route("POST", "/outside-calls", outside_call, episodes, OutsideAnswer, limit_bytes=LARGE)

route(
    "POST",
    SESSION + "/checkpoints",
    checkpoint_create,
    sessions_write,
    CheckpointView,
    status=202,
    once=True,
)
route("GET", SESSION + "/checkpoints", checkpoint_list, checkpoints_read, CheckpointList)
route("GET", CHECKPOINT, checkpoint_get, checkpoints_read, CheckpointView)
route("PATCH", CHECKPOINT, checkpoint_update, sessions_write, CheckpointView)
route("DELETE", CHECKPOINT, checkpoint_delete, sessions_write, None, status=204)
route(
    "GET", CHECKPOINT + "/provenance", checkpoint_provenance, checkpoints_read, CheckpointProvenance
)
route("POST", CHECKPOINT + "/publish", checkpoint_publish, sessions_write, CheckpointView)
route("DELETE", CHECKPOINT + "/publish", checkpoint_unpublish, sessions_write, CheckpointView)
route(
    "GET",
    CHECKPOINT + "/download",
    checkpoint_download,
    checkpoints_read,
    CheckpointDownload,
    audit=True,
)

# Checked here, then forwarded to the session's gateway, which also makes a repeated request
# harmless.
route("POST", SESSION + "/episodes", episode_begin, episodes, EpisodeBegun, status=201)
route("GET", SESSION + "/episodes", trajectories.episode_list, sessions_read, EpisodeList)
route(
    "GET", SESSION + "/episodes/facets", trajectories.episode_facets, sessions_read, EpisodeFacets
)
route(
    "GET", SESSION + "/episodes/nearest", trajectories.episodes_nearest, sessions_read, NearestPlays
)
route("GET", SESSION + "/episodes/export", episode_export, sessions_read, EpisodeExport, audit=True)
route(
    "GET",
    SESSION + "/episodes/documents",
    trajectories.episode_documents,
    sessions_read,
    EpisodeDocuments,
    audit=True,
)
route("GET", EPISODE, trajectories.episode_get, sessions_read, EpisodeView)
route("DELETE", EPISODE, trajectories.episode_erase, sessions_write, None, status=204)
route(
    "PATCH", EPISODE + "/annotation", trajectories.episode_annotate, sessions_write, AnnotationList
)
route("GET", EPISODE + "/calls", trajectories.episode_calls, sessions_read, EpisodeCalls)
route(
    "GET",
    EPISODE + "/neighbours",
    trajectories.episode_neighbours,
    sessions_read,
    EpisodeNeighbours,
)
route(
    "GET", EPISODE + "/timelines", trajectories.episode_timelines, sessions_read, EpisodeTimelines
)
route("POST", EPISODE + "/end", episode_end, episodes, EpisodeView, limit_bytes=LARGE)
route("POST", EPISODE + "/abandon", episode_abandon, episodes, EpisodeView)
route("POST", EPISODE + "/heartbeat", episode_heartbeat, episodes, EpisodeView)
route("POST", SESSION + "/heartbeats", episodes_heartbeat, episodes, EpisodesHeartbeatResult)
route("POST", SESSION + "/rescore", episodes_rescore, episodes, EpisodesRescored)
route("PATCH", SESSION + "/config", session_config_update, sessions_write, ConfigChange)
route("GET", SESSION + "/accounting", accounting_get, sessions_read, Accounting)

# What workers pull. A lease whose response was lost runs out; the lease makes the rest harmless
# when it is repeated.
route(
    "POST",
    SESSION + "/tasks",
    tasks_put,
    episodes,
    TaskCounts,
    status=201,
    once=True,
    limit_bytes=LARGE,
)
route("GET", SESSION + "/tasks", task_counts, sessions_read, TaskCounts)
route("POST", SESSION + "/tasks/lease", tasks_lease, episodes, TaskLeases, audit=False)
route("POST", TASK + "/episode", task_episode_set, episodes, TaskView, audit=False)
route("POST", TASK + "/group", task_group_set, episodes, TaskView, audit=False, limit_bytes=LARGE)
route("POST", TASK + "/finish", task_finish, episodes, TaskView, audit=False)

# What runtimes reported: there in every state of the session.
route("GET", SESSION + "/groups", trajectories.group_list, sessions_read, GroupList)
route("GET", SESSION + "/steps/{step}", trajectories.step_get, sessions_read, StepView)

# Tokens, so from the gateway too: a file of JSON lines (tinkerscript.wire.batches).
route("GET", SESSION + "/batches/{batch}", batch_get, sessions_read, None)

# Sessions of the tinker client; for others there is nothing here.
route("GET", SESSION + "/tinker", tinker_run_get, sessions_read, TinkerRun)
route("GET", SESSION + "/tinker/{model_id}/calls", model_calls, sessions_read, ModelCalls)

# Public links to a run. Readers' routes name no session: the link does, and it is good for no other
# route.
route("GET", SESSION + "/shares", sharing.share_list, sessions_read, ShareList)
route(
    "POST",
    SESSION + "/shares",
    sharing.share_create,
    sessions_write,
    ShareCreated,
    status=201,
    once=True,
    secret=True,
)
route(
    "DELETE", SESSION + "/shares/{share_id}", sharing.share_revoke, sessions_write, None, status=204
)
route("GET", "/shared", sharing.shared_get, link, SharedRun)
route("GET", "/shared/metrics", sharing.shared_metrics, link, MetricColumns)
route("GET", "/shared/episodes", sharing.shared_episodes, link, EpisodeList)
route(
    "GET",
    "/shared/episodes/{episode_id}/timelines",
    sharing.shared_timelines,
    link,
    EpisodeTimelines,
)

# For runtimes, under a lease: not in the OpenAPI document.
route("POST", "/runtime/register", runtime.runtime_register, lease, Assignment)
route("POST", "/runtime/heartbeat", runtime.runtime_heartbeat, lease, Orders)
route("POST", "/runtime/report", runtime.runtime_report, lease, None, status=204, limit_bytes=LARGE)
route(
    "POST",
    "/runtime/episodes",
    runtime.runtime_episodes,
    lease,
    None,
    status=204,
    limit_bytes=LARGE,
)
route("POST", "/runtime/documents", runtime.runtime_documents, lease, DocumentPlaces)
route("POST", "/runtime/fail", runtime.runtime_fail, lease, None, status=204)
route("POST", "/runtime/failed-checkpoints", runtime.checkpoint_fail, lease, None, status=204)
route("POST", "/runtime/named-checkpoints", runtime.named_checkpoint_open, lease, NamedCheckpoint)
route("POST", "/runtime/named-states", runtime.named_state_find, lease, NamedState)
route("POST", "/runtime/tinker-work", runtime.tinker_work, lease, None, status=204)
route("POST", "/runtime/tinker-clients", runtime.tinker_clients, lease, ClientsOver)
route("POST", "/runtime/uploads", runtime.upload_open, lease, UploadTargets, limit_bytes=LARGE)
route(
    "POST",
    "/runtime/uploads/{upload_id}/commit",
    runtime.upload_commit,
    lease,
    UploadCommitted,
    limit_bytes=LARGE,
)
