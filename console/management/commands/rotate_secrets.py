"""``manage.py rotate_secrets`` and ``manage.py rotate_secrets --forget-previous``."""

from django.core.management.base import CommandParser

from console.management.base import ServerCommand
from console.operations.secret_rotation import previous_forget, secrets_rotate
from console.webhooks.models import Webhook

ROTATED = """\
The server's secret is new from the next start on. The one before it is accepted until the next rotation, or until
`manage.py rotate_secrets --forget-previous`; so sign-ins, second factors, mailed links and open episodes go on.
{webhooks} webhooks have another signing secret: until then their deliveries carry both signatures; make those webhooks
anew before."""
STORE = """\
The embedded store's credentials are new. Links for downloads that were handed out before lead nowhere: ask anew."""
FORGOTTEN = """\
The secret before the present one is not accepted any more, from the next start on: mailed links, and keys of episodes
that it signed, are refused. Sign-ins and second factors go on. Receivers of webhooks that were made before the last
rotation refuse deliveries: make those webhooks anew ({webhooks} webhooks in all)."""
NOT_OURS = """\
Not changed: what comes from the environment (S3_*, DATABASE_URL, REDIS_URL, TINKERSCRIPT_METRICS_TOKEN,
TINKERSCRIPT_SMTP_URL: change it there), and API keys, of which only hashes are kept (revoke them in the console)."""


class Command(ServerCommand):
    help = "Replace the secrets that this server, which must not be running, made for itself."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--forget-previous",
            action="store_true",
            help="Accept the present secret alone, at once.",
        )

    def handle(self, *args: object, forget_previous: bool, **options: object) -> None:
        if forget_previous:
            previous_forget()
            said = [FORGOTTEN]
        else:
            said = [ROTATED, STORE, NOT_OURS] if secrets_rotate() else [ROTATED, NOT_OURS]
        self.stdout.write("\n".join(said).format(webhooks=Webhook.objects.count()))
