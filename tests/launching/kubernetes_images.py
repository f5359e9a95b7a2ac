"""What the pods of a test's Kubernetes run: images of a few programs, and two of this checkout with
its packages.

These have nothing of their own: the node puts what this machine has installed into each of its
containers, to be read alone, as nodes do with drivers of devices. One begins with the product, the
other with what PROGRAM says.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from launching.dockerd import ENTRYPOINT, busybox_rootfs

RUNTIME, PAUSE = "tests.local/runtime:1", "tests.local/pause:1"
BROKEN = "tests.local/broken:1"
PRODUCT, SHELL = "tests.local/product:1", "tests.local/shell:1"
BASE = "base.json"
ROOT = Path(__file__).resolve().parents[2]
USER = "tinkerscript:x:10001:10001::/tmp:/bin/sh\n"
LINKS = ("bin", "lib", "lib64", "sbin")  # to /usr in the machine's own


def base_write(folder: Path) -> None:
    """The specification that each container of a node begins with (OCI), as ``folder``/BASE."""
    said = subprocess.run(
        ["ctr", "oci", "spec"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    base = json.loads(said)
    options = ["rbind", "ro"]
    base["mounts"] += [
        {"destination": path, "source": path, "type": "bind", "options": options}
        for path in _shared()
    ]
    (folder / BASE).write_text(json.dumps(base))


def images_write(folder: Path) -> Iterator[Path]:
    """Each image as an archive for ``ctr images import``."""
    path = folder / "image.tar"
    commands = {RUNTIME: ENTRYPOINT, PAUSE: ["/bin/sleep", "1000000"], BROKEN: ["/no-such-program"]}
    for name, command in commands.items():
        path.write_bytes(_image(name, busybox_rootfs(), {"Entrypoint": command}))
        yield path
    code = os.pathsep.join(str(ROOT / place) for place in ("", "sdk", "tests"))
    environment = ["PATH=/usr/local/bin:/usr/bin:/bin", f"PYTHONPATH={code}"]
    for name, command in ((PRODUCT, [sys.executable, "-m", "gpu_runtime"]), (SHELL, ENTRYPOINT)):
        path.write_bytes(_image(name, _links(), {"Entrypoint": command, "Env": environment}))
        yield path


def of_checkout(image: str) -> str:
    """PRODUCT or SHELL. Skips where pods would not see this checkout."""
    if any(
        Path("/tmp") in Path(path).resolve().parents for path in (ROOT, sys.prefix, sys.base_prefix)
    ):
        pytest.skip("pods have a /tmp of their own, and this checkout is under the machine's")
    return image


def _shared() -> list[str]:
    """Folders of this machine, none within another."""
    places = {Path("/usr"), Path("/etc/alternatives"), Path("/etc/ld.so.cache"), ROOT}
    places |= {Path(path).resolve() for path in (sys.prefix, sys.base_prefix)}
    apart = [place for place in places if not any(other in place.parents for other in places)]
    return sorted(str(place) for place in apart if place.exists())


def _links() -> bytes:
    """A tar of a root file system into which the machine's programs are put."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in LINKS:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        for name, content in (("etc/passwd", USER), ("etc/nsswitch.conf", "hosts: files dns\n")):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content.encode()))
    return packed.getvalue()


def _image(name: str, layer: bytes, settings: dict[str, object]) -> bytes:
    """An image of one layer, as ``docker save`` would write it."""
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        "config.json": json.dumps(config),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            content = content if isinstance(content, bytes) else content.encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
