#!/bin/sh
# Builds images: docker/build.sh IMAGE... [-- OPTION...]   (images: server, cpu, cuda; options are docker build's own)
#   docker/build.sh server cpu
#   docker/build.sh server cuda -- --build-arg PYTHON_IMAGE=registry.example.com/python:3.11
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' sdk/tinkerscript/wire/version.py)
images=
while [ $# -gt 0 ] && [ "$1" != -- ]; do images="$images $1" && shift; done
[ $# = 0 ] || shift
for image in ${images:?IMAGE is one of server, cpu, cuda}; do
  case $image in
    server) docker build "$@" -f docker/control-plane.Dockerfile -t "tinkerscript-server:$version" . ;;
    cpu | cuda) docker build "$@" -f docker/runtime.Dockerfile --build-arg "ENGINE=$image" -t "tinkerscript-runtime:$version-$image" . ;;
    *) echo "$image: IMAGE is one of server, cpu, cuda" >&2 && exit 2 ;;
  esac
done
