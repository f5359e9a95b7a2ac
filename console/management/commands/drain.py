"""``manage.py drain`` and ``manage.py drain --off``."""

from django.core.management.base import CommandParser

from console.management.base import ServerCommand
from console.scheduling.instance import drain_begin, drain_end
from console.sessions.models import Session
from console.sessions.states import WITH_RUNTIME


class Command(ServerCommand):
    help = (
        "Start nothing more and suspend what is ready, its state saved; --off goes back to normal."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--off", action="store_true")

    def handle(self, *args: object, off: bool, **options: object) -> None:
        if off:
            drain_end()
            self.stdout.write("sessions start again")
            return
        drain_begin()
        running = Session.objects.filter(state__in=WITH_RUNTIME).count()
        self.stdout.write(
            f"draining: {running} sessions have a runtime; run this again to see how many are left"
        )
