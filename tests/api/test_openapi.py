"""The committed document is the one that the routes give."""

import json

from django.test import Client

from api.openapi import FILE, document, text


def test_the_committed_document_is_current() -> None:
    assert FILE.read_text() == text(), "run `python -m api.openapi` and commit openapi.json"


def test_the_served_document_is_the_committed_one(client: Client) -> None:
    assert client.get("/openapi.json").content.decode() == FILE.read_text()


def test_every_operation_is_described_secured_and_says_how_it_fails() -> None:
    schema = document()
    assert set(schema["components"]["securitySchemes"]) == {"ApiKey", "ConsoleSession"}
    ids = []
    for methods in schema["paths"].values():
        for operation in methods.values():
            ids.append(operation["operationId"])
            assert operation["summary"]
            assert operation["security"] == [{"ApiKey": []}, {"ConsoleSession": []}]
            failure = operation["responses"]["default"]["content"]["application/json"]["schema"]
            assert failure == {"$ref": "#/components/schemas/ErrorBody"}
    assert len(ids) == len(set(ids))


def test_the_lease_side_is_not_in_it() -> None:
    assert not [path for path in document()["paths"] if "runtime" in path]
    assert "Assignment" not in text()


def test_every_reference_leads_somewhere() -> None:
    schema = document()
    names = {part.partition('"')[0] for part in json.dumps(schema).split("#/components/schemas/")[1:]}
    assert names <= set(schema["components"]["schemas"])
