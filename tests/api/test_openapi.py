"""The committed document is the one that the routes give."""

import json
from typing import Any

from django.test import Client

from api.openapi import FILE, text
from support import openapi_summary


def test_the_committed_document_is_current() -> None:
    assert FILE.read_text() == text(), "run `python -m api.openapi` and commit openapi.json"


def test_the_served_document_is_the_committed_one(client: Client) -> None:
    assert client.get("/openapi.json").content.decode() == FILE.read_text()


def committed() -> dict[str, Any]:
    """The document, without making it once more: it takes a second."""
    return json.loads(FILE.read_text())


def test_every_operation_is_described_secured_and_shows_how_it_fails() -> None:
    schema = committed()
    assert set(schema["components"]["securitySchemes"]) == {"ApiKey", "ConsoleSession", "ShareLink"}
    ids = []
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            ids.append(operation["operationId"])
            assert operation["summary"]
            by_link = path.startswith("/v1/shared")
            assert operation["security"] == (
                [{"ShareLink": []}] if by_link else [{"ApiKey": []}, {"ConsoleSession": []}]
            )
            failure = operation["responses"]["default"]["content"]["application/json"]["schema"]
            assert failure == {"$ref": "#/components/schemas/ErrorBody"}
    assert len(ids) == len(set(ids))


def test_the_lease_side_is_not_in_it() -> None:
    assert not [path for path in committed()["paths"] if "runtime" in path]
    assert "Assignment" not in FILE.read_text()


def test_every_reference_leads_somewhere() -> None:
    schema = committed()
    names = {
        part.partition('"')[0] for part in json.dumps(schema).split("#/components/schemas/")[1:]
    }
    assert names <= set(schema["components"]["schemas"])


def test_the_document_keeps_every_operation_and_type_that_clients_were_given() -> None:
    """The summary is of the document as it was first published. What is added may stay out of
    it.
    """
    kept, now = json.loads(openapi_summary.FILE.read_text()), openapi_summary.summary(committed())
    for part, entries in kept.items():
        gone = {
            name: sorted(set(facts) - set(now[part].get(name, [])))
            for name, facts in entries.items()
        }
        assert {name: facts for name, facts in gone.items() if facts or name not in now[part]} == {}
    needed = [
        (name, fact)
        for name, facts in now["operations"].items()
        for fact in facts
        if name in kept["operations"]
        and fact.startswith("needs ")
        and fact not in kept["operations"][name]
    ]
    assert needed == [], "an operation asks for more than it did"


def test_the_summary_notices_what_a_client_would() -> None:
    schema = committed()
    kept = openapi_summary.summary(schema)
    del schema["paths"]["/v1/sessions"]["get"]["parameters"][0]
    del schema["components"]["schemas"]["SessionView"]["properties"]["state"]
    now = openapi_summary.summary(schema)
    assert set(kept["operations"]["session_list"]) - set(now["operations"]["session_list"]) == {
        "takes query cursor"
    }
    assert set(kept["schemas"]["SessionView"]) - set(now["schemas"]["SessionView"]) == {
        "always state"
    }
