"""The server: HTTP to the relay or to Django, websockets to the live channel. Any ASGI server runs
it.

The default is console.server.uvicorn, which waits for slow clients and bounds the heads of
requests; others do neither.
"""

import os
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup(set_prefix=False)  # before the imports below

from channels.auth import AuthMiddleware  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.sessions import CookieMiddleware  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from api.routes import api  # noqa: E402
from api.store_links import store_links  # noqa: E402
from api.tinker.app import tinker  # noqa: E402
from api.tinker.endpoints import REST, dialects, no_websocket  # noqa: E402
from console.live.consumer import LiveConsumer, NoChannel  # noqa: E402
from console.server.address_limit import limited_handshakes  # noqa: E402
from console.server.request_limits import RequestMiddleware  # noqa: E402
from console.server.request_threads import Handler  # noqa: E402
from console.sessions.live_permission import live_permission_check, project_permission_check  # noqa: E402
from console.sessions.project_changes import project_pages  # noqa: E402
from console.users.sign_in_sessions import WebsocketSignIn  # noqa: E402
from tinkerscript.wire.dialects.table import PREFIXES  # noqa: E402

NO_CHANNELS = f"^({'|'.join(each.strip('/') for each in (*PREFIXES, *REST))})/"
# Django's types know paths that lead to views alone; Channels' router takes ASGI applications in
# their place.
watch: Any = LiveConsumer.as_asgi(allow=live_permission_check)
watch_project: Any = LiveConsumer.as_asgi(allow=project_permission_check, watch=project_pages)
refuse: Any = NoChannel.as_asgi()
refuse_dialect: Any = no_websocket
channels: list[Any] = [
    path("ws/v1/sessions/<str:session_id>", watch),
    path("ws/v1/projects/<str:project_id>", watch_project),
    re_path(NO_CHANNELS, refuse_dialect),
    re_path(r"^", refuse),
]

application = ProtocolTypeRouter(
    {
        "http": RequestMiddleware(
            dialects=dialects,
            tinker=tinker,
            store=store_links,
            django=Handler(),
            body_limit=api.limit_bytes,
        ),
        # The consumer checks the origin itself, and only where a browser's cookie is what lets the
        # client in.
        "websocket": limited_handshakes(
            CookieMiddleware(WebsocketSignIn(AuthMiddleware(URLRouter(channels))))
        ),
    }
)
