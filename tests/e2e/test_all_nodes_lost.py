"""One session on a real Kubernetes, every part real, all of whose nodes lose their power at once:
Kubernetes evicts nothing then, and the session goes on at the next node that comes.
"""

from pathlib import Path

import pytest
from e2e.loop_server import until
from e2e.test_nodes import GRPO_N, TASKS, has_noticed, play, served_on_cluster

from support.tiny_model import tiny_model_make
from tinkerscript import TinkerScript
from tinkerscript.wire.sessions import SessionState

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1500)]
# 45 s without a heartbeat; a pod that was placed on a dead node meanwhile is given up after 60 s.
NOTICED_S, AGAIN_S = 90, 300


def test_a_session_whose_nodes_are_all_lost_goes_on_at_the_next_one(
    tmp_path: Path, embedded_s3: str
) -> None:
    tiny_model_make(tmp_path / "data" / "models" / "tiny")
    with served_on_cluster(tmp_path, embedded_s3, {}, nodes=2, spare=1) as server:
        remote = TinkerScript(
            base_model="tiny", base_url=server.url, api_key=server.key, grpo_n=GRPO_N, tasks_per_batch=1,
            learning_rate=1e-3, max_context_length=256, max_tokens=8, checkpoint_every_steps=1,
        )  # fmt: skip
        play(remote, TASKS[0])
        for node in server.cluster.nodes:
            node.lose()
        until(lambda: has_noticed(remote), "the loss was noticed", timeout_s=NOTICED_S)
        server.cluster.node_add()
        until(
            lambda: remote.status().state == SessionState.READY,
            "it is ready again",
            timeout_s=AGAIN_S,
        )
        play(remote, TASKS[1])
        remote.download_tuned_model(tmp_path / "tuned", progress=False)
        accounting = remote.accounting()
        assert accounting.balances and accounting.trained == accounting.begun == 2 * GRPO_N
        assert [event.data["step"] for event in remote.events(kinds=["metric"])] == [1, 2]
        remote.close()
