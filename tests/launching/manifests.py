"""The plain manifests for Kubernetes, as they stand in docker/kubernetes."""

from pathlib import Path
from typing import Any

import yaml

DOCKER = Path(__file__).resolve().parents[2] / "docker"


def manifests() -> list[dict[str, Any]]:
    files = [
        path
        for path in sorted((DOCKER / "kubernetes").glob("*.yaml"))
        if path.name != "kustomization.yaml"
    ]
    return [manifest for path in files for manifest in yaml.safe_load_all(path.read_text())]
