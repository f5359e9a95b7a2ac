"""Saved views of charts: one list of the project, each by its name, of parts that an address
has.
"""

import pytest
from django.test import Client

from console.sessions.saved_views.models import SavedView
from console.sessions.saved_views.services import MAX_VIEWS
from console.users.models import Project, User
from support import factories
from tinkerscript.wire.account import Role

JSON = "application/json"
VIEW = {"name": "By time", "address": "x=time&smooth=0.6&open=speed%2Cpolicy"}


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def made(owner: Client, **body: object) -> dict[str, object]:
    answer = owner.post("/v1/saved-views", VIEW | body, content_type=JSON)
    assert answer.status_code == 201, answer.content
    return answer.json()


def listed(owner: Client) -> list[tuple[str, str, bool]]:
    views = owner.get("/v1/saved-views").json()["items"]
    return [(view["name"], view["address"], view["pinned"]) for view in views]


def test_views_are_kept_listed_pinned_ones_first_renamed_and_removed(
    owner: Client, project: Project
) -> None:
    by_time, plain = made(owner), made(owner, name="All", address="")
    assert listed(owner) == [("All", "", False), ("By time", VIEW["address"], False)]
    owner.patch(
        f"/v1/saved-views/{by_time['id']}", {"pinned": True, "name": "Time"}, content_type=JSON
    )
    assert listed(owner) == [("Time", VIEW["address"], True), ("All", "", False)]
    assert owner.delete(f"/v1/saved-views/{plain['id']}").status_code == 204
    assert listed(owner) == [("Time", VIEW["address"], True)]
    assert owner.delete(f"/v1/saved-views/{plain['id']}").status_code == 404


def test_a_name_is_given_once_in_a_project(owner: Client, project: Project) -> None:
    made(owner)
    other = made(owner, name="Other")
    assert owner.post("/v1/saved-views", VIEW, content_type=JSON).status_code == 409
    renamed = owner.patch(f"/v1/saved-views/{other['id']}", {"name": "By time"}, content_type=JSON)
    assert renamed.status_code == 409 and "name" in renamed.json()["error"]["message"]
    assert (
        owner.patch(
            f"/v1/saved-views/{other['id']}", {"name": "Other"}, content_type=JSON
        ).status_code
        == 200
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": ""}, "name"),
        ({"name": "  "}, "name"),
        ({"name": "x" * 61}, "name"),
        ({"address": "x=time&token=212"}, "token, which is no part of a view"),
        ({"address": "x=time&x=step"}, "twice"),
        ({"address": "time"}, "no part of an address"),
        ({"address": "x=" + "1" * 400}, "address"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_is_no_view_is_refused_by_the_name_of_its_field(
    owner: Client, project: Project, wrong, said
) -> None:
    refused = owner.post("/v1/saved-views", VIEW | wrong, content_type=JSON)
    assert refused.status_code == 400 and said in refused.content.decode()
    assert not SavedView.objects.exists()


@pytest.mark.parametrize("nothing", [{}, {"name": None}, {"pinned": None}])
def test_a_change_of_nothing_is_refused(owner: Client, project: Project, nothing) -> None:
    view = made(owner)
    assert (
        owner.patch(f"/v1/saved-views/{view['id']}", nothing, content_type=JSON).status_code == 400
    )
    assert listed(owner) == [("By time", VIEW["address"], False)]


def test_a_project_has_a_bound_of_views(owner: Client, project: Project) -> None:
    SavedView.objects.bulk_create(
        SavedView(project=project, name=str(number)) for number in range(MAX_VIEWS)
    )
    refused = owner.post("/v1/saved-views", VIEW, content_type=JSON)
    assert refused.status_code == 409 and str(MAX_VIEWS) in refused.json()["error"]["message"]


def test_a_viewer_reads_views_and_changes_none_and_an_outsider_sees_none(
    owner: Client, project: Project, bob: User
) -> None:
    view = made(owner)
    vera = factories.member_make(project, "vera", Role.VIEWER)
    viewer, outsider = Client(headers={"X-Project-Id": project.id}), Client()
    viewer.force_login(vera)
    outsider.force_login(bob)
    assert [one["name"] for one in viewer.get("/v1/saved-views").json()["items"]] == ["By time"]
    assert viewer.post("/v1/saved-views", VIEW, content_type=JSON).status_code == 403
    assert viewer.delete(f"/v1/saved-views/{view['id']}").status_code == 403
    assert (
        outsider.patch(
            f"/v1/saved-views/{view['id']}", {"pinned": True}, content_type=JSON
        ).status_code
        == 404
    )
    assert outsider.get("/v1/saved-views").json()["items"] == []
