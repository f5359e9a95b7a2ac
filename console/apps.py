"""The one Django app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Domain folders instead of apps: their labels would collide with Django's and Channels' own."""

    name = "console"
    label = "console"

    def ready(self) -> None:
        # Their receivers are connected from here on.
        from console.sessions.sharing import services  # noqa: F401
        from console.users import sign_ins, sign_up  # noqa: F401
