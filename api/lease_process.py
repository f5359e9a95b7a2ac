"""The application of the lease process: what runtimes ask under their lease, and nothing else.

Whatever people and agents do to the web processes, a runtime's heartbeat is taken here.
"""

from console.plain_requests import plain_application

plain = plain_application()  # before the imports below: they need Django set up

from api.heartbeats import Heartbeats  # noqa: E402
from console.server.request_limits import Asgi, Receive, RequestMiddleware, Send, refuse_all  # noqa: E402
from console.server.request_threads import KeptThreads  # noqa: E402

LEASE_PREFIX, HEALTH = "/v1/runtime/", "/healthz"


def _only_leases(django: Asgi) -> Asgi:
    async def serve(scope: dict, receive: Receive, send: Send) -> None:
        its_own = scope["path"].startswith(LEASE_PREFIX) or scope["path"] == HEALTH
        await (django if its_own else refuse_all)(scope, receive, send)

    return serve


application = RequestMiddleware(
    dialects=refuse_all, tinker=refuse_all, store=refuse_all, django=_only_leases(KeptThreads(Heartbeats(plain)))
)
