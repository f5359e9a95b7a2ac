"""Both pods of one runtime on a test's Kubernetes: in the first a program of the tests, in the
other the product.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

from console.scheduling.launchers.kubernetes_objects.manifests import USER
from console.scheduling.launchers.protocol import Resources
from console.scheduling.processes import wait_until
from launching.backends import kubernetes_launcher
from launching.kubernetes_images import SHELL, of_checkout
from launching.nodes_cluster import NodesCluster
from launching.real_kubernetes import CLAIM
from support.tiny_model import tiny_model_make


class PodsJob:
    """Of ``program``, which is given its folder: a model of so many ``heads``, and what is
    ``wanted`` as config.json.

    Each pod has ``memory_gib``; what the program writes is waited for ``within_s``.
    """

    def __init__(
        self, cluster: NodesCluster, data: Path, program: str, wanted: dict[str, object], *,
        heads: tuple[int, int] = (2, 1), memory_gib: int = 3, within_s: float = 150,
    ) -> None:  # fmt: skip
        self.folder, self._within_s = data / "ses_0123456789abcdef", within_s
        tiny_model_make(self.folder / "model", heads=heads)
        (self.folder / "config.json").write_text(json.dumps(wanted))
        subprocess.run(["chown", "-R", f"{USER}:{USER}", self.folder], check=True, timeout=20)
        first, python = shlex.join([sys.executable, program, str(self.folder)]), sys.executable
        line = f'[ "$JOB_COMPLETION_INDEX" != 0 ] || exec {first}; exec {python} -m gpu_runtime'
        resources = Resources(memory_bytes=memory_gib << 30, cpus=1)
        self.launcher = kubernetes_launcher(
            cluster.api, data=data, image=of_checkout(SHELL), resources=resources,
            kubernetes_namespace=cluster.namespace, kubernetes_claim=CLAIM,
        )  # fmt: skip
        # Ranks find one another in the folder that all pods have: /tmp is of each its own.
        environment = {"PROGRAM": line, "TINKERSCRIPT_RUNTIME_DIR": str(self.folder)}
        names = {"session_id": self.folder.name, "instance_id": "0123abcd", "folder": self.folder}
        fresh = self.launcher.new_handle(**names) | {"nodes": 2}
        self.handle = self.launcher.start(fresh, environment=environment)

    def wait(self, name: str) -> Path:
        """For a file that the first pod writes."""
        path = self.folder / name
        assert wait_until(path.exists, timeout_s=self._within_s, poll_s=0.2), self.launcher.logs(
            self.handle, lines=40
        )
        return path
