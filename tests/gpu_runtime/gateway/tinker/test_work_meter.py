"""Tokens and times of what is done for Tinker clients, as the control plane is told of them."""

from pathlib import Path

from api.rest.parsing import MAX_MEMBERS
from gpu_runtime.config import RuntimeConfig
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.events import Events
from gpu_runtime.gateway.tinker.dialects import CallDone
from gpu_runtime.gateway.tinker.ledger import OperationDone
from gpu_runtime.gateway.tinker.results import Measured, Result
from gpu_runtime.gateway.tinker.work_meter import WorkMeter
from gpu_runtime.journal.model_table import Operation
from support.fake_control_plane import LEASE, FakeControlPlane, error_body
from support.tinker_harness import MODEL, Open, step, training
from tinkerscript.wire.tinker.messages import WorkReport

SAMPLER = "tnk_ab:sample:1:ses_0123"
SAMPLE = {
    "sampling_session_id": SAMPLER,
    "num_samples": 2,
    "prompt": {"chunks": [{"type": "encoded_text", "tokens": [3, 4, 5]}]},
    "sampling_params": {"max_tokens": 4, "seed": 1},
}
WORK = "/v1/runtime/tinker-work"


def agent_of(server: FakeControlPlane, folder: Path) -> Agent:
    return Agent(RuntimeConfig(server.url, LEASE, "ses_0123456789abcdef", folder))


async def told(meter: WorkMeter, folder: Path) -> dict:
    """The one report of what ``meter`` holds."""
    with FakeControlPlane() as server:
        server.answers[WORK] = 204, None
        async with agent_of(server, folder) as agent:
            await meter.report(agent)
            await meter.report(agent)
        (report,) = server.bodies(WORK)
    return report


async def test_tokens_are_those_that_were_trained_and_sampled_and_what_failed_has_none(
    wire_open: Open, tmp_path: Path
) -> None:
    async with wire_open() as wire:
        meter = WorkMeter(wire.events)
        await wire.model()
        await wire.do("forward_backward", training(1, [3, 4, 5, 6]))
        await wire.do("forward_backward", training(2, loss_fn="nonsense"))
        await wire.do("optim_step", step(3))
        await wire.post("/tinker/samplers", {"sampling_session_id": SAMPLER, "base_model": "tiny"})
        for number in range(2):
            await wire.do("asample", SAMPLE | {"seq_id": number})
    report = await told(meter, tmp_path)
    assert report["tokens"]["tnk_ab"] == {
        "training": 4, "sampling_prefill": 2, "sampling_prefill_cached": 4, "sampling_sample": 16,
    }  # fmt: skip
    spans = [(span["kind"], span["of"], span["count"], span["tokens"]) for span in report["spans"]]
    assert spans == [
        ("create_model", MODEL, 1, 0), ("forward_backward", MODEL, 1, 4), ("forward_backward", MODEL, 1, 0),
        ("optim_step", MODEL, 1, 0), ("sample", SAMPLER, 2, 16),
    ]  # fmt: skip


async def test_what_calls_returned_is_told_in_numbers_and_what_failed_is_not(
    wire_open: Open, tmp_path: Path
) -> None:
    async with wire_open() as wire:
        meter = WorkMeter(wire.events)
        await wire.model()
        await wire.do("forward_backward", training(1, [3, 4, 5, 6]))
        await wire.do("forward_backward", training(2, loss_fn="nonsense"))
        await wire.do("optim_step", step(3))
    (told_of,) = (await told(meter, tmp_path))["calls"]
    assert (told_of["model_id"], told_of["seq_ids"], told_of["tokens"]) == (MODEL, [1, 3], [4, 0])
    assert told_of["kinds"] == ["forward_backward", "optim_step"]
    assert (
        told_of["measures"]["loss:sum"][0] is not None
        and told_of["measures"]["learning_rate"][0] is None
    )
    assert told_of["measures"]["learning_rate"][1] > 0


async def test_calls_that_are_done_again_after_a_kill_are_told_again_under_their_numbers(
    wire_open: Open, tmp_path: Path
) -> None:
    async with wire_open() as wire:
        await wire.model()
        await wire.do("forward_backward", training(1))
    async with wire_open() as wire:
        meter = WorkMeter(wire.events)
        await wire.do("forward_backward", training(2, [3, 4]))
    report = await told(meter, tmp_path)
    assert [each["seq_ids"] for each in report["calls"]] == [[1, 2]] and report["tokens"]["tnk_ab"][
        "training"
    ] == 2


async def test_many_calls_of_many_models_and_names_are_told_in_reports_that_the_server_reads(
    tmp_path: Path,
) -> None:
    events = Events()
    meter = WorkMeter(events)
    for number in range(600):
        metrics = {f"own {number // 100} {name}:mean": 1.0 for name in range(20)} | {
            "nan:sum": float("nan")
        }
        result = Result("proto", b"", 1, Measured("forward_backward", metrics))
        model = f"{MODEL}{number % 11}"
        operation = Operation(model, number, f"ses|train:0:{number}", "forward_backward", b"", "")
        events.publish(OperationDone(operation, result, 0.001, again=True))
    with FakeControlPlane() as server:
        server.answers[WORK] = 204, None
        async with agent_of(server, tmp_path) as agent:
            await meter.report(agent)
        reports = server.bodies(WORK)
    assert sum(len(each["seq_ids"]) for report in reports for each in report["calls"]) == 600
    for report in reports:
        names = sum(6 + len(each["measures"]) for each in report["calls"])
        assert names < MAX_MEMBERS / 2 and WorkReport.model_validate(report)


async def test_what_a_runtime_does_again_after_a_kill_is_not_counted_again(wire_open: Open) -> None:
    async with wire_open() as wire:
        await wire.model()
        await wire.do("forward_backward", training(1))
    heard = []
    async with wire_open() as wire:
        wire.events.subscribe(OperationDone, heard.append)
        await wire.do("forward_backward", training(2, [3, 4]))
    assert [(each.operation.kind, each.result.tokens) for each in heard if not each.again] == [
        ("forward_backward", 2)
    ]


async def test_a_report_that_did_not_arrive_is_sent_again_as_it_was_and_a_refusal_stops_nothing(
    tmp_path: Path,
) -> None:
    events = Events()
    meter = WorkMeter(events)
    events.publish(CallDone(SAMPLER, 3, 4, 0.5))
    with FakeControlPlane() as server:
        async with agent_of(server, tmp_path) as agent:
            server.answers[WORK] = 503, error_body("unavailable")
            await meter.report(agent, deadline_s=0.2)
            events.publish(CallDone(SAMPLER, 5, 6, 0.5))
            del server.answers[WORK]  # then it is refused
            await meter.report(agent)
            server.answers[WORK] = 204, None
            await meter.report(agent)
        *first, last = server.bodies(WORK)
    assert len(first) > 1 and all(body == first[0] for body in first)
    assert [body["tokens"]["tnk_ab"]["sampling_sample"] for body in (first[0], last)] == [4, 6]


async def test_a_report_has_a_bound_however_much_was_done(tmp_path: Path) -> None:
    events = Events()
    meter = WorkMeter(events)
    for number in range(3000):
        operation = Operation(
            MODEL, number + 1, f"ses|train:0:{number}", "forward_backward", b"", ""
        )
        events.publish(OperationDone(operation, Result("proto", b"", tokens=2), 0.001, again=False))
    report = await told(meter, tmp_path)
    assert (
        sum(map(len, report["spans"])) < MAX_MEMBERS / 2
        and report["tokens"]["tnk_ab"]["training"] == 6000
    )
    assert sum(span["count"] for span in report["spans"]) == 3000
    assert sum(span["tokens"] for span in report["spans"]) == 6000
