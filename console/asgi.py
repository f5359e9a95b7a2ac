"""The server: HTTP to the relay or to Django, websockets to the live channel. Runs under console.serve."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django = get_asgi_application()  # before the imports below: they need Django set up

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from api.relay import relay  # noqa: E402
from console.doorway import Doorway  # noqa: E402
from console.live.consumer import LiveConsumer, refuse  # noqa: E402
from console.sessions.watching import watch_allow  # noqa: E402

channels = [
    path("ws/v1/sessions/<str:session_id>", LiveConsumer.as_asgi(allow=watch_allow)),
    re_path(r"^", refuse),
]
application = ProtocolTypeRouter(
    {
        "http": Doorway(relay=relay, django=django),
        # The consumer checks the origin itself, and only where a browser's cookie is what lets the client in.
        "websocket": AuthMiddlewareStack(URLRouter(channels)),
    }
)
