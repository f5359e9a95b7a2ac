"""The Kubernetes launcher on a cluster with a real node: what a pod may not do, and how its end is
reported.
"""

from console.scheduling.processes import wait_until
from launching.backends import WAIT, Backend
from launching.kubernetes_images import BROKEN

WAIT_S = 60


def test_a_pod_has_no_rights_and_none_to_gain(cluster_backend: Backend) -> None:
    program = "id -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; touch /x; "
    program += f"touch {cluster_backend.home}/models/x; touch mine /dev/shm/x && (cd /tmp && touch x) && echo written; "
    program += f"ls /var/run/secrets; echo end; {WAIT}"
    launcher, handle = cluster_backend.start(program)
    assert wait_until(lambda: "end" in launcher.logs(handle, lines=99), timeout_s=WAIT_S)
    said = launcher.logs(handle, lines=99)
    assert "10001" in said and "written" in said
    rights = dict(line.split(":\t") for line in said if ":\t" in line)
    assert rights.pop("NoNewPrivs") == "1" and rights.pop("Seccomp") == "2"
    assert len(rights) == 5 and set(rights.values()) == {"0000000000000000"}
    assert sum("Read-only file system" in line for line in said) == 2, said
    assert any("/var/run/secrets: No such file" in line for line in said), said


def test_a_runtime_that_takes_more_memory_than_it_was_given_is_reported_to_have_ended_of_that(
    cluster_backend: Backend,
) -> None:
    launcher, handle = cluster_backend.start("echo up; x=a; while :; do x=$x$x$x$x; done")
    assert wait_until(
        lambda: launcher.inspect(handle).state == "exited", timeout_s=WAIT_S, poll_s=0.2
    )
    status = launcher.inspect(handle)
    assert (status.code, status.reason) == (-9, "OOMKilled")


def test_an_image_that_cannot_be_had_is_an_end_with_the_kubelets_words(
    cluster_backend: Backend,
) -> None:
    launcher = cluster_backend.launcher(image="127.0.0.1:9/no-such-image:1")
    handle = cluster_backend.new_handle(launcher)
    cluster_backend.started.append((launcher, handle))
    launcher.start(handle, environment={})
    assert wait_until(
        lambda: launcher.inspect(handle).state == "exited", timeout_s=WAIT_S, poll_s=0.1
    )
    reason = launcher.inspect(handle).reason
    assert (
        reason.startswith(("ErrImagePull: ", "ImagePullBackOff: ")) and "no-such-image" in reason
    ), reason
    (said,) = launcher.logs(handle, lines=5)
    assert "no-such-image" in said


def test_a_container_that_cannot_start_is_an_end_with_the_words_of_what_starts_it(
    cluster_backend: Backend,
) -> None:
    launcher = cluster_backend.launcher(image=BROKEN)
    handle = cluster_backend.new_handle(launcher)
    cluster_backend.started.append((launcher, handle))
    launcher.start(handle, environment={})
    assert wait_until(
        lambda: launcher.inspect(handle).state == "exited", timeout_s=WAIT_S, poll_s=0.1
    )
    reason = launcher.inspect(handle).reason
    assert reason.startswith("StartError: ") and "/no-such-program" in reason, reason
