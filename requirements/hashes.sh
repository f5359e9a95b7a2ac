#!/usr/bin/env bash
# Writes anew what set-up and the images install: each package in the version of its lock and with the hashes of its
# files, by which pip and uv refuse any other file. To be run after a change of requirements or versions; make hashes
#
#   build.lock, engine.lock...  set-up, for each file of requirements that it installs, in versions of constraints.txt
#   torch-cpu.lock         set-up, where the index has PyTorch's build of torch for CPUs
#   torch.lock             set-up, where it has none: torch with its CUDA
#   clients.lock, tinker.lock... environments of their own, in the versions that these locks had
#   trl.lock               .venv-trl, which sees what .venv has
#   control-plane.lock     docker/control-plane.Dockerfile: server.txt, launchers.txt
#   runtime-cpu.lock       docker/runtime.Dockerfile, ENGINE=cpu, but for torch and what torch alone needs of CUDA
#   runtime-torch.lock     the same image: torch as the index has it, with its CUDA; torch-cpu.lock from PyTorch's own
#   runtime-cuda.lock      docker/runtime.Dockerfile, ENGINE=cuda
#   runtime-source.lock    both runtimes: what has no wheel and is built there
#
# From the index of uv (UV_DEFAULT_INDEX names another): one that builds packages itself has other hashes. torch-cpu.lock is
# from TORCH_INDEX, the address of PyTorch's index of builds for CPUs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/uv"
"$work/uv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r uv.lock

# What set-up is for: without this, versions for other Pythons have to be found too, which some packages do not have.
cat >"$work/pyproject.toml" <<'END'
[project]
name = "locks"
version = "0"
requires-python = ">=3.11.5"
[tool.uv]
environments = ["platform_python_implementation == 'CPython' and sys_platform == 'linux'"]
END

SOURCE=deepspeed
TORCH='^(torch==|nvidia-|cuda-)'
echo httpx >"$work/httpx.txt" # the client of the control plane

# locked OPTION... FILE...: what these files need, with hashes.
locked() {
  "$work/uv/bin/uv" pip compile --quiet --generate-hashes --no-header --no-annotate --only-binary :all: --no-binary "$SOURCE" \
    --python-version 3.11.9 --python-platform x86_64-manylinux_2_36 "$@"
}
# for_setup OPTION... FILE...: the same for every Python and processor that set-up runs on.
for_setup() {
  (cd "$work" && "$work/uv/bin/uv" pip compile --quiet --generate-hashes --no-header --no-annotate --universal \
    --python-version 3.11.5 "$@")
}
# only PATTERN, without PATTERN: of packages, each a line with its hashes below.
only() { awk -v pattern="$1" '/^[^ ]/ { kept = $0 ~ pattern } kept'; }
without() { awk -v pattern="$1" '/^[^ ]/ { kept = $0 !~ pattern } kept'; }
# written NAME WHAT: from the standard input, which is a file: what was found only in part is not written at all.
written() {
  { echo "# What $2, with pip install --require-hashes. Made by requirements/hashes.sh." && cat; } >"$work/$1"
  mv "$work/$1" "$1"
}

runtime="docker/runtime.Dockerfile installs"
locked -c constraints.txt server.txt launchers.txt >"$work/server"
locked -c constraints.txt build.txt torch.txt engine.txt trainer.txt "$work/httpx.txt" >"$work/cpu"
locked --no-deps -c constraints.txt vllm.txt >>"$work/cpu" # see engine.txt
locked -c vllm-cuda.lock torch.txt >"$work/torch"
locked -c vllm-cuda.lock build.txt torch.txt vllm-cuda.txt trainer.txt "$work/httpx.txt" >"$work/cuda"

written control-plane.lock "docker/control-plane.Dockerfile installs" <"$work/server"
without "$TORCH|^$SOURCE==" <"$work/cpu" | written runtime-cpu.lock "$runtime for CPUs beside torch"
only "$TORCH" <"$work/torch" | written runtime-torch.lock "$runtime for CPUs where no build of torch for CPUs is named"
without "^$SOURCE==" <"$work/cuda" | written runtime-cuda.lock "$runtime for NVIDIA GPUs"
only "^$SOURCE==" <"$work/cuda" | written runtime-source.lock "$runtime from source"

here=$PWD found=$work/found
for name in build engine server gateway dev launchers docs node trainer uv; do
  for_setup -c "$here/constraints.txt" -c "$here/build.txt" "$here/$name.txt" >"$found"
  without "$TORCH|^triton==" <"$found" | written "$name.lock" "set-up installs for $name.txt"
done
for name in vllm templates trl; do # see engine.txt, templates.txt and trl.txt: without what these say that they need
  for_setup --no-deps -c "$here/constraints.txt" "$here/$name.txt" >"$found"
  written "$name.lock" "set-up installs for $name.txt" <"$found"
done
for_setup -c "$here/constraints.txt" -c "$here/vllm-cuda.lock" "$here/torch.txt" >"$found"
written torch.lock "set-up installs for torch.txt where the index has no build of it for CPUs" <"$found"
# PyTorch's builds for CPUs are on an index of its own. Where that is not named, a lock of the same version stays.
torch="torch==$(sed -n 's/^torch==//p' torch.txt)+cpu"
if [ -n "${TORCH_INDEX:-}" ]; then
  echo "$torch" >"$work/torch-cpu.txt"
  for_setup --no-deps --default-index "$TORCH_INDEX" "$work/torch-cpu.txt" >"$found"
  written torch-cpu.lock "set-up installs for torch.txt where the index has its build for CPUs" <"$found"
elif grep -q "^$torch " torch-cpu.lock; then
  echo "torch-cpu.lock stays as it is: TORCH_INDEX is not set" >&2
else
  echo "torch-cpu.lock is of another version than torch.txt: set TORCH_INDEX to PyTorch's index of builds for CPUs" >&2
  exit 1
fi
# versions_of LOCK: as they are there, which is asked for anew with the hashes.
versions_of() { grep -o '^[A-Za-z0-9._-]*\(\[[a-z,-]*\]\)\?==[^ ;]*' "$1"; }
for name in clients swift tinker evaluators litellm; do
  versions_of "$name.lock" >"$work/$name.versions"
  for_setup -c "$work/$name.versions" "$here/$name.txt" >"$found"
  written "$name.lock" "set-up installs into .venv-$name" <"$found"
done
# All that it names and no more: see cookbook.txt. Its torch is that of torch.txt.
versions_of cookbook.lock >"$work/cookbook.txt"
for_setup --no-deps "$work/cookbook.txt" >"$found"
without "$TORCH" <"$found" | written cookbook.lock "set-up installs into .venv-cookbook beside torch"
