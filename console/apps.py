"""The one Django app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Domain folders instead of apps: their labels would collide with Django's and Channels' own."""

    name = "console"
    label = "console"

    def ready(self) -> None:
        from console.users import sign_ins, sign_up  # noqa: F401 - their receivers are connected from here on
