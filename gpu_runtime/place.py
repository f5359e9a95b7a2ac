"""Where a runtime finds itself: the address under which the control plane reaches it, and the devices it was given."""

import socket
from urllib.parse import urlsplit

from .config import RuntimeConfig
from .errors import RuntimeFault

EVERYWHERE = "0.0.0.0"


class DevicesMissing(RuntimeFault):
    """Fewer GPUs are visible than the launcher asked for."""

    code = "devices_missing"
    hint = "Look at how the container engine or cluster hands out GPUs: the runtime was started without them."


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
    """Raise DevicesMissing when fewer are visible than were asked for.

    Looked at from inside, because an engine may ignore the request (podman does, silently), and training on a CPU that
    was meant for a GPU would pass for very slow progress.
    """
    if not gpus:
        return
    import torch

    found = torch.cuda.device_count()
    if found < gpus:
        raise DevicesMissing(f"{gpus} GPUs were asked for and {found} are visible inside the runtime")
