"""Environments of tests, beside .venv: tests/environments/build.py NAME... [--beside FOLDER]

Each is .venv-NAME, of the packages that tests/environments/NAME.txt locks by their hashes, in other
versions than .venv has. Those of ADDED see the packages of another environment, .venv or FOLDER,
and add their own few to it. One that is whole already stays as it is.
"""

import argparse
import hashlib
import os
import runpy
import subprocess
import sys
from pathlib import Path

LOCKS = Path(__file__).resolve().parent
ROOT = LOCKS.parents[1]
NAMES = sorted(path.stem for path in LOCKS.glob("*.txt"))
ADDED = ("trl", "cookbook", "ray-dashboard")
BUILD_S = 1200


def environment_make(name: str, base: Path) -> Path:
    """Its folder, made unless it is there. Raises CalledProcessError, TimeoutExpired."""
    folder = base.with_name(f"{base.name}-{name}")
    stamp, lock = folder / "made-of", LOCKS / f"{name}.txt"
    wanted = hashlib.sha256(lock.read_bytes() + str(base).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    print(f"{folder.name} ...", flush=True)
    uv, python = str(Path(sys.executable).with_name("uv")), str(base / "bin" / "python")
    uv_run(uv, "venv", "--quiet", "--clear", "--python", python, str(folder))
    if name in ADDED:
        for packages in folder.glob("lib/python*/site-packages"):
            shared = base / packages.relative_to(folder)
            (packages / "shared.pth").write_text(f"{shared}\n")
    target = str(folder / "bin" / "python")
    install = (uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes")
    uv_run(*install, "--python", target, "-r", str(lock))
    stamp.write_text(wanted)
    return folder


def uv_run(*command: str) -> None:
    settings = runpy.run_path(str(ROOT / "requirements" / "uv_settings.py"))["settings"]()
    environment = os.environ | {"UV_NO_CACHE": "1"} | settings
    subprocess.run(command, env=environment, check=True, timeout=BUILD_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="+", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--beside", type=Path, default=ROOT / ".venv", metavar="FOLDER")
    options = parser.parse_args()
    failed = []
    for name in options.names:
        try:
            environment_make(name, options.beside.absolute())
        except (subprocess.SubprocessError, OSError) as trouble:
            failed.append(name)
            print(f"{name} could not be made, and its tests skip: {trouble}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
