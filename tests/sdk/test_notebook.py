"""A notebook: begin in one cell, end in the next, in a real kernel, where every cell has a context
of its own.
"""

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from sdk.rest_server import API_KEY

pytestmark = pytest.mark.system

TIMEOUT_S = 120


@pytest.fixture
def cell(server):
    manager, client = start_new_kernel(startup_timeout=TIMEOUT_S, kernel_name="python3")
    try:
        yield lambda code: run(client, code)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def run(client: BlockingKernelClient, code: str) -> str:
    """What the cell prints; its error fails the test."""
    texts: list[str] = []

    def listen(message):
        if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
            texts.append(message["content"]["text"])

    reply = client.execute_interactive(code, output_hook=listen, timeout=TIMEOUT_S)
    assert reply["content"]["status"] == "ok", "\n".join(reply["content"].get("traceback", []))
    return "".join(texts).strip()


def test_cells_share_one_current_episode_and_tasks_of_a_cell_do_not(server, cell):
    cell("from tinkerscript import NoOpenEpisode, TinkerScript\nimport asyncio")
    cell(f"session = TinkerScript('m', base_url={server.url!r}, api_key={API_KEY!r})")
    cell("base_url, key = session.begin_episode(task='first')")
    assert cell("print(session.end_episode(0.5).reward)") == "0.5"
    cell("session.begin_episode(task='second')")
    # as in a plain program, it takes the second's place
    cell("session.begin_episode(task='third')")
    assert [(e.task, e.reason) for e in server.episodes.values() if e.state == "abandoned"] == [
        ("second", "superseded")
    ]
    cell(
        "async def rollout(n):\n"
        "    try:\n"
        "        session.end_episode(0.0)\n"
        "    except NoOpenEpisode:\n"
        "        session.begin_episode(task=f'task {n}')\n"
        "        await asyncio.sleep(0.01)\n"
        "        session.end_episode(float(n))\n"
        "await asyncio.gather(*(rollout(n) for n in range(4)))"
    )
    assert cell("await asyncio.sleep(0)\nprint(session.end_episode(1.0).task)") == "third"
    assert sorted((e.task, e.reward) for e in server.episodes.values() if e.reward is not None) == [
        ("first", 0.5),
        *[(f"task {n}", float(n)) for n in range(4)],
        ("third", 1.0),
    ]


def test_begin_that_has_to_wait_waits_in_a_cell(server, cell):
    cell("from tinkerscript import TinkerScript\nimport threading")
    cell(f"session = TinkerScript('m', base_url={server.url!r}, api_key={API_KEY!r})")
    server.places = 1
    cell(
        "begun = []\nthread = threading.Thread(target=lambda: begun.append(session.begin_episode()))"
    )
    cell("thread.start()\nthread.join()\nthreading.Timer(2.0, begun[0].abandon).start()")
    assert (
        cell("episode = session.begin_episode()\nepisode.end(1.0)\nprint(episode.is_open)")
        == "False"
    )
