"""On which device a rank computes, and where it listens for the others: also on GPUs, of which no
test here has one.
"""

import os

import pytest

from gpu_runtime.training.rank_process import rank_environment
from gpu_runtime.training.rank_spec import RankSpec
from tinkerscript.wire.config import SessionConfig


def spec_of(rank: int, *, nodes: int, ranks: int = 4, device: str = "cuda") -> RankSpec:
    config = SessionConfig(trainer_ranks=ranks, nodes=nodes)
    return RankSpec("", config, rank, ranks, "", device, 1, peer="127.0.0.1" if nodes > 1 else "")


@pytest.mark.parametrize(
    ("nodes", "devices"), [(1, [0, 1, 2, 3]), (2, [0, 1, 0, 1]), (4, [0, 0, 0, 0])]
)
def test_a_rank_has_the_device_of_its_place_on_its_node(nodes: int, devices: list[int]) -> None:
    assert [spec_of(rank, nodes=nodes).torch_device for rank in range(4)] == [
        f"cuda:{each}" for each in devices
    ]
    assert spec_of(3, nodes=nodes, device="cpu").torch_device == "cpu"


@pytest.mark.parametrize(("nodes", "local_rank"), [(1, "3"), (2, "1")])
def test_ranks_meet_over_one_interface_and_deepspeed_is_told_the_device(
    monkeypatch: pytest.MonkeyPatch, nodes: int, local_rank: str
) -> None:
    """NCCL by itself takes an interface of the machine's network, and so would its ranks'
    sockets.
    """
    monkeypatch.setattr(os, "environ", {})
    rank_environment(spec_of(3, nodes=nodes))
    assert os.environ["NCCL_SOCKET_IFNAME"] == "=lo" and os.environ["GLOO_SOCKET_IFNAME"] == "lo"
    assert (os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"]) == (
        "3",
        local_rank,
        "4",
    )
