"""What docker/build.sh built, started as compose.yaml and the launchers start it. No network is
needed, nor a GPU.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException, ImageNotFound
from docker.models.containers import Container

from console.scheduling.processes import wait_until
from launching.daemons import STOP_S
from tinkerscript.wire.version import VERSION

START_S = 60
LOCKED_DOWN = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "network_mode": "none",
}
LOCKED_DOWN |= {"tmpfs": {"/tmp": "rw,exec,size=1g"}, "detach": True}
HEALTHY = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000{}', timeout=25).read().decode())"
PUT_AND_GET = """
import boto3, botocore.exceptions, os
def client(secret):
    return boto3.client('s3', endpoint_url='http://127.0.0.1:8333', region_name='us-east-1',
                        aws_access_key_id='console', aws_secret_access_key=secret)
client(os.environ['S3_SECRET_KEY']).create_bucket(Bucket='tests')
client(os.environ['S3_SECRET_KEY']).put_object(Bucket='tests', Key='a', Body=b'kept')
print(client(os.environ['S3_SECRET_KEY']).get_object(Bucket='tests', Key='a')['Body'].read())
try:
    client('another').get_object(Bucket='tests', Key='a')
except botocore.exceptions.ClientError as error:
    print(error.response['ResponseMetadata']['HTTPStatusCode'])
"""
VERIFY = """
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.placement import devices_verify
for gpus in (0, 1):
    try:
        devices_verify(gpus)
        print('fine')
    except PlacementImpossible as fault:
        print(fault)
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    there = "DOCKER_HOST" in os.environ or Path("/var/run/docker.sock").exists()
    try:
        client = docker.from_env(timeout=START_S) if there else None
    except DockerException:
        client = None
    if client is None:
        pytest.skip(
            "no Docker Engine answers (DOCKER_HOST names one): there are no images of ours to try"
        )
    yield client
    client.close()


@pytest.fixture
def started(engine: docker.DockerClient) -> Iterator[Callable[..., Container]]:
    """A container of an image, with ``options`` of docker-py; skips where the image was not
    built.
    """
    containers: list[Container] = []

    def start(image: str, command: list[str] | None = None, **options: object) -> Container:
        try:
            engine.images.get(image)
        except ImageNotFound:
            pytest.skip(f"the engine has no image {image}: docker/build.sh makes it")
        name = f"tinkerscript-tests-{secrets.token_hex(4)}"
        containers.append(
            engine.containers.run(image, command, name=name, **(LOCKED_DOWN | options))
        )
        return containers[-1]

    yield start
    for container in containers:
        container.remove(force=True, v=True)


def said(container: Container) -> list[str]:
    """The lines of a container that ends by itself."""
    container.wait(timeout=START_S)
    return container.logs().decode().splitlines()


def answer(container: Container, program: str) -> str | None:
    """What a Python program in the container prints, None if it fails."""
    done = container.exec_run(["python3", "-c", program])
    return done.output.decode() if done.exit_code == 0 else None


@contextmanager
def explained(container: Container) -> Iterator[None]:
    """An assertion that fails shows the container's log."""
    try:
        yield
    except AssertionError:
        print(container.logs(tail=30).decode())
        raise


def test_the_web_server_serves_with_nothing_but_a_folder_to_write_to(started) -> None:
    folders = {"/tmp": "", "/data": "mode=0700,uid=10001,gid=10001"}
    settings = {"TINKERSCRIPT_SECRET_KEY": secrets.token_hex(32)}
    web = started(f"tinkerscript-server:{VERSION}", init=True, tmpfs=folders, environment=settings)
    with explained(web):
        assert wait_until(
            lambda: answer(web, HEALTHY.format("/healthz")) is not None, timeout_s=START_S
        )
        assert "/assets/" in answer(web, HEALTHY.format("/"))  # the console was built into it
        assert web.exec_run(["id", "-u"]).output.strip() == b"10001"
    started_at = time.monotonic()
    web.stop(timeout=STOP_S)
    assert time.monotonic() - started_at < STOP_S  # it ended by itself


def test_the_store_serves_its_one_identity_as_root_without_a_right(started) -> None:
    keys = {"S3_ACCESS_KEY": "console", "S3_SECRET_KEY": secrets.token_hex(32)}
    options = {
        "init": True,
        "user": "0:0",
        "tmpfs": {"/tmp": "", "/store": ""},
        "environment": keys,
    }
    store = started(f"tinkerscript-server:{VERSION}", ["/app/docker/store.sh", "/store"], **options)
    with explained(store):
        assert wait_until(
            lambda: answer(store, PUT_AND_GET) is not None, timeout_s=START_S, poll_s=1
        )
        assert (
            answer(store, PUT_AND_GET.replace(".create_bucket(", ".head_bucket("))
            == "b'kept'\n403\n"
        )


@pytest.mark.parametrize(
    "image", [f"tinkerscript-runtime:{VERSION}-cpu", f"tinkerscript-runtime:{VERSION}-cuda"]
)
def test_a_runtime_that_no_launcher_started_reports_it_in_a_line(started, image: str) -> None:
    container = started(image)
    assert said(container) == [
        "error: TINKERSCRIPT_SERVER_URL is not set; a runtime is started by a launcher, which sets it"
    ]
    assert container.wait(timeout=START_S)["StatusCode"] == 1


def test_the_runtime_for_cpus_asks_for_no_gpu_and_misses_one_that_was_asked_for(started) -> None:
    lines = said(
        started(f"tinkerscript-runtime:{VERSION}-cpu", ["-c", VERIFY], entrypoint=["python3"])
    )
    assert lines == ["fine", "1 GPUs were asked for and 0 are visible inside the runtime"]


def test_the_runtime_for_gpus_reports_that_none_is_there(started) -> None:
    lines = said(
        started(f"tinkerscript-runtime:{VERSION}-cuda", ["-c", VERIFY], entrypoint=["python3"])
    )
    assert lines[0].startswith(
        "no GPU is visible inside the runtime, and its vLLM is the build for NVIDIA GPUs"
    )
    assert lines[1:] == ["1 GPUs were asked for and 0 are visible inside the runtime"]


def test_the_packages_of_the_runtime_for_gpus_go_together(started) -> None:
    container = started(
        f"tinkerscript-runtime:{VERSION}-cuda", ["-m", "pip", "check"], entrypoint=["python3"]
    )
    assert said(container) == ["No broken requirements found."]
