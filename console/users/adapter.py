"""How django-allauth makes a user: the same way as everything else here does."""

from allauth.account.adapter import DefaultAccountAdapter
from django.db import transaction

from console.users.services import project_create_default


class AccountAdapter(DefaultAccountAdapter):
    """Gives everyone who signs up a project of their own."""

    def save_user(self, request, user, form, commit=True):
        with transaction.atomic():
            user = super().save_user(request, user, form, commit=commit)
            if commit:
                project_create_default(user=user)
        return user
