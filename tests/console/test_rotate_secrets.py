"""Rotating the server's secrets ends no sign-in, no second factor and no open episode, wherever it
is interrupted.
"""

import os
import stat
import time
from contextlib import contextmanager
from dataclasses import replace as replace_fields

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value
from botocore.exceptions import ClientError
from django.contrib.auth.tokens import default_token_generator
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from api.relay import callers
from api.relay.errors import RelayError
from console.config.private_files import replace
from console.object_store import client as object_store
from console.object_store import seaweedfs
from console.operations import secret_rotation
from console.scheduling.children.supervisor import lock_take
from console.scheduling.leader import leader_renew
from console.sessions.models import Session
from console.sessions.runtime import leases
from console.users.keys import key_authenticate
from console.users.models import User
from console.webhooks.models import Webhook
from console.webhooks.services import webhook_create, webhook_secrets
from support import factories
from tinkerscript import webhooks as received
from tinkerscript.wire.episode_key import EpisodeClaim, sign
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookEvent, WebhookTopic

SECRET = "JBSWY3DPEHPK3PXP"


@pytest.fixture(autouse=True)
def server(tmp_path, settings, db):
    """A server of its own that has just been stopped, with an embedded store."""
    settings.DATA, settings.SECRET_KEY_FILE = tmp_path, tmp_path / "secret_key"
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY_IS_GIVEN = (
        "first",
        [],
        False,
    )
    settings.S3_ENDPOINT_URL = ""
    replace(settings.SECRET_KEY_FILE, "first")
    seaweedfs.credentials_get(tmp_path)
    (tmp_path / "models" / factories.BASE_MODEL).mkdir(parents=True)
    callers.signing_keys.cache_clear()
    yield settings
    callers.signing_keys.cache_clear()


def restart(settings) -> None:
    """Read the secrets as a starting server does."""
    settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS = (
        settings.SECRET_KEY_FILE.read_text().split()
    )
    callers.signing_keys.cache_clear()


def rotate(settings, *arguments: str) -> None:
    call_command("rotate_secrets", *arguments)
    restart(settings)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def is_in(client: Client) -> bool:
    return client.get("/v1/account").status_code == 200


def code_is_taken(factor: TOTP) -> bool:
    factor.instance.refresh_from_db()
    return factor.validate_code(format_hotp_value(hotp_value(SECRET, int(time.time()) // 30)))


def episode_key(session_id: str) -> str:
    claim = EpisodeClaim(session_id, "ep_1", int(time.time()) + 60)
    return sign(leases.episode_signing_keys(session_id=session_id)[0], claim)


def relay_takes(key: str) -> bool:
    try:
        return (
            callers.verified_claim([(b"authorization", f"Bearer {key}".encode())]).episode_id
            == "ep_1"
        )
    except RelayError as refusal:
        assert refusal.status == 401
        return False


# -- What goes on -----------------------------------------------------------------------------------------------------


def test_who_is_signed_in_stays_in_under_the_same_cookie_over_every_rotation(server, alice) -> None:
    client = signed_in(alice)
    cookie = client.cookies["sessionid"].value
    for arguments in ((), (), ("--forget-previous",)):
        rotate(server, *arguments)
        assert is_in(client)
    assert client.cookies["sessionid"].value == cookie


def test_a_changed_password_still_ends_sign_ins_made_before_a_rotation(server, alice) -> None:
    client = signed_in(alice)
    rotate(server)
    alice.set_password("another long passphrase")
    alice.save()
    assert not is_in(client)


def test_second_factors_work_and_stay_encrypted_over_every_rotation(server, alice) -> None:
    factor, recovery = TOTP.activate(alice, SECRET), RecoveryCodes.activate(alice)
    codes, sealed = recovery.generate_codes(), factor.instance.data["secret"]
    for arguments in ((), (), ("--forget-previous",)):
        rotate(server, *arguments)
        recovery.instance.refresh_from_db()
        assert recovery.generate_codes() == codes
    assert code_is_taken(factor)
    assert factor.instance.data["secret"] != sealed and SECRET not in str(factor.instance.data)


def test_two_rotations_without_a_start_in_between_lose_nothing_either(server, alice) -> None:
    client, factor = signed_in(alice), TOTP.activate(alice, SECRET)
    call_command("rotate_secrets")
    call_command("rotate_secrets")  # of a process that read the first secret before
    restart(server)
    assert is_in(client) and code_is_taken(factor)


def test_keys_of_open_episodes_and_mailed_links_are_taken_until_the_old_secret_is_forgotten(
    server, project, alice
) -> None:
    session = factories.session_make(project)
    before, link = episode_key(session.id), default_token_generator.make_token(alice)
    rotate(server)
    after = episode_key(session.id)
    assert before != after and relay_takes(before) and relay_takes(after)
    assert default_token_generator.check_token(alice, link)
    rotate(server, "--forget-previous")
    assert relay_takes(after) and not relay_takes(before)
    assert not default_token_generator.check_token(alice, link)


def test_a_runtime_gets_both_keys(server, project) -> None:
    rotate(server)
    session, token = factories.runtime_make(project, SessionState.PROVISIONING)
    assignment = leases.runtime_register(session=leases.lease_check(token=token))
    assigned = [assignment.episode_signing_key, *assignment.previous_episode_signing_keys]
    assert [bytes.fromhex(key) for key in assigned] == leases.episode_signing_keys(
        session_id=session.id
    )
    assert len(assigned) == 2


def test_deliveries_convince_who_knows_the_old_secret_and_who_knows_the_new_one(
    server, project
) -> None:
    webhook = webhook_create(project=project, url="https://example.com/", topics=list(WebhookTopic))
    (old,) = webhook_secrets(webhook)
    rotate(server)
    new, _ = webhook_secrets(Webhook.objects.get())
    event = WebhookEvent(
        id="evt", topic="session.state", at="2026-01-01T00:00:00Z", project_id=project.id, data={}
    )
    body, now = event.model_dump_json().encode(), int(time.time())
    header = received.sign(body, *webhook_secrets(webhook), at=now)
    for secret in (old, new):
        assert received.verify(body, header, secret).id == "evt"
    with pytest.raises(received.BadSignature):
        received.verify(body, header, "whsec_another")
    rotate(server, "--forget-previous")
    assert webhook_secrets(webhook) == [new]


def test_api_keys_are_nothing_of_it(server, project, api_key) -> None:
    rotate(server)
    rotate(server)
    assert key_authenticate(secret=api_key).project == project


# -- How it is done ---------------------------------------------------------------------------------------------------


def test_both_secrets_change_privately_and_the_command_shows_none(server, tmp_path, capsys) -> None:
    before = seaweedfs.credentials_get(tmp_path)
    rotate(server)
    after = seaweedfs.credentials_get(tmp_path)
    assert not set(before.values()) & set(after.values())
    assert (
        server.SECRET_KEY != "first"
        and server.SECRET_KEY_FALLBACKS == ["first"]
        and len(server.SECRET_KEY) > 64
    )
    for path in (tmp_path / "secret_key", tmp_path / "s3" / "credentials.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    said = capsys.readouterr().out
    assert "store's credentials" in said and "webhooks" in said
    assert not any(secret in said for secret in (server.SECRET_KEY, *after.values()))


@pytest.mark.system
def test_the_store_serves_what_it_held_under_its_new_credentials_alone(server, tmp_path) -> None:
    @contextmanager
    def serving():
        with (tmp_path / "weed.log").open("ab") as log:
            try:
                process = seaweedfs.start(tmp_path, log=log.fileno())
            except seaweedfs.WeedMissing as error:
                pytest.skip(str(error))
        try:
            object_store.ready_wait(timeout_s=60, stopped=lambda: process.poll() is not None)
            yield
        finally:
            process.terminate()
            process.wait(60)

    with serving():
        object_store.put("kept", b"from before")
    old = object_store.store_get()
    call_command("rotate_secrets")
    with serving():
        assert object_store.get("kept") == b"from before"
        stale = replace_fields(
            object_store.store_get(), access_key=old.access_key, secret_key=old.secret_key
        )
        with pytest.raises(ClientError, match="InvalidAccessKeyId|403"):
            object_store.client_of(stale).get_object(Bucket=server.S3_BUCKET, Key="kept")


@pytest.mark.parametrize(
    ("step", "arguments"),
    [
        ("sealed_renew", ()),
        ("credentials_rotate", ()),
        ("replace", ()),
        ("sealed_renew", ("--forget-previous",)),  # which does not touch the store
        ("replace", ("--forget-previous",)),
    ],
)
def test_an_interruption_at_any_step_loses_nothing_and_it_can_be_done_again(
    server, alice, monkeypatch, step, arguments
) -> None:
    rotate(server)
    client, factor = signed_in(alice), TOTP.activate(alice, SECRET)
    with monkeypatch.context() as patched:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(
            secret_rotation.seaweedfs if step == "credentials_rotate" else secret_rotation,
            step,
            killed,
        )
        with pytest.raises(KeyboardInterrupt):
            call_command("rotate_secrets", *arguments)
    restart(server)
    assert is_in(client)
    rotate(server, *arguments)
    assert is_in(client) and code_is_taken(factor)


def test_a_secret_is_on_the_disk_with_its_name_when_it_is_replaced(
    server, tmp_path, monkeypatch
) -> None:
    synced = []
    monkeypatch.setattr(
        "console.config.private_files.os.fsync",
        lambda of: synced.append(os.readlink(f"/proc/self/fd/{of}")),
    )
    replace(tmp_path / "secret_key", "another")
    draft, folder = synced
    assert draft.startswith(f"{tmp_path}/") and folder == str(tmp_path)


def test_a_full_disk_leaves_the_secret_and_no_draft(server, tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("console.config.private_files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace(tmp_path / "secret_key", "another")
    assert (tmp_path / "secret_key").read_text() == "first"
    assert not list(tmp_path.glob("tmp*"))


# -- When it is refused -----------------------------------------------------------------------------------------------


def refused(server, *arguments: str) -> str:
    files = {
        path: path.read_text()
        for path in server.DATA.rglob("*")
        if path.is_file() and path.name != "up.lock"
    }
    with pytest.raises(CommandError) as error:
        call_command("rotate_secrets", *arguments)
    assert files == {path: path.read_text() for path in files}
    return str(error.value)


@pytest.mark.parametrize("arguments", [(), ("--forget-previous",)])
def test_a_secret_of_the_environment_is_left_to_who_set_it(server, arguments) -> None:
    server.SECRET_KEY_IS_GIVEN = True
    said = refused(server, *arguments)
    assert "TINKERSCRIPT_SECRET_KEY to a new key" in said and "nothing was changed" in said


def test_what_lies_under_an_older_secret_of_the_environment_is_renewed_at_the_start(
    server, alice, monkeypatch
) -> None:
    client, factor = signed_in(alice), TOTP.activate(alice, SECRET)
    server.SECRET_KEY_IS_GIVEN, server.SECRET_KEY, server.SECRET_KEY_FALLBACKS = (
        True,
        "second",
        ["first"],
    )
    monkeypatch.setattr(object_store, "ready_wait", lambda **_: None)
    call_command("prepare")
    server.SECRET_KEY_FALLBACKS = []
    assert is_in(client) and code_is_taken(factor)


def test_a_store_of_ones_own_is_left_to_who_runs_it(server, tmp_path, capsys) -> None:
    server.S3_ENDPOINT_URL = "https://s3.example"
    before = seaweedfs.credentials_get(tmp_path)
    rotate(server)
    assert seaweedfs.credentials_get(tmp_path) == before
    assert "store's credentials" not in capsys.readouterr().out


def test_a_running_server_is_not_rotated_under(server, tmp_path, project) -> None:
    with lock_take(tmp_path / "run"):
        assert "Stop it" in refused(server)
    factories.runtime_make(project)
    assert "1 runtimes" in refused(server)
    Session.objects.update(launch_handle=None)
    leader_renew(holder="another", now=timezone.now())
    assert "reconciler" in refused(server)


def test_there_must_be_something_to_forget(server) -> None:
    assert "No older secret" in refused(server, "--forget-previous")
