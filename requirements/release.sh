#!/usr/bin/env bash
# Writes dist/release/: what a server is installed from without npm, and what is checked before. make release
#
#   tinkerscript-VERSION.tar.gz            the committed tree, with the console's pages built (frontend/dist)
#   tinkerscript-VERSION-py3-none-any.whl  the client
#   sbom.json                              what both are made of
#   SHA256SUMS                             of these files: sha256sum -c
#
# It refuses a tree with uncommitted changes, and one whose base images have no digest: those would be others tomorrow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. requirements/pages_hash.sh

python=$PWD/.venv/bin/python out=dist/release
export PYTHONDONTWRITEBYTECODE=1 # compiled modules hold the path of the folder that they were made in
refuse() { echo "no release: $*" >&2 && exit 1; }

[ -z "$(git status --porcelain --untracked-files=no)" ] || refuse "there are changes that are not committed"
docker/pin.sh --check || refuse "run docker/pin.sh, build and try what it wrote, and commit it"
[ -e frontend/dist/index.html ] || refuse "the pages are not built: make frontend"

version=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' sdk/tinkerscript/wire/version.py)
name=tinkerscript-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive --prefix="$name/" HEAD | tar -x -C "$work"
built=$(pages_hash .)
[ "$(pages_hash "$work/$name")" = "$built" ] || refuse "frontend/ holds files that are not committed"
cp -r frontend/dist "$work/$name/frontend/"
printf '%s\n' "$built" >"$work/$name/frontend/dist/made-from" # which requirements/install.sh compares

rm -rf "$out" && mkdir -p "$out"
(cd "$work/$name" && "$python" -m hatchling build -t wheel -d "$work/wheel") >/dev/null
cp "$work/wheel/$name-py3-none-any.whl" "$out/"
"$python" "$work/$name/requirements/sbom.py" >"$out/sbom.json"
# The same tree gives the same bytes: times and owners are not of this machine.
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -c "$name" |
  gzip -n >"$out/$name.tar.gz"
(cd "$out" && sha256sum -- *.json *.tar.gz *.whl >SHA256SUMS)
echo "$out:" && ls "$out"
