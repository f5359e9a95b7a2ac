#!/bin/sh
# Writes beside each image that the files here begin with which one it is: docker/pin.sh, with Docker's buildx and the registries.
#   docker/pin.sh            the digest that each name has today: python:3.11-slim-bookworm@sha256:...
#   docker/pin.sh --check    names those without one; status 1 if there are any
# A name alone is another image after each of its updates. Run it before a release, and again for their updates; build
# and try what it wrote before it is committed. For an image that is kept elsewhere --build-arg PYTHON_IMAGE=... stays.
set -eu
cd "$(dirname "$0")"

files="control-plane.Dockerfile runtime.Dockerfile compose.yaml"
# ARG NAME_IMAGE=image of a Dockerfile; image: image of Compose, but for those that are built here.
images=$(sed -n 's/^ARG [A-Z]*_IMAGE=//p; s/^ *image: //p' $files | grep -v '^tinkerscript-' | sort -u)

if [ "${1:-}" = --check ]; then
  missing=$(echo "$images" | grep -v '@sha256:[0-9a-f]\{64\}$' || true)
  [ -z "$missing" ] || { echo "without a digest, which docker/pin.sh writes:" $missing >&2 && exit 1; }
  exit 0
fi
[ $# = 0 ] || { echo "usage: docker/pin.sh [--check]" >&2 && exit 2; }

for image in $images; do
  name=${image%@*}
  digest=$(docker buildx imagetools inspect "$name" --format '{{.Manifest.Digest}}')
  echo "$digest" | grep -qx 'sha256:[0-9a-f]\{64\}' || { echo "$name: no digest but '$digest'" >&2 && exit 1; }
  for file in $files; do
    sed "s#\(_IMAGE=\|image: \)$image\$#\1$name@$digest#" "$file" >"$file.new"
    cat "$file.new" >"$file" && rm "$file.new" # which keeps its mode
  done
  echo "$name $digest"
done
