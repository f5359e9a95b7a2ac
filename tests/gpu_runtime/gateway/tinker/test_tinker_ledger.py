"""Operations of models are taken once, done in order, and done again to the same bits after a
kill.
"""

import asyncio
import gc
import math
import shutil
from pathlib import Path
from typing import Any

import pyrage
import pytest

from gpu_runtime.gateway.tinker import work
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.gateway.tinker.requests import OptimStep, body_parse
from gpu_runtime.journal.model_table import ModelTable, Operation
from support.tinker_harness import MODEL, Open, Wire, step, training

SSH_OF_0 = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAQA="  # its modulus is 0, at which age panics
SAVE = {"model_id": MODEL, "seq_id": 1, "path": "a"}
AGE = "age1hryrsj0237au2p9yux9ec9vc9vw30vap69exuszpnte388jv04wqhpknzv"
SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAoitVqKbJhrg9xmDqKui9lpYfXJBAi0IBFtNyCoQgaq"
LOAD = {"model_id": MODEL, "seq_id": 1, "path": f"tinker://{MODEL}/weights/gone", "optimizer": True}


async def test_a_model_is_trained_step_by_step(wire_open: Open) -> None:
    async with wire_open() as wire:
        assert await wire.model() == {"model_id": MODEL, "type": "create_model"}
        output = await wire.do("forward_backward", training(1))
        assert dict(output.metrics) == {"loss:sum": 6.0}
        assert (await wire.do("optim_step", step(2)))["metrics"] == {"grad_norm": 1.0}
        output = await wire.do("forward_backward", training(3, forward_only=True))
        assert output.loss_fn_outputs[0].num_datums == 1
        assert wire.trainer.calls[-3:] == [
            f"{name} {MODEL}" for name in ("forward_backward", "optim_step", "forward")
        ]


async def test_a_retry_gets_the_same_promise_and_another_body_is_refused(wire_open: Open) -> None:
    async with wire_open() as wire:
        await wire.model()
        first = await wire.promise("forward_backward", training(1))
        assert await wire.promise("forward_backward", training(1)) == first
        again = await wire.post("/api/v1/forward_backward", training(1, [9]))
        assert again.status_code == 400 and "number 1" in again.text
        assert (await wire.post("/api/v1/optim_step", step(1))).status_code == 400
        saved = await wire.promise("save_weights", SAVE | {"seq_id": 2})
        other = await wire.post("/api/v1/save_weights_for_sampler", SAVE | {"seq_id": 2})
        assert other.status_code == 400 and "(save_weights)" in other.text
        await wire.result(first)
        assert "error" not in (await wire.result(saved)).json()
        assert wire.trainer.calls.count(f"forward_backward {MODEL}") == 1


async def test_an_unnamed_save_that_is_sent_again_under_the_next_samplers_number_is_the_same(
    wire_open: Open,
) -> None:
    """The client's retry counts its samplers up and leaves the number of the operation as it is."""
    async with wire_open() as wire:
        await wire.model()
        save = {"model_id": MODEL, "seq_id": 1, "sampling_session_seq_id": 0, "kind": "snapshot"}
        first = await wire.promise("save_weights_for_sampler", save)
        assert (
            await wire.promise("save_weights_for_sampler", save | {"sampling_session_seq_id": 1})
            == first
        )
        assert (await wire.result(first)).json()[
            "sampling_session_id"
        ] == "tnk_ab:sample:0:ses_0123"
        assert wire.trainer.calls.count(f"publish {MODEL}") == 1
        another = await wire.post("/api/v1/save_weights_for_sampler", save | {"kind": "inflight"})
        assert another.status_code == 400


async def test_chunks_that_come_early_wait_for_their_number(wire_open: Open) -> None:
    async with wire_open() as wire:
        await wire.model()
        third, second = (
            await wire.promise("optim_step", step(3)),
            await wire.promise("forward_backward", training(2)),
        )
        assert wire.trainer.calls == [f"create_model {MODEL}"]
        await wire.promise("forward_backward", training(1, forward_only=True))
        await wire.result(second)
        assert (await wire.result(third)).json() == {"metrics": {"grad_norm": 1.0}}
        assert wire.trainer.calls == [
            f"{name} {MODEL}"
            for name in ("create_model", "forward", "forward_backward", "optim_step")
        ]


@pytest.mark.system
async def test_bodies_that_wait_are_not_held_in_memory(wire_open: Open) -> None:
    def held() -> list[int]:
        return [
            each.seq_id
            for each in gc.get_objects()
            if type(each) is Operation and len(each.body) > 20_000
        ]

    large = list(range(5000))
    async with wire_open() as wire:
        await wire.model()
        for number in (3, 2):
            await wire.promise("forward_backward", training(number, large))
        await wire.promise("optim_step", step(4))  # the executor may hold on to what it did last
        assert held() == []
    async with wire_open() as wire:
        assert held() == []
        await wire.promise("forward_backward", training(1, large))
        output = await wire.do("forward_backward", training(3, large))
        assert output.loss_fn_outputs[0].num_datums == 1


async def test_what_waits_says_so_with_408_and_why(wire_open: Open) -> None:
    async with wire_open(poll_s=0.05) as wire:
        await wire.model()
        answer = await wire.result(await wire.promise("optim_step", step(2)))
        assert answer.status_code == 408
        assert answer.json() == {
            "queue_state": "active",
            "queue_state_reason": "number 1 of this model has not come yet",
        }


async def test_a_number_between_two_that_came_is_waited_for(wire_open: Open) -> None:
    async with wire_open() as wire:
        await wire.model()
        third = await wire.promise("optim_step", step(3))
        await wire.do("forward_backward", training(1))
        await wire.do("forward_backward", training(2, forward_only=True))
        await wire.result(third)
        assert wire.trainer.calls[-2:] == [f"forward {MODEL}", f"optim_step {MODEL}"]


async def test_a_number_that_never_comes_is_used_up(wire_open: Open) -> None:
    async with wire_open(gap_s=0.05) as wire:
        await wire.model()
        assert (await wire.do("optim_step", step(3)))["metrics"] == {"grad_norm": 1.0}
        late = await wire.post("/api/v1/forward_backward", training(1))
        assert late.status_code == 400 and "missing" in late.text


@pytest.mark.parametrize(
    ("field", "value"),
    [("learning_rate", "NaN"), ("learning_rate", -1), ("beta1", 1), ("beta2", -0.1), ("eps", 0),
     ("weight_decay", "Infinity"), ("grad_clip_norm", -1)],
)  # fmt: skip
def test_a_parameter_that_adam_cannot_use_is_refused_by_name(field: str, value: Any) -> None:
    body = f'{{"model_id": "m", "seq_id": 1, "adam_params": {{"{field}": {value}}}}}'
    with pytest.raises(UserMistake, match=f"adam_params.{field}: "):
        body_parse(OptimStep, body.encode())


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("forward_backward", training(1, loss_fn="nonsense"), "nonsense"),
        ("forward_backward", training(1)[:40], "protobuf"),
        ("optim_step", step(1) | {"adam_params": {"learning_rate": "x"}}, "adam_params.learning_rate"),
        ("optim_step", step(1, eps=-1.0), "adam_params.eps"),
        ("optim_step", step(1) | {"momentum": 1}, "momentum"),
        ("optim_step", {"model_id": MODEL, "seq_id": 1, "optimizer_params": {"type": "dimuon"}}, "dimuon"),
        ("save_weights", {"model_id": MODEL, "seq_id": 1, "path": "a/b"}, "'a/b'"),
        ("save_weights", {"model_id": MODEL, "seq_id": 1, "path": "a", "ttl_seconds": 5}, "ttl_seconds is 5"),
        ("save_weights_external", SAVE | {"age_encryption_recipients": [AGE, "age1"]}, "[1] is no public key"),
        ("save_weights_external", SAVE | {"age_encryption_recipients": [SSH_OF_0]}, "[0] is no public key"),
        ("save_weights_external", SAVE | {"age_encryption_recipients": [AGE] * 17}, "at most 16"),
        ("save_weights", SAVE | {"age_encryption_recipients": [AGE]}, "go with save_weights_external"),
        ("save_weights_for_sampler", {"model_id": MODEL, "seq_id": 1}, "sampling_session_seq_id"),
        ("load_weights", LOAD, "no checkpoint tinker://tnk_ab:train:0/weights/gone"),
        ("load_weights", LOAD | {"weights_access_token": "tml-ts_secret"}, "no credential is kept"),
    ],
)  # fmt: skip
async def test_a_mistake_comes_back_through_the_future_and_uses_its_number_up(
    wire_open: Open, path: str, body: Any, said: str
) -> None:
    async with wire_open() as wire:
        await wire.model()
        answer = await wire.do(path, body)
        assert answer["category"] == "user" and said in answer["error"]
        assert (await wire.do("optim_step", step(2)))["metrics"] == {"grad_norm": 1.0}


async def test_external_weights_can_be_read_by_their_recipients_alone(wire_open: Open) -> None:
    others = pyrage.x25519.Identity.generate()
    async with wire_open() as wire:
        await wire.model()
        plain = await wire.do("save_weights_external", SAVE | {"path": "plain"})
        keys = [AGE, SSH, str(others.to_public())]
        saved = await wire.do(
            "save_weights_external", SAVE | {"seq_id": 2, "age_encryption_recipients": keys}
        )
        folders = [
            wire.store.folder / each["path"].removeprefix("tinker://").replace("/", "-")
            for each in (plain, saved)
        ]
        expected, encrypted = (
            {
                str(path.relative_to(folder)): path.read_bytes()
                for path in folder.rglob("*")
                if path.is_file()
            }
            for folder in folders
        )
        assert expected and {f"{name}.age" for name in expected} == encrypted.keys()
        assert saved["size_bytes"] == sum(map(len, encrypted.values()))
        for name, content in expected.items():
            assert content not in encrypted[f"{name}.age"]
            assert pyrage.decrypt(encrypted[f"{name}.age"], [others]) == content
        assert not list(wire.store.folder.parent.rglob(f"saving-*/{name}")), (
            "nothing readable stays behind"
        )


async def test_a_model_that_could_not_be_made_says_so_to_every_operation(wire_open: Open) -> None:
    async with wire_open() as wire:
        await wire.model("tnk_ab:train:1", rank=0)
        answer = await wire.model()
        assert answer["category"] == "user" and "one model alone" in answer["error"]
        assert "one model alone" in (await wire.do("optim_step", step(1)))["error"]


async def test_a_model_that_is_not_there_is_not_found(wire_open: Open) -> None:
    async with wire_open() as wire:
        assert (await wire.post("/api/v1/optim_step", step(1))).status_code == 404


async def test_nothing_is_served_without_the_relay_key(wire_open: Open) -> None:
    async with wire_open() as wire:
        for path in (
            "optim_step",
            "forward_backward",
            "asample",
            "retrieve_future",
            "cancel_future",
        ):
            assert (await wire.http.post(f"/api/v1/{path}", json={})).status_code == 401
        assert (await wire.http.post("/tinker/models", json={})).status_code == 401


async def trained(wire: Wire, first: int, last: int) -> None:
    for number in range(first, last + 1):
        body = training(number, [number, 7]) if number % 2 else step(number)
        await wire.do("forward_backward" if number % 2 else "optim_step", body)


@pytest.mark.parametrize("save_after", [1000, 3], ids=["from the beginning", "from a saved state"])
async def test_after_a_kill_the_model_is_what_it_was_to_the_bit(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, save_after: int
) -> None:
    """Seven operations leave a gradient that waits for its step."""
    monkeypatch.setattr(work, "SAVE_AFTER_OPERATIONS", save_after)
    # however long a state takes, the next one is not put off
    monkeypatch.setattr(work, "SAVING_SHARE", math.inf)
    async with wire_open() as wire:
        await wire.model()
        await trained(wire, 1, 7)
        before = dict(wire.trainer.models[MODEL])
        assert before["gradient"]
        states = list((tmp_path / "models" / "models").glob("*/state-*"))
        assert len(states) == (save_after == 3), "and the states before it are gone"
    async with wire_open() as wire:
        assert (await wire.result(f"ses_0123|train:{MODEL}:7")).status_code == 200
        # Once this one is done, what came before it was done again; it changes nothing.
        await wire.do("forward_backward", training(8, forward_only=True))
        assert wire.trainer.models[MODEL] == before
        assert (f"load_state {MODEL}" in wire.trainer.calls) == (save_after == 3)


async def test_steps_are_counted_once_through_kills_and_mistakes(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count is what tells the control plane that a runtime gets on, and what a budget of steps
    is measured by.
    """
    monkeypatch.setattr("gpu_runtime.journal.model_table.RESULTS_KEPT", 2)
    async with wire_open() as wire:
        await wire.model()
        await trained(wire, 1, 4)
        assert "error" in await wire.do("optim_step", step(5, eps=-1.0))
        assert wire.ledger.steps_done == 2
    async with wire_open() as wire:
        assert wire.ledger.steps_done == 2
        await trained(wire, 6, 8)
        assert wire.ledger.steps_done == 4
    async with wire_open() as wire:
        assert wire.ledger.steps_done == 4, "with most of the results dropped"


async def test_a_kill_before_the_journal_names_the_new_state_leaves_the_old_one(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "SAVE_AFTER_OPERATIONS", 3)
    monkeypatch.setattr(work, "SAVING_SHARE", math.inf)

    def killed(table: ModelTable, model_id: str, seq_id: int) -> None:
        raise OSError("killed here")

    async with wire_open() as wire:
        await wire.model()
        await trained(wire, 1, 4)
        monkeypatch.setattr(ModelTable, "saved", killed)
        await trained(wire, 5, 5)
        await asyncio.wait([wire.worker], timeout=25)
        before = dict(wire.trainer.models[MODEL])
    monkeypatch.undo()
    async with wire_open() as wire:
        await wire.do("forward_backward", training(6, forward_only=True))
        assert wire.trainer.models[MODEL] == before


@pytest.mark.parametrize("optimizer", [True, False])
async def test_a_state_is_loaded_into_a_model_that_is_there_and_outlives_its_checkpoint(
    wire_open: Open, tmp_path: Path, optimizer: bool
) -> None:
    async with wire_open() as wire:
        await wire.model()
        await trained(wire, 1, 2)
        saved = await wire.do("save_weights", SAVE | {"seq_id": 3})
        wanted = dict(wire.trainer.models[MODEL]) | ({} if optimizer else {"step": 0})
        await trained(wire, 4, 7)
        load = LOAD | {"seq_id": 8, "path": saved["path"], "optimizer": optimizer}
        said = {"path": saved["path"], "model_id": MODEL, "type": "load_weights"}
        assert await wire.do("load_weights", load) == said
        assert wire.trainer.models[MODEL] == wanted, "and the gradient that waited is gone"
        # by now the state is on the volume
        await wire.do("forward_backward", training(9, forward_only=True))
    shutil.rmtree(tmp_path / "store")
    async with wire_open() as wire:
        await wire.do("forward_backward", training(10, forward_only=True))
        assert wire.trainer.models[MODEL] == wanted


@pytest.mark.parametrize("optimizer", [True, False])
async def test_a_model_is_made_from_a_state_with_its_optimizer_or_a_fresh_one(
    wire_open: Open, optimizer: bool
) -> None:
    other = "tnk_ab:train:1"
    async with wire_open() as wire:
        await wire.model()
        await trained(wire, 1, 2)
        path = (await wire.do("save_weights", SAVE | {"seq_id": 3}))["path"]
        stored = path.removeprefix("tinker://").replace("/", "-")
        source = {"path": path, "checkpoint_id": stored, "files": [], "optimizer": optimizer}
        body = {"model_id": other, "base_model": "tiny", "lora": {"rank": 8}, "source": source}
        made = (await wire.post("/tinker/models", body)).json()["request_id"]
        assert "error" not in (await wire.result(made)).json()
        saved = wire.trainer.models[MODEL]
        assert saved["step"] > 0
        assert wire.trainer.models[other] == saved | ({} if optimizer else {"step": 0})


async def test_a_key_that_reads_anothers_states_is_not_written_to_the_journal(
    wire_open: Open, tmp_path: Path
) -> None:
    async with wire_open() as wire:
        await wire.model()
        await wire.do("load_weights", LOAD | {"weights_access_token": "tml-ts_secret"})
        assert all(
            b"tml-ts_secret" not in file.read_bytes() for file in tmp_path.glob("journal.sqlite3*")
        )


async def test_what_a_kill_interrupted_resolves_after_it_as_if_there_had_been_none(
    wire_open: Open, tmp_path: Path
) -> None:
    """One runtime is killed in the middle of its third operation; another, never killed, does the
    same work.
    """
    reached, promises = asyncio.Event(), []

    async def hang(point: str) -> None:
        if point == f"optim_step {MODEL}":
            reached.set()
            await asyncio.Event().wait()

    async with wire_open(reach=hang) as wire:
        await wire.model()
        for number in (1, 3):
            promises.append(await wire.promise("forward_backward", training(number)))
        promises.append(await wire.promise("optim_step", step(4)))
        promises.append(await wire.promise("optim_step", step(2)))
        await asyncio.wait_for(reached.wait(), 25)
    async with wire_open() as wire:
        assert [(await wire.result(promise)).status_code for promise in promises] == [200] * 4
        killed = wire.trainer.models[MODEL]["weights"]
    (tmp_path / "journal.sqlite3").rename(tmp_path / "killed.sqlite3")
    for left in ("-wal", "-shm"):
        (tmp_path / f"journal.sqlite3{left}").unlink(missing_ok=True)
    async with wire_open() as wire:
        await wire.model()
        for number in (1, 3):
            await wire.promise("forward_backward", training(number))
        await wire.promise("optim_step", step(2))
        await wire.do("optim_step", step(4))
        assert wire.trainer.models[MODEL]["weights"] == killed


async def test_results_are_kept_within_a_bound_and_a_dropped_one_is_gone(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_runtime.journal.model_table.RESULTS_KEPT", 3)
    async with wire_open() as wire:
        await wire.model()
        promises = [await wire.promise("optim_step", step(number)) for number in range(1, 7)]
        await wire.result(promises[-1])
        statuses = [(await wire.result(promise)).status_code for promise in promises]
        assert statuses == [410, 410, 410, 200, 200, 200]
        assert (await wire.result("ses_0123|train:0:99")).status_code == 410


async def test_a_number_far_from_any_other_is_refused_and_fills_no_journal(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_runtime.gateway.tinker.model_queue.MAX_GAP", 3)
    async with wire_open(gap_s=0.05) as wire:
        await wire.model()
        far = await wire.post("/api/v1/optim_step", step(5))
        assert far.status_code == 400 and "more than 3 after the last, 0" in far.text
        for number in (3, 5):
            assert (await wire.do("optim_step", step(number)))["metrics"] == {"grad_norm": 1.0}


async def test_a_model_whose_volume_was_lost_is_not_begun_anew(wire_open: Open) -> None:
    """Its client goes on from the number where it was, out of order as ever: nothing waits for
    those before it.
    """
    known, last = "tnk_ab:train:1", 2_000_000_000
    async with wire_open() as wire:
        assert await wire.model(known) == {"model_id": known, "type": "create_model"}
        for model_id in (MODEL, known):
            body = {
                "model_id": model_id,
                "base_model": "tiny",
                "lora": {"rank": 8},
                "made_before": True,
            }
            created = (await wire.post("/tinker/models", body)).json()["request_id"]
            if model_id == MODEL:
                lost = (await wire.result(created)).json()
        assert lost["category"] == "server" and "save_state" in lost["error"]
        for number in (58, 57, last):
            assert (await wire.do("forward_backward", training(number))) == lost
        assert [name for name in wire.trainer.models] == [known], (
            "what the journal has is as it was"
        )
        await wire.do("forward_backward", training(1, model_id=known))
    async with wire_open() as wire:
        assert (await wire.do("optim_step", step(3))) == lost
        rows = wire.journal.models.after(MODEL, -1)
        assert [row.seq_id for row in rows] == [0, 3, 57, 58, last]
