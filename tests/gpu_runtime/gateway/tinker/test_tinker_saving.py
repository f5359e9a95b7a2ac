"""A save that takes long is progress as long as its files grow: the session does not count as stuck
meanwhile.
"""

import threading
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import httpx
import pyrage
import pytest

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import DiskFull, StoreFull, StoreUnavailable, UploadRefused
from gpu_runtime.gateway.tinker import operation_runner, work
from gpu_runtime.gateway.tinker.checkpoints.encryption import folder_encrypt, recipients_read
from gpu_runtime.gateway.tinker.checkpoints.store import CheckpointStore
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.health import volume
from gpu_runtime.object_store.uploads import ObjectStore
from gpu_runtime.session import Session
from support.fake_control_plane import LEASE, FakeControlPlane
from support.tinker_fakes import FolderStore
from support.tinker_harness import MODEL, Open, Wire, step
from tinkerscript.wire.tinker.messages import LoraOptions, ModelSource, NamedCheckpointOpen

SAMPLE = {
    "sampling_session_id": "tnk_ab:sample:1:ses_0123",
    "seq_id": 0,
    "prompt": {"chunks": [{"type": "encoded_text", "tokens": [3, 4]}]},
    "sampling_params": {"max_tokens": 2},
}


async def test_an_encryption_that_takes_long_is_progress(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "LOOK_S", 0.005)
    grown, was_seen = threading.Event(), []

    def slow_encrypt(folder: Path, recipients: Sequence[pyrage.x25519.Recipient]) -> None:
        grown.clear()
        (folder / "large.age").write_bytes(b"first part")
        was_seen.append(grown.wait(25))
        folder_encrypt(folder, recipients)

    monkeypatch.setattr(work, "folder_encrypt", slow_encrypt)
    key = str(pyrage.x25519.Identity.generate().to_public())
    async with wire_open(advance=grown.set) as wire:
        await wire.model()
        body = {"model_id": MODEL, "seq_id": 1, "path": "a", "age_encryption_recipients": [key]}
        assert "error" not in await wire.do("save_weights_external", body)
    assert was_seen == [True]


def ssh_key(kind: str, *numbers: int) -> str:
    """A public key of these numbers, or of bytes that are one (RFC 4253, section 6.6)."""
    sizes = [(number.bit_length() + 8) // 8 for number in numbers]
    words = [
        kind.encode(),
        *(n.to_bytes(size, "big") for n, size in zip(numbers, sizes, strict=True)),
    ]
    return f"{kind} {b64encode(b''.join(len(word).to_bytes(4, 'big') + word for word in words)).decode()}"


EXTREME = {
    "empty": "", "a zero byte": "age1\0", "a megabyte": "age1" + "q" * 1_000_000, "no key": "ssh-rsa AAAA",
    "a modulus of 0": ssh_key("ssh-rsa", 65537, 0), "an exponent of 0": ssh_key("ssh-rsa", 0, (1 << 2047) | 1),
    "an exponent of 4,000 bits": ssh_key("ssh-rsa", (1 << 3999) | 1, (1 << 4095) | 1),
    "1,024 bits": ssh_key("ssh-rsa", 65537, (1 << 1023) | 1),
    "200,000 bits": ssh_key("ssh-rsa", 65537, (1 << 199_999) | 1),
    "a short ssh-ed25519": ssh_key("ssh-ed25519", 1 << 239),
}  # fmt: skip


@pytest.mark.parametrize("key", EXTREME.values(), ids=EXTREME)
def test_a_public_key_of_extreme_numbers_is_refused_by_its_place(key: str) -> None:
    """Before anything is written; none ends the process, none takes long."""
    sound = str(pyrage.x25519.Identity.generate().to_public())
    with pytest.raises(UserMistake, match=r"\[1\] is no public key that is taken"):
        recipients_read([sound, key])


def test_room_for_the_second_copy_of_a_file_is_looked_at_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights").write_bytes(b"readable")
    monkeypatch.setattr(volume, "RESERVE_BYTES", 1 << 62)
    with pytest.raises(DiskFull, match="MiB are needed"):
        folder_encrypt(tmp_path, [pyrage.x25519.Identity.generate().to_public()])
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


async def test_a_store_that_is_away_is_the_services_fault_and_the_model_is_made_once_it_is_back(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wire_open() as wire:
        await wire.model()
        saved = await wire.do("save_weights", {"model_id": MODEL, "seq_id": 1, "path": "a"})
        other, stored = "tnk_ab:train:1", saved["path"].removeprefix("tinker://").replace("/", "-")
        source = {"path": saved["path"], "checkpoint_id": stored, "files": [], "optimizer": True}
        body = {"model_id": other, "base_model": "tiny", "lora": {"rank": 8}, "source": source}
        wire.store.is_away = True
        answer = await wire.post("/tinker/models", body)
        for failed in (
            await wire.result(answer.json()["request_id"]),
            await _stepped(wire, 1, other),
        ):
            said = failed.json()
            assert said["category"] == "server" and "the object store is away" in said["error"]
        wire.store.is_away = False
        assert "the object store is away" in (await _stepped(wire, 2, other)).json()["error"], (
            "told without a try"
        )
        monkeypatch.setattr(work, "RETRY_S", 0.0)
        assert "metrics" in (await _stepped(wire, 3, other)).json()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (StoreUnavailable("no answer for 60 s"), "is away, try again later: no answer"),
        (StoreFull("the disk has 1 MiB left", "Free some."), "save_weights: the disk has 1 MiB"),
        (UploadRefused("403 AccessDenied"), "save_weights: 403 AccessDenied"),
    ],
)
async def test_a_save_that_the_store_does_not_take_fails_with_the_reason(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch, fault: StoreUnavailable, words: str
) -> None:
    async def refused(*_: object) -> int:
        raise fault

    monkeypatch.setattr(FolderStore, "store", refused)
    async with wire_open() as wire:
        await wire.model()
        said = await wire.do("save_weights", {"model_id": MODEL, "seq_id": 1, "path": "a"})
        assert said["category"] == "server" and words in said["error"]
        assert "metrics" in (await _stepped(wire, 2, MODEL)).json()


async def test_a_checkpoint_that_was_deleted_is_its_clients_mistake(wire_open: Open) -> None:
    async with wire_open() as wire:
        await wire.model()
        other, path = "tnk_ab:train:1", "tinker://gone/weights/a"
        source = {"path": path, "checkpoint_id": "gone-weights-a", "files": [], "optimizer": True}
        body = {"model_id": other, "base_model": "tiny", "lora": {"rank": 8}, "source": source}
        answer = await wire.post("/tinker/models", body)
        for failed in (
            await wire.result(answer.json()["request_id"]),
            await _stepped(wire, 1, other),
        ):
            said = failed.json()
            assert said["category"] == "user" and "was deleted" in said["error"]


async def test_a_load_and_a_sample_of_a_deleted_checkpoint_are_their_clients_mistakes(
    wire_open: Open,
) -> None:
    async with wire_open() as wire:
        await wire.model()
        path = (await wire.do("save_weights", {"model_id": MODEL, "seq_id": 1, "path": "a"}))[
            "path"
        ]
        stored = path.removeprefix("tinker://").replace("/", "-")
        body = {
            "sampling_session_id": "tnk_ab:sample:1:ses_0123",
            "base_model": "tiny",
            "model_path": path,
        }
        await wire.post("/tinker/samplers", body | {"checkpoint_id": stored})
        wire.store.deleted.add(stored)
        load = {"model_id": MODEL, "seq_id": 2, "path": path, "optimizer": True}
        for call, wanted in (("load_weights", load), ("asample", SAMPLE)):
            said = await wire.do(call, wanted)
            assert said["category"] == "user" and "the checkpoint was deleted" in said["error"], (
                call
            )
        wire.store.deleted.clear()
        wire.store.is_away = True
        said = await wire.do("asample", SAMPLE | {"seq_id": 1})
        assert said["category"] == "server" and "the object store is away" in said["error"]


async def test_what_has_to_be_done_again_waits_for_the_store(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, is_away = "tnk_ab:train:1", True
    async with wire_open() as wire:
        await wire.model()
        path = (await wire.do("save_weights", {"model_id": MODEL, "seq_id": 1, "path": "a"}))[
            "path"
        ]
        stored = path.removeprefix("tinker://").replace("/", "-")
        source = {"path": path, "checkpoint_id": stored, "files": [], "optimizer": True}
        body = {"model_id": other, "base_model": "tiny", "lora": {"rank": 8}, "source": source}
        await wire.result((await wire.post("/tinker/models", body)).json()["request_id"])
        assert "metrics" in (await _stepped(wire, 1, other)).json()
        wanted = wire.trainer.models[other]
    fetch = FolderStore.fetch

    async def away_at_first(store: FolderStore, source: ModelSource) -> Path:
        if is_away:
            raise StoreUnavailable("no answer for 60 s")
        return await fetch(store, source)

    monkeypatch.setattr(FolderStore, "fetch", away_at_first)
    monkeypatch.setattr(operation_runner, "STORE_INTERVAL_S", 0.01)
    async with wire_open(poll_s=0.1) as wire:
        promise = await wire.promise("save_weights", {"model_id": other, "seq_id": 2, "path": "b"})
        waits = await wire.result(promise)
        assert (
            waits.status_code == 408
            and "the object store is away" in waits.json()["queue_state_reason"]
        )
        is_away = False
        while (answer := await wire.result(promise)).status_code == 408:
            pass
        assert "path" in answer.json() and wire.trainer.models[other] == wanted
        assert "store" not in wire.ledger.position(next(iter(wire.journal.models.after(other, 1))))


async def test_what_a_killed_runtime_left_half_made_is_removed_at_the_next_start(
    wire_open: Open, tmp_path: Path
) -> None:
    async with wire_open() as wire:
        await wire.model()
        save = {"model_id": MODEL, "seq_id": 1, "sampling_session_seq_id": 0, "kind": "snapshot"}
        await wire.do("save_weights_for_sampler", save)
    (finished,) = (tmp_path / "models").glob("samplers/*/adapters/*")
    half = (
        finished.with_name(".x.writing"), tmp_path / "models/.saving-x.writing", tmp_path / "models/saving-x",
        tmp_path / "models/models/x/.state-1.writing",
    )  # fmt: skip
    for folder in half:
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"half")
    async with wire_open():
        assert not any(folder.exists() for folder in half) and finished.is_dir()


async def _stepped(wire: Wire, seq_id: int, model_id: str) -> httpx.Response:
    return await wire.result(await wire.promise("optim_step", step(seq_id, model_id=model_id)))


async def test_each_part_of_a_named_checkpoint_that_is_stored_is_progress(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"0123456789")
    with FakeControlPlane(part_size_bytes=1) as server:
        server.answers["/v1/runtime/named-checkpoints"] = 200, {"checkpoint_id": "ckp_1"}
        config = RuntimeConfig(
            server.url, LEASE, session_id="ses_0123456789abcdef", runtime_dir=tmp_path
        )
        async with Agent(config) as agent:
            session = Session(agent, await agent.register(), config, ObjectStore(agent))
            before = agent.status.progress
            wanted = NamedCheckpointOpen(
                model_id=MODEL, segment="weights", name="a", lora=LoraOptions(rank=8)
            )
            assert await CheckpointStore(session).store(wanted, folder, 1) == 10
            assert agent.status.progress >= before + 10
