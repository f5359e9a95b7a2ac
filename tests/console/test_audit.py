"""The audit log: what is done is in it, and what is altered in it is found."""

import hashlib
import itertools
import json
import logging
from datetime import datetime

import pytest
from django.core.management import CommandError, call_command
from django.core.serializers.json import DjangoJSONEncoder
from django.db import Error, connection, transaction
from django.test import Client

from console.audit import services as audit_services
from console.audit.models import AuditHead, AuditRecord
from console.audit.services import audit_record
from console.errors import Conflict
from console.object_store import client as object_store
from console.scheduling import audit_heads
from console.users.models import Project, User
from support import factories
from tinkerscript.wire.account import Scope

JSON = "application/json"


def person(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def actions(project: Project) -> list[str]:
    rows = AuditRecord.objects.filter(project_id=project.id).order_by("number")
    return [json.loads(row.content)["action"] for row in rows]


def sql(statement: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


@pytest.fixture
def log(project) -> Project:
    """Five entries: the one of the project's making, and four more."""
    for number in range(4):
        audit_record(
            project_id=project.id,
            actor="alice",
            action=f"act_{number}",
            details={"n": number, "ü": 0.1},
        )
    return project


@pytest.fixture
def untriggered(log) -> Project:
    """The log under an attacker who may do anything to the database."""
    drop = "DROP TRIGGER audit_append_only"
    sql(drop if connection.vendor == "sqlite" else f"{drop} ON console_auditrecord")
    return log


def verify() -> str:
    with pytest.raises(CommandError) as found:
        call_command("verify_audit")
    return str(found.value)


# -- What is in it ----------------------------------------------------------------------------------------------------


def test_what_changes_something_is_recorded_with_who_and_what(project, alice, client_for) -> None:
    made = person(alice).post(
        "/v1/keys", {"name": "laptop"}, content_type=JSON, headers={"X-Request-Id": "mine"}
    )
    key, secret = made.json(), made.json()["secret"]
    session = (
        client_for(secret)
        .post("/v1/sessions", {"base_model": factories.BASE_MODEL}, content_type=JSON)
        .json()
    )
    client_for(secret).post(f"/v1/sessions/{session['id']}/stop")
    entries = person(alice).get("/v1/audit").json()["items"]
    assert [entry["action"] for entry in entries] == [
        "session_stop",
        "session_create",
        "key_create",
        "project_create",
    ]
    stopped, started, keyed, _ = entries
    assert (keyed["actor"], keyed["key_id"], keyed["request_id"]) == (alice.email, None, "mine")
    assert (keyed["target"], keyed["details"]) == ({"id": key["id"]}, {"name": "laptop"})
    assert (started["key_id"], started["target"]) == (key["id"], {"id": session["id"]})
    assert stopped["target"] == {"session_id": session["id"]}
    assert secret not in str(entries)


def test_entries_are_found_by_who_what_whereon_and_when(project, alice) -> None:
    hostile = {"actor": 'eve"actor":"alice', "at": "1999", "text": '","at":"1999'}
    done = [("Bob", "key_revoke"), ("Zoë", "session_delete"), ("Bob", "session_stop")]
    for number, (actor, action) in enumerate(done):
        target = {"session_id": f"ses_{number}"}
        audit_record(
            project_id=project.id,
            actor=actor,
            action=action,
            target=target,
            details=hostile,
            request_id="r",
        )
    at = json.loads(AuditRecord.objects.get(project_id=project.id, number=3).content)["at"]

    def found(**query: str | int) -> list[int]:
        page = person(alice).get("/v1/audit", query).json()
        return [entry["number"] for entry in page["items"]]

    assert found(actor="bOB") == [4, 2]
    assert found(actor="Zoë") == [3]
    assert (
        found(actor="act")
        == found(action="actor")
        == found(target="1999")
        == found(actor="%")
        == []
    )
    assert found(action="SESSION_") == [4, 3]
    assert found(action="session", actor="bob") == [4]
    assert found(target="ses_2") == [4]
    assert found(target="SES_") == [4, 3, 2]
    assert (
        found(target="id") == found(target=":") == found(target="}") == found(target='"') == []
    ), "of ids alone"
    assert found(since=at)[:2] == [4, 3]  # and what was written in the same second
    assert found(since="2999-01-01T00:00:00Z") == found(until="1970-01-01T00:00:00+14:00") == []
    assert found(until="2999-01-01T01:00:00+02:00") == [4, 3, 2, 1]
    page = person(alice).get("/v1/audit", {"actor": "bob", "limit": 1}).json()
    assert (page["next_cursor"], found(actor="bob", before=page["next_cursor"])) == (4, [2])
    for wrong in (
        "2026-01-01",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "1969-12-31T23:59:59Z",
    ):
        for name, path in itertools.product(("since", "until"), ("/v1/audit", "/v1/sessions")):
            assert person(alice).get(path, {name: wrong}).status_code == 400, (path, name, wrong)
    assert person(alice).get("/v1/audit", {"actor": "x" * 321}).status_code == 400
    audit_record(
        project_id=project.id, actor="al", action="other", target={"email": 'a\\"[b', "id": "é"}
    )
    assert (
        found(target='\\"[B') == found(target="é") == [5]
        and found(target=".") == found(target='"id') == []
    )


def test_a_search_reads_so_many_entries_for_a_page_and_goes_on_with_the_next(
    project, alice, monkeypatch
) -> None:
    monkeypatch.setattr(audit_services, "SEARCHED", 4)
    for number in range(9):
        actor = "Zoë" if number in (0, 1, 8) else "Bob"
        audit_record(project_id=project.id, actor=actor, action="key_create")

    def page(**query: str | int) -> tuple[list[int], int | None]:
        said = person(alice).get("/v1/audit", query).json()
        return [entry["number"] for entry in said["items"]], said["next_cursor"]

    assert page(actor="zoë") == ([10], 7)
    assert page(actor="zoë", before=7) == ([3], 3), "found as far as it has read"
    assert page(actor="zoë", before=3) == ([2], None)
    assert page(actor="nobody") == ([], 7) and page(actor="nobody", before=3) == ([], None)
    assert page(actor="bob", limit=2) == ([9, 8], 8) and page(actor="bob", limit=2, before=8) == (
        [7, 6],
        6,
    )
    assert page(limit=200)[1] is None, "what is not searched is read as before"


def test_reading_and_being_refused_leave_no_entry_and_a_repetition_no_second(
    project, alice
) -> None:
    client, before = person(alice), actions(project)
    client.get("/v1/sessions")
    client.post("/v1/sessions", {"base_model": "nothing"}, content_type=JSON)
    client.post(
        "/v1/sessions",
        {"base_model": "nothing"},
        content_type=JSON,
        headers={"Idempotency-Key": "k"},
    )
    assert actions(project) == before
    for _ in range(2):
        client.post(
            "/v1/projects", {"name": "p"}, content_type=JSON, headers={"Idempotency-Key": "k2"}
        )
    assert actions(project) == [*before, "project_create"]


def test_joining_a_project_is_in_its_log_and_not_in_the_joiners(
    project, alice, bob, settings
) -> None:
    settings.ACCOUNT_EMAIL_VERIFICATION = "none"
    invited = person(alice).post("/v1/members", {"email": bob.email}, content_type=JSON).json()
    person(bob).post(f"/v1/invitations/{invited['id']}/accept")
    assert actions(project) == ["project_create", "member_invite", "invitation_accept"]
    assert actions(Project.objects.exclude(id=project.id).get()) == ["project_create"]


def test_what_fails_afterwards_takes_its_entry_with_it(project, alice) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        audit_record(project_id=project.id, actor="alice", action="undone")
        raise ZeroDivisionError
    assert "undone" not in actions(project)
    call_command("verify_audit")


def test_pages_follow_each_other_to_the_first_entry(log, alice) -> None:
    numbers, before = [], None
    while True:
        query = f"?limit=2{f'&before={before}' if before else ''}"
        page = person(alice).get(f"/v1/audit{query}").json()
        numbers += [entry["number"] for entry in page["items"]]
        before = page["next_cursor"]
        if before is None:
            break
    assert numbers == [5, 4, 3, 2, 1]


def test_only_owners_read_it(log, alice, member, bob, client_for) -> None:
    headers = {"X-Project-Id": log.id}
    assert person(alice).get("/v1/audit", headers=headers).status_code == 200
    assert person(member).get("/v1/audit", headers=headers).status_code == 403
    assert person(bob).get("/v1/audit", headers=headers).status_code == 404
    assert client_for(factories.key_make(log, alice)).get("/v1/audit").status_code == 403
    assert (
        client_for(factories.key_make(log, alice, [Scope.ADMIN])).get("/v1/audit").status_code
        == 200
    )


def test_what_is_too_long_is_left_out_and_marked(project) -> None:
    record = audit_record(
        project_id=project.id, actor="a", action="b", details={"text": "x" * 5000}
    )
    assert json.loads(record.content)["details"] == {"too_long": True}


# -- What is altered --------------------------------------------------------------------------------------------------


def test_a_log_that_no_one_touched_verifies_by_our_command_and_by_hand(log, alice, capsys) -> None:
    call_command("verify_audit")
    head = AuditHead.objects.get(project_id=log.id)
    assert f"{log.id} 5 {head.sha256}" in capsys.readouterr().out
    previous = ""
    for entry in reversed(person(alice).get("/v1/audit").json()["items"]):
        assert entry["previous_sha256"] == previous
        previous = hashlib.sha256(f"{previous}\n{entry['content']}".encode()).hexdigest()
        assert entry["sha256"] == previous
        assert json.loads(entry["content"])["action"] == entry["action"]


def test_the_code_and_the_database_refuse_to_alter_an_entry(log) -> None:
    row = AuditRecord.objects.filter(project_id=log.id).first()
    rows = AuditRecord.objects.all()
    for change in (row.save, row.delete, rows.delete, lambda: rows.update(number=9)):
        with pytest.raises(Conflict):
            change()
    with pytest.raises(Error, match="only added to"), transaction.atomic():
        sql("UPDATE console_auditrecord SET content = '{}' WHERE id = %s", row.id)


def test_an_altered_entry_is_found(untriggered) -> None:
    row = AuditRecord.objects.get(project_id=untriggered.id, number=3)
    sql(
        "UPDATE console_auditrecord SET content = %s WHERE id = %s",
        row.content.replace("act_1", "act_9"),
        row.id,
    )
    assert verify() == f"{untriggered.id}: entry 3 was altered"


@pytest.mark.parametrize("column", ["actor", "action", "target"])
def test_an_entry_that_is_found_by_other_words_than_it_has_is_named(untriggered, column) -> None:
    row = AuditRecord.objects.get(project_id=untriggered.id, number=3)
    sql(f"UPDATE console_auditrecord SET {column} = 'mallory' WHERE id = %s", row.id)
    assert verify() == f"{untriggered.id}: entry 3 was altered in what it is found by"


def test_an_entry_is_as_written_after_a_backup_whose_times_have_milliseconds(untriggered) -> None:
    for row in AuditRecord.objects.filter(project_id=untriggered.id):
        assert datetime.fromisoformat(json.loads(DjangoJSONEncoder().encode(row.at))) == row.at
    sql("UPDATE console_auditrecord SET at = '2020-01-02 03:04:05' WHERE number = 2")
    assert verify() == f"{untriggered.id}: entry 2 was altered in what it is found by"


def test_an_altered_entry_with_a_hash_to_match_breaks_the_chain(untriggered) -> None:
    row = AuditRecord.objects.get(project_id=untriggered.id, number=3)
    content = row.content.replace("act_1", "act_9")
    sha256 = hashlib.sha256(f"{row.previous_sha256}\n{content}".encode()).hexdigest()
    sql(
        "UPDATE console_auditrecord SET content = %s, sha256 = %s WHERE id = %s",
        content,
        sha256,
        row.id,
    )
    assert verify().splitlines() == [
        f"{untriggered.id}: entry 3 was not written by this server",
        f"{untriggered.id}: entry 4 does not follow the one before it",
    ]


def test_a_log_that_was_written_anew_whole_is_found(untriggered) -> None:
    """By an attacker who can write every row and compute every hash."""
    previous = ""
    for row in AuditRecord.objects.filter(project_id=untriggered.id).order_by("number"):
        content = row.content.replace("alice", "mallory")
        sha256 = hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()
        change = "UPDATE console_auditrecord SET content = %s, previous_sha256 = %s, sha256 = %s WHERE id = %s"
        sql(change, content, previous, sha256, row.id)
        previous = sha256
    sql("UPDATE console_audithead SET sha256 = %s WHERE project_id = %s", previous, untriggered.id)
    assert f"{untriggered.id}: entry 5 was not written by this server" in verify()


def test_a_log_that_was_cut_short_with_its_head_is_found(untriggered) -> None:
    last = AuditRecord.objects.get(project_id=untriggered.id, number=3)
    sql("DELETE FROM console_auditrecord WHERE project_id = %s AND number > 3", untriggered.id)
    sql(
        "UPDATE console_audithead SET number = 3, sha256 = %s WHERE project_id = %s",
        last.sha256,
        untriggered.id,
    )
    assert (
        verify() == f"{untriggered.id}: that the log ends at entry 3 was not written by this server"
    )


def test_an_older_state_and_a_missing_log_are_found_against_what_was_kept(
    untriggered, tmp_path, capsys
) -> None:
    old = AuditHead.objects.get(project_id=untriggered.id)
    audit_record(project_id=untriggered.id, actor="mallory", action="act_to_hide")
    call_command("verify_audit")
    kept = tmp_path / "kept"
    kept.write_text(capsys.readouterr().out)
    call_command("verify_audit", against=str(kept))
    sql("DELETE FROM console_auditrecord WHERE project_id = %s AND number > 5", untriggered.id)
    old.save()
    call_command("verify_audit")  # it was once so: nothing in the database can tell
    with pytest.raises(CommandError, match="entry 6 was written and is not there"):
        call_command("verify_audit", against=str(kept))
    for table in ("auditrecord", "audithead"):
        sql(f"DELETE FROM console_{table} WHERE project_id = %s", untriggered.id)
    call_command("verify_audit")
    with pytest.raises(CommandError, match="entry 6 was written and is not there"):
        call_command("verify_audit", against=str(kept))


def test_where_the_logs_end_is_kept_in_the_store_once_an_hour(log, s3, caplog) -> None:
    object_store.delete_under(audit_heads.PREFIX)
    audit_heads.kept_here.clear()
    with caplog.at_level(logging.INFO):
        audit_heads.audit_heads_keep()
    (key,) = object_store.keys_under(audit_heads.PREFIX)
    head = AuditHead.objects.get(project_id=log.id)
    assert f"{log.id} 5 {head.sha256}" in object_store.get(key).decode() and key in caplog.text
    audit_record(project_id=log.id, actor="alice", action="later")
    audit_heads.kept_here.clear()  # another process
    audit_heads.audit_heads_keep()
    assert "5" in object_store.get(key).decode().split()
    call_command("verify_audit", against="store")
    sql("DELETE FROM console_auditrecord WHERE project_id = %s", log.id)
    with pytest.raises(CommandError, match="entry 5 was written and is not there"):
        call_command("verify_audit", against="store")


@pytest.mark.parametrize("text", ["", "not a line\n"])
def test_what_cannot_be_compared_with_is_refused(text, log, tmp_path) -> None:
    path = tmp_path / "kept"
    path.write_text(text)
    with pytest.raises(CommandError, match="kept"):
        call_command("verify_audit", against=str(path))


def test_a_deleted_entry_is_found_in_the_middle_and_at_the_end(untriggered) -> None:
    sql("DELETE FROM console_auditrecord WHERE project_id = %s AND number = 2", untriggered.id)
    assert f"{untriggered.id}: entries 2 to 2 are missing" in verify()
    sql("DELETE FROM console_auditrecord WHERE project_id = %s AND number > 1", untriggered.id)
    assert verify() == f"{untriggered.id}: the log ends at entry 1, but 5 were written"
    sql("DELETE FROM console_auditrecord WHERE project_id = %s", untriggered.id)
    assert verify() == f"{untriggered.id}: the log ends at entry 0, but 5 were written"


def test_a_chain_cannot_be_passed_off_as_another_projects(untriggered, bob) -> None:
    bobs = Project.objects.exclude(id=untriggered.id).get()
    for table in ("auditrecord", "audithead"):
        sql(f"DELETE FROM console_{table} WHERE project_id = %s", untriggered.id)
        sql(
            f"UPDATE console_{table} SET project_id = %s WHERE project_id = %s",
            untriggered.id,
            bobs.id,
        )
    assert f"{untriggered.id}: entry 1 was moved here from elsewhere" in verify()


def test_one_projects_damage_is_not_anothers(untriggered, bob, capsys) -> None:
    sql(
        "UPDATE console_auditrecord SET sha256 = 'x' WHERE project_id = %s AND number = 5",
        untriggered.id,
    )
    bobs = Project.objects.exclude(id=untriggered.id).get()
    call_command("verify_audit", bobs.id)
    assert bobs.id in capsys.readouterr().out
    with pytest.raises(CommandError):
        call_command("verify_audit", untriggered.id)
