"""Creating, listing, stopping and waking sessions; the catalogue; the queue."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from console.catalogue import base_models as catalogue
from console.errors import Conflict, InvalidRequest, ModelUnsupported, NotFound, UnknownBaseModel
from console.live.models import EventRecord
from console.sessions import selectors, services
from console.sessions.checkpoints import checkpoints
from console.sessions.models import RuntimeSpan, Session
from console.sessions.services import route_get
from console.users.selectors import project_get
from support import factories
from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.reading.facets import bound_of
from tinkerscript.wire.sessions import SessionCreate, SessionSort, SessionState


def create(project, base_model=factories.BASE_MODEL, **config):
    body = SessionCreate(base_model=base_model, config=SessionConfig(**config))
    return services.session_create(project=project, body=body)


def test_a_new_session_is_queued_and_reports_it(project):
    session = create(project, grpo_n=4)
    assert (session.state, session.config["grpo_n"]) == (SessionState.QUEUED, 4)
    assert SessionConfig.model_validate(session.config).grpo_n == 4
    assert EventRecord.objects.get(session_id=session.id).data["to"] == "queued"


def test_an_unknown_base_model_is_refused_with_the_known_ones(project):
    with pytest.raises(UnknownBaseModel) as refused:
        create(project, "SmolLM2")
    assert factories.BASE_MODEL in refused.value.details["known"]
    assert factories.BASE_MODEL in refused.value.hint
    assert not Session.objects.exists()


def test_a_context_longer_than_the_model_reads_is_refused(project):
    with pytest.raises(InvalidRequest, match="8192") as refused:
        create(project, max_context_length=8193)
    assert [one["field"] for one in refused.value.details["fields"]] == [
        "config.max_context_length"
    ]


def test_an_answer_longer_than_the_context_is_refused(project):
    with pytest.raises(InvalidRequest, match="max_tokens") as refused:
        create(project, max_context_length=128, max_tokens=129)
    assert [one["field"] for one in refused.value.details["fields"]] == ["config.max_tokens"]


def test_a_model_whose_weights_are_missing_is_refused_with_the_way_to_get_them(
    project, settings, tmp_path
):
    settings.DATA = tmp_path
    with pytest.raises(InvalidRequest) as refused:
        create(project)
    assert "bundled_model" in refused.value.hint


def test_extra_models_stand_in_the_catalogue_with_what_their_folder_holds(settings, tmp_path):
    fields = {"text_config": {"max_position_embeddings": 512}, "vision_config": {"depth": 1}}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes({"weight": [2, 3]}))
    settings.EXTRA_MODELS = {"tiny": str(tmp_path)}
    assert catalogue.base_model_resolve("tiny").path == str(tmp_path)
    views = {view.name: view for view in catalogue.base_model_list()}
    tiny = views["tiny"]
    assert (tiny.parameters, tiny.context_length, tiny.images, tiny.tools) == (6, 512, True, None)
    assert views[factories.BASE_MODEL].parameters == 134_515_008


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (
            {"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True},
            "T5ForConditionalGeneration.*is_encoder_decoder",
        ),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"vocab_size": 2}, "vocab_size is 2.*tokens up to 2"),
    ],
)
def test_a_model_that_is_not_trained_right_is_refused_before_anything_starts(
    project, settings, tmp_path, fields, named
):
    (tmp_path / "config.json").write_text(json.dumps(fields))
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"model": {"vocab": {"a": 0, "b": 1, "c": 2}}})
    )
    settings.EXTRA_MODELS = {"mine": str(tmp_path)}
    with pytest.raises(ModelUnsupported, match=named) as refused:
        services.session_create(project=project, body=SessionCreate(base_model="mine"))
    assert "docs/models.md" in refused.value.hint
    assert selectors.session_list(project=project) == ([], None)


def test_the_configuration_of_a_new_session_shows_the_rate_of_its_models_size(project):
    config = SessionConfig(**create(project).config)
    assert (config.learning_rate, config.clip_low, config.clip_high) == (2e-5, None, None)


def test_a_folder_is_a_base_model_in_development_only(settings, tmp_path):
    with pytest.raises(UnknownBaseModel):
        catalogue.base_model_resolve(str(tmp_path))
    settings.DEBUG = True
    assert catalogue.base_model_resolve(str(tmp_path)).path == str(tmp_path)
    with pytest.raises(UnknownBaseModel):
        catalogue.base_model_resolve(str(tmp_path / "absent"))
    with pytest.raises(UnknownBaseModel):
        catalogue.base_model_resolve("../secret")


def test_owner_and_member_see_a_session_and_an_outsider_gets_not_found(project, member, bob):
    session = create(project)
    assert selectors.session_get(
        project=project_get(user=member, project_id=project.id), session_id=session.id
    )
    bobs = project_get(user=bob)
    for read in (
        lambda: selectors.session_get(project=bobs, session_id=session.id),
        lambda: services.session_stop(project=bobs, session_id=session.id),
        lambda: checkpoints.checkpoint_list(project=bobs, session_id=session.id),
        lambda: checkpoints.checkpoint_request(project=bobs, session_id=session.id, kind="model"),
    ):
        with pytest.raises(NotFound):
            read()
    assert selectors.session_list(project=bobs) == ([], None)


def test_pages_follow_each_other_without_gap_or_repeat(project):
    ids = [create(project).id for _ in range(7)]
    seen, cursor = [], None
    while True:
        page, cursor = selectors.session_list(project=project, cursor=cursor, limit=3)
        seen += [session.id for session in page]
        if cursor is None:
            break
    assert seen == ids[::-1]


def test_sessions_of_one_instant_are_paged_without_gap(project):
    for _ in range(5):
        create(project)
    Session.objects.update(created_at=timezone.now())
    first, cursor = selectors.session_list(project=project, limit=3)
    second, end = selectors.session_list(project=project, cursor=cursor, limit=3)
    assert len({session.id for session in first + second}) == 5 and end is None


def paged(project, sort, reverse=False, between=lambda: None):
    """The ids of all, page by page; ``between`` is called after each page."""
    seen, cursor = [], None
    while True:
        page, cursor = selectors.session_list(
            project=project, sort=sort, reverse=reverse, cursor=cursor, limit=2
        )
        seen += [session.id for session in page]
        if cursor is None:
            return seen
        between()


def test_every_order_has_a_way_back_and_pages_without_gap_or_repeat(project):
    ids, now = [create(project).id for _ in range(7)], timezone.now()
    measures = [(None, 0), (0.5, 3), (0.5, 0), (-1.0, 9), (None, 3), (2.0, 9), (0.1, 1)]
    for number, (session_id, (reward, steps)) in enumerate(zip(ids, measures, strict=True)):
        active = None if reward is None else now - timedelta(hours=steps)
        Session.objects.filter(id=session_id).update(
            name=f"run {7 - number}",
            reward_mean=reward,
            policy_version=steps,
            last_activity_at=active,
        )
        for part in range(number % 3):
            RuntimeSpan.objects.create(
                project=project, session_id=session_id, lease_sha256=f"{number}.{part}", gpus=2 * part,
                started_at=now - timedelta(seconds=steps + 1), seen_at=now,
            )  # fmt: skip

    def order(sort, *, reverse=False):
        return [ids.index(each) for each in paged(project, sort, reverse)]

    assert order(SessionSort.REWARD) == [5, 2, 1, 6, 3, 4, 0], (
        "level ones and those without: the newest first"
    )
    assert order(SessionSort.REWARD, reverse=True) == [3, 6, 2, 1, 5, 4, 0], (
        "those without stay last"
    )
    assert order(SessionSort.STEPS) == [5, 3, 4, 1, 6, 2, 0]
    assert order(SessionSort.ACTIVE) == [2, 6, 1, 5, 3, 4, 0]
    assert order(SessionSort.DEVICE_TIME) == [5, 4, 1, 2, 6, 3, 0]
    assert order(SessionSort.NAME) == order(SessionSort.NEWEST) == [6, 5, 4, 3, 2, 1, 0]
    assert order(SessionSort.NEWEST, reverse=True) == [0, 1, 2, 3, 4, 5, 6]


def test_sessions_are_sorted_and_found_by_what_their_last_step_measured(project):
    ids = [create(project).id for _ in range(5)]
    odd = 'turns "of" a.b/7'
    last = [{odd: 3.0}, {odd: 1.0, "7": 2.0}, {}, {odd: 2.0, "7": 1.0}, None]
    for session_id, metrics in zip(ids, last, strict=True):
        for step in (1, 2) if metrics is not None else ():
            own = metrics if step == 2 else {odd: 9.0, "7": 9.0}
            data = {"step": step, "loss": float(len(own)), "metrics": own}
            EventRecord.objects.create(session_id=session_id, kind="metric", data=data)

    def order(by, *, reverse=False):
        seen, cursor = [], None
        while True:
            page, cursor = selectors.session_list(
                project=project, sort=SessionSort.MEASURE, sort_by=by, reverse=reverse, cursor=cursor, limit=2
            )  # fmt: skip
            seen += [ids.index(each.id) for each in page]
            if cursor is None:
                return seen

    def within(*bounds):
        found, _ = selectors.session_list(
            project=project, bounds=[bound_of(each) for each in bounds]
        )
        return sorted(ids.index(each.id) for each in found)

    assert order(f"metrics/{odd}") == [0, 3, 1, 4, 2], "those without it: the newest first"
    assert order(f"metrics/{odd}", reverse=True) == [1, 3, 0, 4, 2]
    assert order("metrics/7") == [1, 3, 4, 2, 0]
    assert order("loss") == [3, 1, 0, 2, 4]
    assert within(f"metrics/{odd}>=2") == [0, 3]
    assert within("metrics/7<=1.5", "loss>=2") == [3]
    for fields in (
        {"bounds": [bound_of("turns>=3")]},
        {"sort": SessionSort.MEASURE, "sort_by": "turns"},
        {"sort": SessionSort.MEASURE},
        {"sort_by": "loss"},
    ):
        with pytest.raises(InvalidRequest):
            selectors.session_list(project=project, **fields)


def test_a_measure_that_moves_while_the_list_is_read_moves_no_other_session(project):
    ids = [create(project).id for _ in range(6)]
    for reward, session_id in enumerate(ids):
        Session.objects.filter(id=session_id).update(reward_mean=float(reward))
    falls = lambda: Session.objects.filter(id=ids[4]).update(reward_mean=-1.0)  # noqa: E731  the last of the first page
    seen = paged(project, SessionSort.REWARD, between=falls)
    assert [ids.index(each) for each in seen] == [5, 4, 3, 2, 1, 0, 4], (
        "seen where it stands now, too"
    )


@pytest.mark.parametrize(
    "cursor", ["0.5~", "~ses_none", "nan~{}", "x~{}", "1e999~{}", "{}"]
)  # the last: of a list in another order
def test_what_is_no_cursor_of_a_measure_is_refused(project, cursor):
    session = create(project)
    with pytest.raises(InvalidRequest):
        selectors.session_list(
            project=project, sort=SessionSort.REWARD, cursor=cursor.format(session.id)
        )


def test_a_cursor_of_another_project_is_refused(project, bob):
    session = create(project)
    with pytest.raises(InvalidRequest):
        selectors.session_list(project=project_get(user=bob), cursor=session.id)


def test_a_session_is_found_by_a_part_of_its_name_or_id(project):
    named, other = create(project), create(project)
    Session.objects.filter(id=named.id).update(name="Night run")
    assert [found.id for found in selectors.session_list(project=project, name="night")[0]] == [
        named.id
    ]
    assert [
        found.id for found in selectors.session_list(project=project, name=other.id[4:].upper())[0]
    ] == [other.id]


def test_sessions_are_found_by_their_options(project):
    small, large = (
        create(project, grpo_n=4, learning_rate=2e-6),
        create(project, grpo_n=8, loss="dapo", max_steps=3),
    )

    def found(*options):
        return {
            session.id for session in selectors.session_list(project=project, options=options)[0]
        }

    assert (
        found("grpo_n=4")
        == found("learning_rate=0.000002")
        == found("max_steps=null", "loss=grpo")
        == {small.id}
    )
    assert found("loss = dapo") == found('loss="dapo"') == {large.id}
    assert found("seed=0", "dynamic_sampling=false") == {small.id, large.id}
    assert found("grpo_n=4", "loss=dapo") == found("grpo_n=four") == set()
    # of a server that had fewer options
    Session.objects.filter(id=small.id).update(config={"grpo_n": 4})
    assert (
        found("seed=0") == {small.id, large.id}
        and found("max_steps=null") == {small.id}
        and found("max_steps=3") == {large.id}
    )
    wrongs = [
        "grpo",
        "nonsense=1",
        "grpo_n__gt=1",
        "model_names={}",
        "kl_coef=NaN",
        "kl_coef=1e999",
        "loss=\0",
    ]
    for wrong in [*wrongs, r'loss="\ud800"']:
        with pytest.raises(InvalidRequest):
            found(wrong)


@pytest.mark.parametrize(
    ("state", "ends_as", "desired"),
    [
        (SessionState.QUEUED, SessionState.CANCELLED, "stop"),
        (SessionState.SUSPENDED, SessionState.STOPPED, "stop"),
        (SessionState.PROVISIONING, SessionState.PROVISIONING, "stop"),
        (SessionState.LOADING, SessionState.LOADING, "stop"),
        (SessionState.READY, SessionState.READY, "stop"),
        (SessionState.STOPPING, SessionState.STOPPING, "run"),
        (SessionState.FAILED, SessionState.FAILED, "run"),
    ],
)
def test_stopping_ends_at_once_what_has_no_runtime_and_asks_what_has_one(
    project, state, ends_as, desired
):
    session = factories.session_make(project, state=state)
    for _ in range(2):
        stopped = services.session_stop(project=project, session_id=session.id)
        assert (stopped.state, stopped.desired) == (ends_as, desired)


def test_a_session_whose_state_never_lets_it_stop_is_an_error_and_no_endless_wait(
    project, monkeypatch
):
    def refused(**_: object) -> None:
        raise Conflict("this move is never allowed")

    session = factories.session_make(project)
    monkeypatch.setattr(services, "session_move", refused)
    with pytest.raises(Conflict, match="could not be stopped"):
        services.session_stop(project=project, session_id=session.id)
    session.refresh_from_db()
    assert session.state == SessionState.QUEUED


def test_a_session_that_lost_its_runtime_and_waits_for_another_is_stopped(project):
    """As a killed one does between two runtimes: "cancelled" would say that nothing ran."""
    session, _ = factories.runtime_make(project)
    Session.objects.filter(id=session.id).update(state=SessionState.QUEUED)
    assert (
        services.session_stop(project=project, session_id=session.id).state == SessionState.STOPPED
    )


def test_a_request_wakes_a_suspended_session_and_no_other(project):
    for state in SessionState:
        session = factories.session_make(project, state=state)
        woken = services.session_wake(session=session)
        assert woken.state == (SessionState.QUEUED if state == SessionState.SUSPENDED else state)


def test_one_that_runs_is_left_as_it_is_without_a_query(project, django_assert_num_queries):
    session = factories.session_make(project, state=SessionState.READY)
    with django_assert_num_queries(0):
        assert services.session_wake(session=session) is session


def test_a_session_about_to_suspend_stays_when_it_is_asked_for(project):
    session = factories.session_make(project, state=SessionState.READY, desired="suspend")
    assert services.session_wake(session=session).desired == "run"


def test_waking_does_not_undo_a_stop(project):
    session = factories.session_make(project, state=SessionState.READY, desired="stop")
    assert services.session_wake(session=session).desired == "stop"


def test_waking_with_an_old_view_of_the_session_is_harmless(project):
    session = factories.session_make(project, state=SessionState.SUSPENDED)
    services.session_stop(project=project, session_id=session.id)
    assert services.session_wake(session=session).state == SessionState.STOPPED


def test_the_route_shows_where_a_session_is_or_why_it_is_nowhere(project):
    session = factories.session_make(project, state=SessionState.READY, address="127.0.0.1:5")
    assert route_get(session_id=session.id).address == "127.0.0.1:5"
    failure = {"code": "disk_full", "cause": "no room", "hint": ""}
    failed = factories.session_make(project, state=SessionState.FAILED, failure=failure)
    assert route_get(session_id=failed.id).failure.code == "disk_full"
    with pytest.raises(NotFound):
        route_get(session_id="ses_none")


def test_a_checkpoint_is_ordered_from_a_living_session_and_wakes_it(project):
    session = factories.session_make(project, state=SessionState.SUSPENDED)
    checkpoint = checkpoints.checkpoint_request(
        project=project, session_id=session.id, kind="model"
    )
    session.refresh_from_db()
    assert (checkpoint.state, checkpoint.ordered, session.state) == (
        "requested",
        True,
        SessionState.QUEUED,
    )


@pytest.mark.parametrize("state", [state for state in SessionState if state.is_terminal])
def test_no_checkpoint_is_ordered_from_a_session_that_ended(project, state):
    session = factories.session_make(project, state=state)
    with pytest.raises(Conflict):
        checkpoints.checkpoint_request(project=project, session_id=session.id, kind="model")


def test_a_checkpoint_that_waits_fails_when_its_session_is_cancelled(project):
    session = create(project)
    checkpoint = checkpoints.checkpoint_request(
        project=project, session_id=session.id, kind="model"
    )
    services.session_stop(project=project, session_id=session.id)
    checkpoint.refresh_from_db()
    assert checkpoint.state == "failed" and "cancelled" in checkpoint.failure
    names = [
        e.data["name"]
        for e in EventRecord.objects.filter(session_id=session.id, kind="event").order_by("id")
    ]
    assert names == ["checkpoint_requested", "checkpoint_failed"]
    with pytest.raises(Conflict, match="cancelled"):
        checkpoints.checkpoint_download(
            project=project, session_id=session.id, checkpoint_id=checkpoint.id
        )
