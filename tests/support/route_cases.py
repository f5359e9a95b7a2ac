"""Every route of the API, and with what a test asks it. A route that is not listed here fails the
suite.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.cache import cache
from django.db import transaction

from api.routes import api

S = "/sessions/{session_id}"
C = S + "/checkpoints/{checkpoint_id}"
E = S + "/episodes/{episode_id}"
M = "/members/{member_id}"
I = "/invitations/{member_id}"  # noqa: E741
W = "/webhooks/{webhook_id}"

# With an id in the path: what is sent.
BODIES: dict[tuple[str, str], Any] = {
    ("DELETE", "/keys/{key_id}"): None,
    ("PATCH", "/projects/{project_id}"): {"name": "renamed by a test"},
    ("PATCH", M): {"role": "viewer"},
    ("DELETE", M): None,
    ("POST", I + "/accept"): None,
    ("DELETE", I): None,
    ("PATCH", "/alert-rules/{rule_id}"): {"value": 0.5},
    ("DELETE", "/alert-rules/{rule_id}"): None,
    ("PATCH", "/saved-views/{view_id}"): {"pinned": True},
    ("DELETE", "/saved-views/{view_id}"): None,
    ("DELETE", W): None,
    ("GET", W + "/deliveries"): None,
    ("GET", S): None,
    ("PATCH", S): {"name": "renamed", "tags": ["a tag"], "notes": "read", "pinned": True},
    ("DELETE", S): None,
    ("POST", S + "/stop"): None,
    ("POST", S + "/suspend"): None,
    ("POST", S + "/resume"): None,
    ("GET", S + "/logs"): None,
    ("GET", S + "/alerts"): None,
    ("GET", S + "/events"): None,
    ("POST", S + "/serving-keys"): {},
    ("POST", S + "/checkpoints"): {},
    ("GET", S + "/checkpoints"): None,
    ("GET", C): None,
    ("PATCH", C): {"pinned": True},
    ("DELETE", C): None,
    ("GET", C + "/provenance"): None,
    ("GET", C + "/download"): None,
    ("POST", C + "/publish"): None,
    ("POST", C + "/serving-keys"): {},
    ("DELETE", C + "/publish"): None,
    ("POST", S + "/episodes"): {},
    ("GET", S + "/episodes"): None,
    ("GET", S + "/episodes/facets"): None,
    ("GET", S + "/episodes/nearest"): None,
    ("GET", S + "/episodes/export"): None,
    ("GET", S + "/episodes/documents"): None,
    ("GET", E): None,
    ("DELETE", E): None,
    ("PATCH", E + "/annotation"): {"thumb": "up", "comment": "said by a test"},
    ("GET", E + "/calls"): None,
    ("GET", E + "/neighbours"): None,
    ("GET", E + "/timelines"): None,
    ("GET", S + "/metrics"): None,
    ("GET", S + "/resources"): None,
    ("GET", S + "/usage"): None,
    ("GET", S + "/shares"): None,
    ("POST", S + "/shares"): {"expires_in_days": 1},
    ("DELETE", S + "/shares/{share_id}"): None,
    ("POST", S + "/evaluations"): {"step": 1, "reward_mean": 0.5, "episodes": 2},
    ("POST", S + "/tasks"): {"rows": [{"name": "made by a test", "row": 1}]},
    ("GET", S + "/tasks"): None,
    ("POST", S + "/tasks/lease"): {"worker": "w", "count": 1},
    ("POST", S + "/tasks/{task_id}/episode"): {"lease": "tlk_1", "episode_id": "ep_1"},
    ("POST", S + "/tasks/{task_id}/group"): {"lease": "tlk_1", "episode_ids": ["ep_1"]},
    ("POST", S + "/tasks/{task_id}/finish"): {"lease": "tlk_1"},
    ("GET", S + "/groups"): None,
    ("GET", S + "/tinker"): None,
    ("GET", S + "/tinker/{model_id}/calls"): None,
    ("GET", S + "/steps/{step}"): None,
    ("POST", E + "/end"): {"output": {"reward": 1.0}},
    ("POST", E + "/abandon"): {},
    ("POST", E + "/heartbeat"): None,
    ("POST", S + "/heartbeats"): {"episode_ids": ["ep_1"]},
    ("POST", S + "/rescore"): {"rewards": {"ep_1": 1.0}},
    ("PATCH", S + "/config"): {"learning_rate": 1e-6},
    ("GET", S + "/accounting"): None,
    ("GET", S + "/batches/{batch}"): None,
}
# Without one: they answer with, or add to, the caller's own project.
WITHOUT_ID: dict[tuple[str, str], Any] = {
    ("GET", "/server"): None,
    ("GET", "/account"): None,
    ("GET", "/account/sign-ins"): None,
    ("GET", "/keys"): None,
    ("POST", "/keys"): {"name": "made by a test"},
    ("GET", "/projects"): None,
    ("POST", "/projects"): {"name": "made by a test"},
    ("GET", "/members"): None,
    ("POST", "/members"): {"email": "invited@example.com"},
    ("GET", "/usage"): None,
    ("GET", "/usage/days"): None,
    ("GET", "/capacity"): None,
    ("GET", "/alerts"): None,
    ("POST", "/alerts/read"): {"upto": 1},
    ("GET", "/alert-rules"): None,
    ("GET", "/saved-views"): None,
    ("POST", "/saved-views"): {"name": "by time", "address": "x=time"},
    ("POST", "/alert-rules"): {
        "name": "low",
        "metric": "reward_mean",
        "above": False,
        "value": 0.1,
    },
    ("GET", "/audit"): None,
    ("POST", "/outside-calls"): {"base_url": "https://127.0.0.1/v1", "body": {}},
    ("GET", "/webhooks"): None,
    ("POST", "/webhooks"): {"url": "https://example.com/hook"},
    ("GET", "/base-models"): None,
    ("GET", "/places"): None,
    ("GET", "/sessions"): None,
    ("POST", "/sessions"): {"base_model": "SmolLM2-135M-Instruct"},
    ("POST", "/serving"): {"model": "SmolLM2-135M-Instruct"},
    ("POST", "/sessions/dry-run"): {"base_model": "SmolLM2-135M-Instruct"},
}
# For runtimes, under a lease.
LEASE_BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/runtime/register"): None,
    ("POST", "/runtime/heartbeat"): {"state": "ready", "progress": 1},
    ("POST", "/runtime/report"): {"entries": []},
    ("POST", "/runtime/episodes"): {"rows": []},
    ("POST", "/runtime/documents"): {"episode_ids": []},
    ("POST", "/runtime/named-checkpoints"): {
        "model_id": "ses_1:train:0",
        "segment": "weights",
        "name": "kept",
        "lora": {"rank": 8},
    },
    ("POST", "/runtime/named-states"): {
        "model_id": "ses_1:train:0",
        "path": "tinker://ses_1:train:0/weights/kept",
    },
    ("POST", "/runtime/tinker-work"): {"key": "1-1", "tokens": {}, "spans": []},
    ("POST", "/runtime/tinker-clients"): {"clients": []},
    ("POST", "/runtime/failed-checkpoints"): {"checkpoint_id": "ckp_none", "reason": "a test"},
    ("POST", "/runtime/fail"): {"code": "broken", "cause": "a test"},
    ("POST", "/runtime/uploads"): {
        "kind": "journal",
        "files": [{"path": "journal.sqlite3", "size_bytes": 1, "sha256": "0" * 64}],
    },
    ("POST", "/runtime/uploads/{upload_id}/commit"): {"files": []},
}

# Who may, where it is not: everybody in the project reads, owner and member change.
FOR_OWNERS = {
    ("DELETE", "/keys/{key_id}"),  # the one that is tried is an owner's own
    ("PATCH", "/projects/{project_id}"),
    ("POST", "/members"),
    ("PATCH", M),
    ("DELETE", M),
    ("GET", "/audit"),
    ("GET", "/webhooks"),
    ("POST", "/webhooks"),
    ("DELETE", W),
    ("GET", W + "/deliveries"),
}
FOR_EVERYBODY = {("POST", "/projects"), ("POST", "/alerts/read")}
# Keys do these only as an admin, people as far as their role allows.
FOR_ADMIN_KEYS = FOR_OWNERS | {
    ("GET", "/keys"),
    ("POST", "/keys"),
    ("POST", "/projects"),
    ("GET", "/members"),
}
# For people alone: no key of theirs.
FOR_PEOPLE = {
    ("GET", "/account/sign-ins"),
    ("POST", "/alerts/read"),
    ("POST", C + "/serving-keys"),
}
# For those who have a public link: the token says which session.
LINK_ROUTES = {
    ("GET", "/shared"),
    ("GET", "/shared/metrics"),
    ("GET", "/shared/episodes"),
    ("GET", "/shared/episodes/{episode_id}/timelines"),
}

# For the person who is invited: no one else, member or not, knows of an invitation by this way.
FOR_INVITED = {("POST", I + "/accept"), ("DELETE", I)}


def declared() -> set[tuple[str, str]]:
    """Every route that the API has."""
    return {(route.method, route.path) for route in api}


@contextmanager
def undone() -> Iterator[None]:
    """What a request changes within the block is rolled back, and those before it are not counted.

    With it, one test can try many routes on one set of rows, which take longer to make than most
    requests.
    """
    cache.clear()
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def ask(
    client: Any, method: str, path: str, ids: dict[str, str], body: Any = None, **headers: str
) -> Any:
    """The answer to one route with these ids in its path. Header names have underscores here."""
    return client.generic(
        method,
        "/v1" + path.format(**ids),
        data="" if body is None else json.dumps(body),
        content_type="application/json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
