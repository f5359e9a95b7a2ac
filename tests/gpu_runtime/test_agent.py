import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest
from pydantic import ValidationError

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.control_plane.agent import Agent, Recorded
from gpu_runtime.errors import ControlPlaneLost, ControlPlaneRefused, LeaseLost
from gpu_runtime.health.status import Phase
from gpu_runtime.start import start
from support.fake_control_plane import LEASE, FakeControlPlane, error_body
from support.waiting import eventually
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import RuntimeStage, RuntimeState, StopReason
from tinkerscript.wire.sessions import Accounting
from tinkerscript.wire.version import VERSION

HEARTBEAT, REPORT = "/v1/runtime/heartbeat", "/v1/runtime/report"


def config_for(server, tmp_path):
    return RuntimeConfig(
        server_url=server.url, lease=LEASE, session_id="ses_0123456789abcdef", runtime_dir=tmp_path
    )


@asynccontextmanager
async def registered(server, tmp_path, **options):
    async with Agent(config_for(server, tmp_path), **options) as agent:
        await agent.register()
        yield agent


async def test_registering_returns_the_assignment(tmp_path):
    with FakeControlPlane() as server:
        async with Agent(config_for(server, tmp_path)) as agent:
            assignment = await agent.register()
    assert assignment.session_id == "ses_0123456789abcdef"
    assert assignment.config.grpo_n == 8


async def test_registering_waits_for_a_server_that_is_away(tmp_path, caplog):
    with FakeControlPlane() as gone:
        pass
    async with Agent(config_for(gone, tmp_path)) as agent:
        registering = asyncio.create_task(agent.register())
        await eventually(lambda: "again in" in caplog.text)
        assert not registering.done()
        with gone.restart_as_new():
            assert (await registering).base_model == "tiny"


async def test_registering_gives_up_after_its_patience(tmp_path):
    with FakeControlPlane() as gone:
        pass
    async with Agent(config_for(gone, tmp_path), patience_s=0.3) as agent:
        with pytest.raises(ControlPlaneLost, match="no response within"):
            await agent.register()


@pytest.mark.parametrize(("status", "code"), [(409, "stale_lease"), (401, "unauthenticated")])
async def test_a_replaced_lease_cannot_register(tmp_path, status, code):
    with FakeControlPlane() as server:
        server.answers["/v1/runtime/register"] = (
            status,
            error_body(code, "another runtime holds the session"),
        )
        async with Agent(config_for(server, tmp_path)) as agent:
            with pytest.raises(LeaseLost, match="another runtime"):
                await agent.register()


async def test_a_heartbeat_sends_the_whole_status(tmp_path):
    with FakeControlPlane() as server:
        async with registered(server, tmp_path) as agent:
            agent.status.update(
                state=RuntimeStage.READY, address="127.0.0.1:9", policy_version=3, reward_mean=0.5
            )
            agent.status.update(accounting=Accounting(begun=2, open=2), last_activity_at=12.5)
            agent.status.begin(Phase.TRAINING, "training step 4")
            await eventually(
                lambda: (
                    server.bodies(HEARTBEAT) and server.bodies(HEARTBEAT)[-1]["state"] == "ready"
                )
            )
    said = RuntimeState.model_validate(server.bodies(HEARTBEAT)[-1])
    assert (said.address, said.policy_version, said.reward_mean, said.progress) == (
        "127.0.0.1:9",
        3,
        0.5,
        1,
    )
    assert (said.phase, said.accounting.begun, said.last_activity_at) == (
        "training step 4",
        2,
        12.5,
    )


async def test_a_stage_that_was_reached_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_runtime.control_plane.agent.HEARTBEAT_S", 3600.0)
    with FakeControlPlane() as server:
        async with registered(server, tmp_path) as agent:
            await eventually(lambda: len(server.bodies(HEARTBEAT)) == 1)
            agent.status.update(policy_version=0)
            agent.status.update(state=RuntimeStage.READY, address="127.0.0.1:7000")
            await eventually(lambda: len(server.bodies(HEARTBEAT)) == 2)
            assert [beat["state"] for beat in server.bodies(HEARTBEAT)] == ["loading", "ready"]


async def test_an_unknown_status_field_is_refused(tmp_path):
    with FakeControlPlane() as server:
        async with Agent(config_for(server, tmp_path)) as agent:
            with pytest.raises(AttributeError):
                agent.status.update(adress="127.0.0.1:9")


async def test_a_busy_main_loop_does_not_hold_up_the_heartbeat(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_runtime.control_plane.agent.HEARTBEAT_S", 0.05)
    with FakeControlPlane() as server:
        async with registered(server, tmp_path):
            await eventually(lambda: server.bodies(HEARTBEAT))
            before = len(server.bodies(HEARTBEAT))
            deadline = time.monotonic() + 25
            while len(server.bodies(HEARTBEAT)) < before + 4:
                time.sleep(0.01)  # the point: the loop of this test does nothing else
                assert time.monotonic() < deadline, "the heartbeat waited for the main loop"


async def test_a_stop_order_arrives_with_its_reason(tmp_path):
    with FakeControlPlane() as server:
        server.orders["stop"] = "suspend"
        async with registered(server, tmp_path) as agent:
            await asyncio.wait_for(agent.stop_requested.wait(), 25)
            assert agent.stop_reason is StopReason.SUSPEND


async def test_a_checkpoint_order_is_delivered_once_until_it_failed(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_runtime.control_plane.agent.HEARTBEAT_S", 0.02)
    with FakeControlPlane() as server:
        server.orders["checkpoints"] = [{"checkpoint_id": "ckp_1", "kind": "model"}]
        async with registered(server, tmp_path) as agent:
            first = await asyncio.wait_for(agent.checkpoint_orders.get(), 25)
            seen = len(server.bodies(HEARTBEAT))
            await eventually(lambda: len(server.bodies(HEARTBEAT)) > seen + 2)
            assert agent.checkpoint_orders.empty()
            agent.order_failed("ckp_1")
            assert await asyncio.wait_for(agent.checkpoint_orders.get(), 25) == first
            agent.order_done("ckp_1")
            seen = len(server.bodies(HEARTBEAT))
            await eventually(lambda: len(server.bodies(HEARTBEAT)) > seen + 2)
            assert agent.checkpoint_orders.empty()


async def other_heartbeats(folder, count):
    """Wait for as long as another agent takes for so many: time enough for one that must send
    none.
    """
    folder.mkdir()
    with FakeControlPlane() as server:
        async with registered(server, folder):
            await eventually(lambda: len(server.bodies(HEARTBEAT)) >= count)


async def test_a_stale_lease_ends_the_runtime_and_nothing_more_is_sent(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_runtime.control_plane.agent.HEARTBEAT_S", 0.05)
    with FakeControlPlane() as server:
        async with registered(server, tmp_path) as agent:
            await eventually(lambda: server.bodies(HEARTBEAT))
            server.answers[HEARTBEAT] = (409, error_body("stale_lease", "replaced"))
            fault = await asyncio.wait_for(agent.wait_lost(), 25)
            assert isinstance(fault, LeaseLost)
            assert agent.lost is fault
            sent = len(server.requests)
            agent.report(EventKind.EVENT, {"name": "late"}, key="late")
            with pytest.raises(LeaseLost):
                await agent.fail("engine_dead", "late")
            await other_heartbeats(tmp_path / "other", 4)
        assert len(server.requests) == sent


async def test_a_stale_lease_on_a_report_ends_the_runtime(tmp_path):
    with FakeControlPlane() as server:
        server.answers[REPORT] = (409, error_body("stale_lease"))
        async with registered(server, tmp_path) as agent:
            agent.report(EventKind.EVENT, {"name": "x"}, key="x")
            assert isinstance(await asyncio.wait_for(agent.wait_lost(), 25), LeaseLost)


async def test_a_server_that_stays_away_ends_the_runtime(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_runtime.control_plane.agent.HEARTBEAT_S", 0.02)
    with FakeControlPlane() as server:
        async with registered(server, tmp_path, patience_s=0.3) as agent:
            server.answers[HEARTBEAT] = (502, {"not": "ours"})
            assert isinstance(await asyncio.wait_for(agent.wait_lost(), 25), ControlPlaneLost)


async def test_a_restarted_server_finds_the_runtime_still_there(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_runtime.control_plane.agent.HEARTBEAT_S", 0.05)
    server = FakeControlPlane()
    with server:
        agent = await Agent(config_for(server, tmp_path)).__aenter__()
        await agent.register()
    agent.report(EventKind.METRIC, {"step": 1}, key="step-1")
    assert not await agent.flush(0.2), "there is no one to take it"
    with server.restart_as_new() as restarted:
        agent.report(EventKind.METRIC, {"step": 2}, key="step-2")
        await eventually(lambda: restarted.bodies(HEARTBEAT) and len(restarted.entries) == 2)
        await agent.__aexit__(None, None, None)
    assert agent.lost is None
    assert [entry["data"]["step"] for entry in restarted.entries.values()] == [1, 2]


async def test_reports_arrive_in_order_and_together_and_wait_for_no_heartbeat(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("gpu_runtime.control_plane.agent.HEARTBEAT_S", 60.0)
    with FakeControlPlane() as server:
        async with Agent(config_for(server, tmp_path)) as agent:
            for step in range(20):  # before it registers: all are there when it begins to send
                agent.report(EventKind.METRIC, {"step": step}, key=f"step-{step}")
            await agent.register()
            await eventually(lambda: len(server.entries) == 20)
    assert [entry["data"]["step"] for entry in server.entries.values()] == list(range(20))
    assert len(server.bodies(REPORT)) == 1


async def test_a_report_is_what_it_was_when_it_was_made(tmp_path):
    with FakeControlPlane() as server:
        async with registered(server, tmp_path) as agent:
            data = {"name": "before"}
            agent.report(EventKind.EVENT, data, key="k")
            data["name"] = "after"
    assert server.entries["k"]["data"] == {"name": "before"}


async def test_a_lost_answer_repeats_the_report_under_the_same_key(tmp_path):
    with FakeControlPlane() as server:
        answers = [
            (500, error_body("internal")),
            (503, error_body("storage_unavailable")),
            (204, None),
        ]
        server.answers[REPORT] = lambda body: answers.pop(0)
        async with registered(server, tmp_path) as agent:
            agent.report(EventKind.EVENT, {"name": "once"}, key="once")
    assert [body["entries"][0]["key"] for body in server.bodies(REPORT)] == ["once"] * 3


async def test_a_refused_entry_does_not_hold_up_the_others(tmp_path, caplog):
    def choosy(body):
        bad = any(entry["key"] == "bad" for entry in body["entries"])
        return (400, error_body("invalid_request", "bad entry")) if bad else (204, None)

    with FakeControlPlane() as server:
        server.answers[REPORT] = choosy
        async with registered(server, tmp_path) as agent:
            for key in ("a", "bad", "b"):
                agent.report(EventKind.EVENT, {"name": key}, key=key)
            assert await agent.flush(5)
    singles = [
        body["entries"][0]["key"] for body in server.bodies(REPORT) if len(body["entries"]) == 1
    ]
    assert singles == ["a", "bad", "b"]
    assert "refused a report" in caplog.text


async def test_a_long_queue_travels_in_bounded_batches(tmp_path):
    with FakeControlPlane() as server:
        async with Agent(config_for(server, tmp_path)) as agent:
            for number in range(1200):
                agent.report(EventKind.LOG, {"line": "x" * 2000}, key=f"log-{number}")
            await agent.register()
            assert await agent.flush(10)
    assert len(server.entries) == 1200
    assert max(len(str(body)) for body in server.bodies(REPORT)) < 1_300_000


async def test_an_entry_that_cannot_be_sent_is_refused_at_once(tmp_path):
    with FakeControlPlane() as server:
        async with registered(server, tmp_path) as agent:
            followed = list[Recorded]()
            agent.events.subscribe(Recorded, followed.append)
            with pytest.raises(ValidationError):
                agent.report(EventKind.EVENT, {}, key="")
            assert followed == []
            agent.report(EventKind.EVENT, {"name": "taken"}, key="taken")
            assert followed == [Recorded({"name": "taken"})]
            with pytest.raises(ValueError, match="is the most"):
                agent.report(EventKind.LOG, {"line": "x" * 2_000_000}, key="huge")


async def test_what_was_reported_before_a_failure_arrives_before_it(tmp_path):
    with FakeControlPlane() as server:
        async with registered(server, tmp_path) as agent:
            agent.report(EventKind.LOG, {"line": "last words"}, key="log-1")
            await agent.fail("engine_dead", "x" * 5000 + "the cause", "the hint")
    paths = [path for path, _ in server.requests if path in (REPORT, "/v1/runtime/fail")]
    assert paths == [REPORT, "/v1/runtime/fail"]
    failure = server.bodies("/v1/runtime/fail")[0]
    assert (failure["code"], failure["hint"]) == ("engine_dead", "the hint")
    assert len(failure["cause"]) == 4000
    assert failure["cause"].endswith("the cause")


async def test_a_request_that_is_refused_is_not_repeated(tmp_path):
    with FakeControlPlane() as server:
        server.answers["/v1/runtime/fail"] = (400, error_body("invalid_request", "no such thing"))
        async with registered(server, tmp_path) as agent:
            with pytest.raises(ControlPlaneRefused, match="no such thing"):
                await agent.fail("engine_dead", "cause")
    assert len(server.bodies("/v1/runtime/fail")) == 1


async def test_a_request_that_comes_too_often_is_repeated(tmp_path):
    answers = iter([(429, error_body("rate_limited")), (204, None)])
    with FakeControlPlane() as server:
        server.answers["/v1/runtime/fail"] = lambda body: next(answers)
        async with registered(server, tmp_path) as agent:
            await agent.fail("engine_dead", "cause")
    assert len(server.bodies("/v1/runtime/fail")) == 2


@pytest.mark.parametrize("what", ["an option", "a kind"])
async def test_a_server_of_another_version_fails_the_session_by_name_at_once(tmp_path, what: str):
    """Its session has what this runtime does not know."""
    with FakeControlPlane() as server:
        assignment = server.assignment()
        newer = (
            {"config": assignment["config"] | {"new_option": 1}}
            if what == "an option"
            else {"kind": "new_kind"}
        )
        server.answers["/v1/runtime/register"] = (200, assignment | newer)
        async with asyncio.timeout(10):
            await start(config_for(server, tmp_path))
    (failure,) = server.bodies("/v1/runtime/fail")
    assert failure["code"] == "server_differs" and len(server.bodies("/v1/runtime/register")) == 1
    assert f"version {VERSION}" in failure["cause"]
    assert (
        "config.new_option: Extra inputs" if what == "an option" else "kind: Input should be"
    ) in failure["cause"]


async def test_what_another_process_says_on_the_servers_port_is_no_other_version(tmp_path):
    with FakeControlPlane() as server:
        server.answers["/v1/runtime/register"] = (200, {"hello": "world"})
        async with Agent(config_for(server, tmp_path), patience_s=0.3) as agent:
            with pytest.raises(ControlPlaneLost):
                await agent.register()


async def test_closing_leaves_no_thread_behind(tmp_path):
    with FakeControlPlane() as server:
        others = set(threading.enumerate())
        async with registered(server, tmp_path):
            assert "agent" in {thread.name for thread in set(threading.enumerate()) - others}
        assert "agent" not in {thread.name for thread in set(threading.enumerate()) - others}
