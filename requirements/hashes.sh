#!/usr/bin/env bash
# Writes requirements/control-plane.lock anew: what the image of the control plane installs, each package in the version of
# constraints.txt and with the hashes of its files, by which pip refuses any other file. To be run after a change of
# server.txt, launchers.txt or constraints.txt; make hashes
# From the index of uv (UV_DEFAULT_INDEX names another): one that builds packages itself has other hashes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/uv"
"$work/uv/bin/python" -m pip install --quiet --disable-pip-version-check -r uv.txt
{
  echo "# What docker/control-plane.Dockerfile installs, with pip install --require-hashes. Made by requirements/hashes.sh."
  "$work/uv/bin/uv" pip compile --quiet --generate-hashes --no-header --no-annotate --only-binary :all: \
    --python-version 3.11.9 --python-platform x86_64-manylinux_2_36 -c constraints.txt server.txt launchers.txt
} >"$work/lock"
mv "$work/lock" control-plane.lock
