# Read by install.sh: packages of Python, installed by uv, which unpacks several at once and takes a fraction of pip's time.
# A step that it cannot carry out is pip's, and so is every step where uv itself cannot be had.

uv_folder=$venv/uv # what one set-up keeps for uv, until its end: settings and cache

# uv_begin: install uv. The chains of one set-up find that done.
uv_begin() {
  [ -z "${SETUP_CHAIN:-}" ] || return 0
  trap 'rm -rf "$uv_folder"' EXIT
  local wanted
  wanted=$(hash_of requirements/uv.lock)
  if ! [ -x "$venv/bin/uv" ] || [ "$(cat "$stamps/uv" 2>/dev/null)" != "$wanted" ]; then
    if ! run "$venv/bin/python" -m pip install --quiet --retries 1 --require-hashes -r requirements/uv.lock; then
      say "set-up: uv cannot be had here, so pip installs"
      rm -f "$log.$$.end"
      return 0
    fi
    printf '%s\n' "$wanted" >"$stamps/uv"
  fi
}

# uv_settings: into the environment, what pip is set to by uv's names. Status 1 where uv is not there or has no such name.
uv_settings() {
  local settings=$uv_folder/settings draft=$uv_folder/draft.$BASHPID
  [ -x "$venv/bin/uv" ] || return 1
  if ! [ -e "$settings" ]; then # which may name an index with its password
    (umask 077 && mkdir -p "$uv_folder" && "$venv/bin/python" requirements/uv_settings.py >"$draft") || return 1
    mv "$draft" "$settings"
  fi
  . "$settings"
  # On this disk: what an environment holds are links to it, and the only ones once this is removed.
  export UV_CACHE_DIR=${UV_CACHE_DIR:-$PWD/$uv_folder/cache}
}

# install_with PYTHON OPTION...: into the environment of PYTHON, with options that uv and pip share.
install_with() {
  local python=$1 pip=("$venv/bin/python" -m pip)
  shift
  if uv_settings; then
    # A lock names each version. uv refuses a site's own constraints beside it, which name no hashes; pip does not.
    case " $* " in *" --require-hashes "*) unset UV_CONSTRAINT ;; esac
    "$venv/bin/uv" pip install --quiet --python "$python" "$@" && return
    echo "uv could not: pip goes on"
  fi
  [ "$python" = "$venv/bin/python" ] || pip+=(--python "$python")
  "${pip[@]}" install --quiet "$@"
}

# package_step NAME WHAT LOCK OPTION...: install what a requirements file needs, by the hashes of its lock (hashes.sh).
package_step() {
  local name=$1 what=$2 lock=requirements/$3.lock
  shift 3
  step "$name" "$what" "$(hash_of "$lock")" \
    install_with "$venv/bin/python" --require-hashes --no-deps -r "$lock" "$@"
}

# torch_with PYTHON: torch. Where the index has PyTorch's build for CPUs beside the one for CUDA, the latter would bring 5 GB
# that nothing here uses. A build for CPUs of another's making has other hashes and is not installed.
torch_with() {
  install_with "$1" --require-hashes --no-deps -r requirements/torch-cpu.lock && return
  echo "the index has no build of torch for CPUs with a hash of requirements/torch-cpu.lock: its build for CUDA goes on"
  install_with "$1" --require-hashes --no-deps -r requirements/torch.lock
}

# own_venv NAME WHAT: what tests use, which skip without it, in .venv-NAME; so no failure here stops anything.
own_venv() {
  local name=$1 what=$2 wanted
  [ -x ".venv-$name/bin/python" ] || rm -f "$stamps/$name"
  wanted=$(hash_of "$stamps/venv" "requirements/$name.txt" "requirements/$name.lock")
  [ "$(cat "$stamps/$name" 2>/dev/null)" != "$wanted" ] || return 0
  say "set-up: $what"
  if run make_own_venv "$name"; then
    printf '%s\n' "$wanted" >"$stamps/$name"
  else
    say "that could not be installed; its tests will be skipped"
  fi
}
make_own_venv() {
  environment ".venv-$1" &&
    install_with ".venv-$1/bin/python" --require-hashes --no-deps -r "requirements/$1.lock"
}
