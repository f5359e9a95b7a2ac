"""``manage.py create_user EMAIL``: a person who can sign in."""

import secrets

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from console.management.base import ServerCommand
from console.users.models import User
from console.users.services import user_create
from console.users.sign_up import address_check


class Command(ServerCommand):
    help = (
        "Make a user with a project of their own, and print a password to sign in with; they "
        "should change it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")

    def handle(self, *args: object, email: str, **options: object) -> None:
        try:
            address_check(email)
        except ValidationError:
            raise CommandError(f"{email!r} is no e-mail address.") from None
        if User.objects.filter(email=email.lower()).exists():
            raise CommandError(f"{email} is there already. A password is reset in the console.")
        password = secrets.token_urlsafe(12)
        user_create(email=email, password=password, is_confirmed=True)
        self.stdout.write(password)
