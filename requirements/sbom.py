"""What a release is made of, as CycloneDX 1.6 JSON: ``make sbom``, which writes dist/sbom.json.

It is read from the locks, so it names what set-up and images install, whatever this machine has:
Python packages of the CPU's and the GPU's runtime, and npm packages of the console's pages with
their hashes. The same locks give the same bytes.
"""

import base64
import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements/server.txt", "requirements/cpu.txt", "requirements/cuda.txt")
PAGES = "frontend/package-lock.json"
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;#]+)")
VERSION = ROOT / "sdk" / "tinkerscript" / "wire" / "version.py"


def sbom() -> dict[str, Any]:
    """The document."""
    components = {each["purl"]: each for each in (*_of_python(), *_of_npm())}
    version = re.search(r'"(\d[^"]*)"', VERSION.read_text())
    assert version is not None, VERSION
    content = [components[purl] for purl in sorted(components)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content))}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "tinkerscript", "version": version[1]}
        },
        "components": content,
    }


def _of_python() -> Iterator[dict[str, Any]]:
    for lock in LOCKS:
        for line in (ROOT / lock).read_text().splitlines():
            if pin := PIN.match(line):
                name = re.sub(r"[-_.]+", "-", pin[1]).lower()
                yield {
                    "type": "library",
                    "name": name,
                    "version": pin[2],
                    "purl": f"pkg:pypi/{name}@{pin[2]}",
                }


def _of_npm() -> Iterator[dict[str, Any]]:
    for path, package in json.loads((ROOT / PAGES).read_text())["packages"].items():
        if not path:  # the pages themselves
            continue
        name, version = path.rpartition("node_modules/")[2], package["version"]
        kind, _, digest = package.get("integrity", "").partition("-")
        found = {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{version}",
            "scope": "excluded"
            if package.get("dev")
            else "required",  # excluded: it builds the pages, and stays behind
        }
        if kind == "sha512":
            found["hashes"] = [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}]
        yield found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sbom(), indent=1) + "\n")
