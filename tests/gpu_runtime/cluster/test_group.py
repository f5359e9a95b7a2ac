"""The machines of a session: which cluster is theirs, and what is refused in words. Ray is a fake
here; the real one is in test_ray_ranks.py.
"""

import logging
from contextlib import ExitStack
from ipaddress import ip_address
from types import SimpleNamespace

import pytest

from gpu_runtime.cluster import group, joining, slurm
from gpu_runtime.cluster import node as node_module
from gpu_runtime.cluster.pods import INDEX, NOTICE, OWN_ADDRESS, PODS, pod_index, pods
from gpu_runtime.cluster.rank_actor import LOST_S
from gpu_runtime.cluster.same import versions, versions_differ
from gpu_runtime.errors import NodesDiffer, PlacementImpossible, TrainerFailed


def node(address: str, alive: bool = True, **resources: float) -> dict[str, object]:
    return {
        "NodeID": f"id of {address}",
        "NodeManagerAddress": address,
        "Alive": alive,
        "Resources": resources,
    }


class Refused(Exception):
    """Ray's, of a token."""


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    fake = SimpleNamespace(exceptions=SimpleNamespace(AuthenticationError=Refused))
    for module in (group, joining):
        monkeypatch.setattr(module, "ray_import", lambda: fake)
    monkeypatch.setattr(joining, "ray_import_verify", lambda: None)
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", slurm.NODES):
        monkeypatch.delenv(name, raising=False)
    return fake


def found(nodes: int = 2) -> tuple[str, str]:
    with ExitStack() as started:
        return joining._cluster_find(nodes, started)  # noqa: SLF001


def test_versions_that_differ_are_named_with_both_nodes() -> None:
    ours = versions()
    # those of the page, and the engine's
    named = {"Python", "torch", "deepspeed", "transformers", "tinkerscript", "vLLM"}
    assert named <= ours.keys()
    assert versions_differ("n2", dict(ours), "n1", ours) == ""
    said = versions_differ("n2", ours | {"torch": "1.0"}, "n1", ours)
    assert said == f"node n2 has torch 1.0; node n1 has torch {ours['torch']}"
    assert "tinkerscript none" in versions_differ("n2", {}, "n1", ours)


def test_a_runtime_without_ray_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        PlacementImpossible, match=r"needs Ray, which is not .*requirements/ray.txt"
    ):
        found()


def test_a_runtime_in_no_cluster_is_refused(ray: SimpleNamespace) -> None:
    with pytest.raises(PlacementImpossible, match="nodes=2 needs a Ray cluster, a job of Slurm"):
        found()


def test_a_job_of_another_number_of_pods_is_refused(
    ray: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINKERSCRIPT_RUNTIME_PODS", "a-0.a,a-1.a")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    assert pods() == ["a-0.a", "a-1.a"] and pod_index() == 1
    with pytest.raises(PlacementImpossible, match="nodes=3, and this Job of Kubernetes has 2 pods"):
        found(3)


def test_a_pod_joins_the_runtimes_address_and_not_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For which it has a certificate."""
    given = {PODS: "localhost,other.pods", INDEX: "1", OWN_ADDRESS: "10.0.0.8"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    listening, joined = iter([True, False]), []
    monkeypatch.setattr(node_module, "AGAIN_S", 0)
    monkeypatch.setattr(node_module, "listens", lambda *_: next(listening))
    monkeypatch.setattr(node_module, "node_run", lambda *given: joined.append(given))
    monkeypatch.setattr(node_module.signal, "signal", lambda *_: None)
    monkeypatch.setenv(NOTICE, "")  # which it sets: no later test has it
    assert node_module.pod_join() == 0
    ((address, own),) = joined
    assert ip_address(address.rpartition(":")[0]).is_loopback and own == "10.0.0.8"


@pytest.mark.parametrize(("mode", "warned"), [("token", False), ("", True), ("disabled", True)])
def test_a_cluster_without_authentication_is_used_with_a_warning_of_what_it_means(
    ray: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: str,
    warned: bool,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with caplog.at_level(logging.WARNING):
        assert found() == ("10.0.0.1:6379", "")
    assert ("whoever reaches it can run any program" in caplog.text) == warned


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (
            RuntimeError("Version mismatch: Ray: 2.59.0\nThis process: 2.60.0"),
            NodesDiffer,
            "2.59.0",
        ),
        (Refused("InvalidAuthToken"), PlacementImpossible, "does not take this runtime's token"),
        (ConnectionError("no GCS"), TrainerFailed, "is not reached: no GCS"),
    ],
)
def test_a_cluster_that_cannot_be_joined_says_why(
    ray: SimpleNamespace, error: Exception, kind: type[Exception], says: str
) -> None:
    def init(**_: object) -> None:
        raise error

    ray.init = init
    with pytest.raises(kind, match=says):
        joining._connect("10.0.0.1:6379", "")  # noqa: SLF001


def test_a_cluster_that_is_too_small_is_named_with_what_was_found(
    ray: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.nodes = lambda: [node("n1"), node("n2", CPU=4.0, GPU=1.0), node("n3", alive=False, CPU=64)]
    monkeypatch.setattr(group, "JOIN_S", 0.0)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    bundle = {"CPU": 8.0, "GPU": 2.0}
    said = (
        r"nodes=2 needs 2 machines of a Ray cluster with CPU 8, GPU 2 free on each; after 0 s this "
        r"one has 2: n1 \(CPU 0, GPU 0\), n2 \(CPU 4, GPU 1\)"
    )
    with pytest.raises(TrainerFailed, match=said):
        group._nodes_wait(2, bundle, "id of n1")  # noqa: SLF001
    ray.nodes = lambda: [node("n1"), node("n2", CPU=8.0, GPU=2.0)]
    group._nodes_wait(2, bundle, "id of n1")  # noqa: SLF001


class Silent(Exception):
    """Ray's, of a deadline."""


class Died(Exception):
    """Ray's, of an actor."""

    def __init__(self, said: str, *, actor_init_failed: bool) -> None:
        super().__init__(said)
        self.actor_init_failed = actor_init_failed


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (
            Died(
                "The actor died because of an error raised in its creation task "
                "(pid=7, ip=10.0.0.2, actor_id=b8)\n  File ...\n"
                "ModuleNotFoundError: No module named 'gpu_runtime'",
                actor_init_failed=True,
            ),
            NodesDiffer,
            "node 10.0.0.2 cannot .* Install the same release .* No module named 'gpu_runtime'",
        ),
        (Died("its node died", actor_init_failed=False), TrainerFailed, "lost.* its node died"),
        (Silent(), TrainerFailed, "started no process within 120 s"),
    ],
)
def test_a_node_that_cannot_say_what_it_has_is_told_of_in_words(
    ray: SimpleNamespace, error: Exception, kind: type[Exception], says: str
) -> None:
    def get(*_: object, **__: object) -> None:
        raise error

    ray.get, ray.exceptions = get, SimpleNamespace(GetTimeoutError=Silent, RayActorError=Died)
    with pytest.raises(kind, match=says):
        group._told([])  # noqa: SLF001


def test_machines_of_its_own_cluster_that_do_not_come_are_looked_for_again(
    ray: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other than a cluster that exists, the next job may have them."""
    ray.nodes = lambda: [node("n1", CPU=1.0)]
    monkeypatch.setattr(group, "JOIN_S", 0.0)
    with pytest.raises(TrainerFailed, match="this one has 1: n1"):
        group._nodes_wait(2, {"CPU": 1.0}, "id of n1")  # noqa: SLF001


def test_a_job_of_slurm_over_another_number_of_nodes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = "NodeName=n1 NodeAddr=10.0.0.1 State=IDLE\nNodeName=n2 State=IDLE\n"
    monkeypatch.setattr(slurm, "_scontrol", lambda *_: told)
    inside = {slurm.NODES: "n[1-2]", slurm.OWN: "n2"}
    nodes = slurm.job_nodes(2, inside)
    assert [(each.name, each.address) for each in nodes] == [("n2", "n2"), ("n1", "10.0.0.1")]
    assert "--nodelist=n1" in slurm.on_nodes(nodes[1:])
    with pytest.raises(PlacementImpossible, match="nodes=3, and Slurm gave this job 2: n1, n2"):
        slurm.job_nodes(3, inside)


def test_what_is_started_here_has_no_dashboard_and_asks_for_a_token() -> None:
    head = joining.node_command(own="10.0.0.1", port=6379, folder="sessions")
    assert "--include-dashboard=false" in head and "--node-ip-address=10.0.0.1" in head
    other = joining.node_command(address="10.0.0.1:6379")
    assert "--address=10.0.0.1:6379" in other and "--head" not in other


def test_a_node_without_power_is_found_while_its_ranks_are_asked_what_became_of_them() -> None:
    """No connection to it ends: the checks of the head alone find it."""
    checks = {
        name.removeprefix("RAY_health_check_"): int(value)
        for name, value in joining.USUAL.items()
        if name.startswith("RAY_health_check_")
    }
    count = checks["failure_threshold"]
    found_ms = count * checks["timeout_ms"] + (count - 1) * checks["period_ms"]
    assert found_ms / 1000 + group.WATCH_S < LOST_S
