"""Erasing a person: nothing but the audit log names them afterwards, and nobody else loses
anything.
"""

import pytest
from allauth.account.models import EmailAddress
from django.apps import apps
from django.contrib.sessions.models import Session as BrowserSession
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from console.live.models import EventRecord
from console.object_store import client as object_store
from console.sessions.checkpoints.removal import removals_finish
from console.sessions.models import RuntimeSpan, Session
from console.users.members import member_invite
from console.users.models import Membership, Project, User
from console.webhooks.services import webhook_create
from support import factories
from support.signing_in import signed_in
from tinkerscript.wire.account import Role
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic

KEPT = {"AuditRecord", "AuditHead"}


def rows_with(*words: str) -> list[str]:
    """Every row of every table, but the audit log's, that has one of these words in a column."""
    found = []
    for model in apps.get_models():
        if model.__name__ not in KEPT:
            for row in model.objects.values():
                found += [f"{model.__name__}: {word}" for word in words if word in str(row)]
    return found


def test_nothing_names_who_was_erased_and_others_keep_what_they_have(
    alice: User, bob: User, project, s3
) -> None:
    theirs = bob.memberships.get().project
    Membership.objects.create(project=theirs, user=alice, role=Role.MEMBER)
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    browser: Client = signed_in(alice)
    factories.key_make(project, alice)
    factories.key_make(theirs, alice)
    member_invite(project=theirs, email="else@example.com", role=Role.MEMBER, by=bob)
    # to another project, which they have not answered
    elsewhere = factories.user_make("carol").memberships.get().project
    elsewhere.memberships.create(email=alice.email, role=Role.MEMBER)
    webhook_create(project=project, url="https://example.com/", topics=list(WebhookTopic))
    own, _lease = factories.runtime_make(project, person=alice)
    Session.objects.filter(id=own.id).update(state=SessionState.STOPPED, launch_handle=None)
    shared = factories.session_make(theirs, person=alice, state=SessionState.STOPPED)
    object_store.put(f"sessions/{own.id}/checkpoints/c/weights", b"w")
    words = (alice.email, project.id, own.id)
    assert rows_with(*words)
    call_command("erase_person", alice.email)
    removals_finish()
    assert rows_with(*words) == []
    assert object_store.size_bytes(f"sessions/{own.id}/checkpoints/c/weights") is None
    assert browser.get("/v1/account").status_code == 401
    assert not BrowserSession.objects.exists(), "its data, which is encoded, has who signed in"
    assert not EventRecord.objects.filter(session_id=own.id).exists()
    assert not RuntimeSpan.objects.filter(session_id=own.id).exists()
    shared.refresh_from_db()
    assert shared.person is None and set(Project.objects.all()) == {theirs, elsewhere}
    assert Membership.objects.filter(project=theirs).count() == 2, "bob, and who was invited"


def test_who_has_a_running_session_or_no_account_is_refused(alice: User, project) -> None:
    session, _lease = factories.runtime_make(project)
    with pytest.raises(CommandError, match=session.id):
        call_command("erase_person", alice.email)
    with pytest.raises(CommandError, match="no account"):
        call_command("erase_person", "nobody@example.com")
    assert User.objects.filter(id=alice.pk).exists()
