#!/usr/bin/env bash
# Writes what set-up, images and tests install: what the groups of pyproject.toml need, by the hashes of its files.
# A locked version stays while its group allows it: requirements/lock.sh [--upgrade | --upgrade-package NAME]   (make lock)
#
# All that a machine without a GPU installs is resolved once, so that it goes together; server.txt, cpu.txt and tests.txt are
# parts of that. cuda.txt has the same versions but for what vLLM's build for CUDA asks for. It needs uv on the path or in
# .venv, and reads uv's index (UV_DEFAULT_INDEX names another). PyTorch's builds of torch for CPUs are on an index of their
# own: TORCH_INDEX is its address, and without it the hashes of the same version stay.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv/bin:$PATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# For every Python and processor that set-up runs on; vLLM for CUDA is for one.
everywhere=(--universal --python-version 3.11.5)
for_cuda=(--python-platform x86_64-manylinux_2_36 --python-version 3.11.9)
# compile GROUP... -- OPTION...
compile() {
  local groups=()
  while [ "$1" != -- ]; do groups+=(--group "pyproject.toml:$1") && shift; done
  shift
  uv pip compile --quiet --no-annotate --no-header "${groups[@]}" "$@"
}
# hashed GROUP OPTION...: its packages, each with the hashes of its files below.
hashed() { compile "$1" -- "${everywhere[@]}" --overrides "$work/overrides" --generate-hashes -c "$work/all.txt" "${@:2}"; }
without() { awk -v pattern="$1" '/^[^ ]/ { kept = $0 !~ pattern } kept'; }
versions() { cat "$@" 2>/dev/null | grep -o '^[A-Za-z0-9._-]*==[^ ;]*' | sort -u || true; }
# written FOLDER NAME: of what is read. All are moved at the end: where one cannot be made, none is.
written() {
  mkdir -p "$work/new/$1"
  { echo "# The group $2 of pyproject.toml, by hash. Made by requirements/lock.sh." && cat; } >"$work/new/$1/$2.txt"
}

# vLLM for CPUs names builds that are nowhere, which serving text never imports; and triton is torch's for CUDA.
printf '%s\n' torchaudio torchvision torchcodec triton fastapi-cli >"$work/unused"
without_unused=(--excludes "$work/unused")
versions requirements/{tools,server,cpu,tests}.txt >"$work/all.txt"
# autogen-core asks for a protobuf that is two years old, and vLLM for CPUs for a build of torch. They stand here and not in
# pyproject.toml, by which uv would change what set-up asks for, too.
printf '%s\n' 'protobuf>=6.33.5' "$(grep -o 'torch==[0-9.]*' pyproject.toml)" >"$work/overrides"
compile tools server cpu tests -- "${everywhere[@]}" --overrides "$work/overrides" "${without_unused[@]}" -o "$work/all.txt" "$@" >/dev/null

for group in tools node server tests ray; do hashed "$group" | written requirements "$group"; done

# vLLM for CUDA names its own version of apache-tvm-ffi, and with torch the libraries of CUDA.
without '^(apache-tvm-ffi==|nvidia-|cuda-)' <"$work/all.txt" >"$work/shared.txt"
versions requirements/cuda.txt >"$work/cuda.txt"
compile cuda -- "${for_cuda[@]}" --generate-hashes -c "$work/shared.txt" -o "$work/cuda.txt" "$@" >/dev/null
written requirements cuda <"$work/cuda.txt"

torch=$(sed -n 's/^\(torch==[^ ;]*\).*/\1+cpu/p' "$work/cuda.txt")
if [ -n "${TORCH_INDEX:-}" ]; then
  echo "$torch" >"$work/torch.in"
  uv pip compile --quiet --no-annotate --no-header "${everywhere[@]}" --no-deps --generate-hashes \
    --default-index "$TORCH_INDEX" "$work/torch.in" >"$work/torch"
else
  awk -v torch="$torch" '/^[^ ]/ { kept = $1 == torch } kept' requirements/cpu.txt >"$work/torch"
fi
if ! [ -s "$work/torch" ]; then
  echo "requirements/cpu.txt has no hash of $torch: set TORCH_INDEX to PyTorch's index of builds for CPUs" >&2
  exit 1
fi
{ hashed cpu "${without_unused[@]}" | without '^(torch==|nvidia-|cuda-)' && cat "$work/torch"; } | written requirements cpu

for group in swift evaluators litellm; do
  versions "tests/environments/$group.txt" >"$work/$group.txt"
  compile "$group" -- "${everywhere[@]}" --generate-hashes -o "$work/$group.txt" "$@" >/dev/null
  written tests/environments "$group" <"$work/$group.txt"
done
# What these add to .venv.
for group in trl cookbook ray-dashboard; do
  there=$(versions "$work/all.txt" | sed 's/==.*//; s/[.]/[.]/g' | grep -v '^trl$' | paste -sd '|')
  hashed "$group" "${without_unused[@]}" | without "^($there)(\\\\[.*\\\\])?==" | written tests/environments "$group"
done
mkdir -p tests/environments
for folder in requirements tests/environments; do mv "$work/new/$folder"/*.txt "$folder/"; done
