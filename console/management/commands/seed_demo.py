"""``manage.py seed_demo``: the demo user of a one-machine server, with a fresh password and a fresh
key.
"""

import json
import secrets

from django.db import transaction

from console.management.base import ServerCommand
from console.users.keys import key_create
from console.users.models import User
from console.users.selectors import project_get
from console.users.services import user_create
from tinkerscript.wire.account import KeyCreate

EMAIL = "demo@example.com"


class Command(ServerCommand):
    help = (
        'Print {"email", "password", "api_key"} of the demo user, '
        "who is created if absent. Old passwords stop working."
    )

    def handle(self, **options: object) -> None:
        password = secrets.token_urlsafe(9)
        with transaction.atomic():
            user = User.objects.filter(email=EMAIL).first() or user_create(email=EMAIL)
            user.set_password(password)
            user.save(update_fields=["password"])
            _row, key = key_create(
                project=project_get(user=user), user=user, name="demo", scopes=KeyCreate().scopes
            )
        self.stdout.write(json.dumps({"email": EMAIL, "password": password, "api_key": key}))
