"""Training sessions as a Django app."""

from importlib import import_module

from django.apps import AppConfig

MODELS = (
    "alerts.models",
    "episodes.models",
    "limits.devices",
    "runtime.session_turn",
    "saved_views.models",
    "sharing.models",
    "tasks.models",
)


class SessionsConfig(AppConfig):
    """Its label is not that of the folder: ``sessions`` is the app of Django's own."""

    name = "console.sessions"
    label = "training"

    def import_models(self) -> None:
        """Those of its parts too, which stand beside their services."""
        super().import_models()
        for part in MODELS:
            import_module(f"{self.name}.{part}")
