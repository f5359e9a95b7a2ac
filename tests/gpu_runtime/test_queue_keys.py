"""vLLM's queues between nodes: whoever has not the session's keys reads nothing, and is believed
nothing.
"""

import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from gpu_runtime.engine.over_nodes.queue_keys import KEYS, keys_make, queues_protect

pytest.importorskip("vllm")
pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]
ADDRESS, ANSWER_MS, STRANGER_MS = "127.0.0.1", 20_000, 1500
Keys = Callable[[str], None]


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keys:
    """Sets the pair of this name for the queues that are made from now on."""
    from vllm.distributed.device_communicators import shm_broadcast

    monkeypatch.setattr(shm_broadcast, "Context", shm_broadcast.Context)  # put back after the test

    def use(name: str) -> None:
        if not (tmp_path / name).exists():
            (tmp_path / name).mkdir()
            keys_make(tmp_path / name)
        queues_protect(tmp_path / name)

    return use


@pytest.fixture
def context() -> Iterator[zmq.Context]:
    with zmq.Context() as found:
        yield found


def test_the_keys_are_for_this_user_alone(tmp_path: Path) -> None:
    keys_make(tmp_path)
    assert stat.S_IMODE((tmp_path / KEYS).stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        keys_make(tmp_path)


def test_a_reader_with_the_keys_reads_and_a_stranger_or_another_session_does_not(
    keys: Keys, context
) -> None:
    from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

    keys("ours")
    queue = MessageQueue(n_reader=1, n_local_reader=0, connect_ip=ADDRESS)
    handle = queue.export_handle()
    assert handle.remote_subscribe_addr.startswith(f"tcp://{ADDRESS}:"), "nowhere else"
    stranger = context.socket(zmq.SUB)
    stranger.setsockopt_string(zmq.SUBSCRIBE, "")
    stranger.connect(handle.remote_subscribe_addr)
    keys("theirs")
    other = MessageQueue.create_from_handle(handle, -1)
    assert not queue.remote_socket.poll(STRANGER_MS), (
        "neither counts as a reader: the queue would begin without ours"
    )
    keys("ours")
    reader = MessageQueue.create_from_handle(handle, -1)
    ready = threading.Thread(target=queue.wait_until_ready)
    ready.start()
    reader.wait_until_ready()
    ready.join()
    queue.enqueue({"prompt": "secret"})
    assert reader.dequeue(timeout=ANSWER_MS / 1000) == {"prompt": "secret"}
    assert not stranger.poll(STRANGER_MS) and not other.remote_socket.poll(STRANGER_MS)
    stranger.close()


@pytest.mark.smoke
def test_what_a_stranger_sends_in_the_place_of_a_queue_is_never_unpickled(
    keys: Keys, context
) -> None:
    """A reader that reaches another program at the address of its queue takes no message of it."""
    from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

    keys("ours")
    handle = MessageQueue(n_reader=1, n_local_reader=0, connect_ip=ADDRESS).export_handle()
    impostor = context.socket(zmq.XPUB)
    port = impostor.bind_to_random_port(f"tcp://{ADDRESS}")
    handle.remote_subscribe_addr = f"tcp://{ADDRESS}:{port}"
    reader = MessageQueue.create_from_handle(handle, -1)
    assert not impostor.poll(STRANGER_MS), "it has not subscribed"
    impostor.send(b"anything")
    assert not reader.remote_socket.poll(STRANGER_MS)
    impostor.close()
