"""The application of the lease process: what runtimes ask under their lease, and nothing else.

Whatever people and agents do to the web processes, a runtime's heartbeat is taken here.
"""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup(set_prefix=False)  # before the imports below

from api.routes import api  # noqa: E402
from console.server.request_limits import Asgi, Receive, RequestMiddleware, Send, refuse_all  # noqa: E402
from console.server.request_threads import Handler  # noqa: E402

LEASE_PREFIX, HEALTH = "/v1/runtime/", "/healthz"


def _only_leases(inner: Asgi) -> Asgi:
    async def serve(scope: dict, receive: Receive, send: Send) -> None:
        its_own = scope["path"].startswith(LEASE_PREFIX) or scope["path"] == HEALTH
        await (inner if its_own else refuse_all)(scope, receive, send)

    return serve


application = RequestMiddleware(
    dialects=refuse_all,
    tinker=refuse_all,
    store=refuse_all,
    django=_only_leases(Handler(browsers=False)),
    body_limit=api.limit_bytes,
)
