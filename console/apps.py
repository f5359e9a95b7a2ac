"""The one Django app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Domain folders instead of apps: their labels would collide with Django's and Channels' own."""

    name = "console"
    label = "console"

    def ready(self) -> None:
        from console.users import sign_ins  # noqa: F401  its receivers listen from here on
