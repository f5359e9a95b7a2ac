#!/usr/bin/env bash
# A real Kubernetes for the tests of its launcher: requirements/kubernetes.sh FOLDER, then
#   TESTS_KUBERNETES_BIN=FOLDER .venv/bin/python -m pytest tests/console/launchers -k "kubernetes or cluster"
# Debian 12 alone still has the whole source of one (1.20.2): as root, on Debian 12, 10 minutes of two cores and 4 GB of disk
# meanwhile, 380 MB in FOLDER. The node among the tests also wants containerd, runc and busybox-static, from apt as well.
set -euo pipefail

folder=${1:?usage: requirements/kubernetes.sh FOLDER}
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
. /etc/os-release
if [ "${VERSION_CODENAME:-}" != bookworm ] || [ "$(id -u)" != 0 ]; then
  echo "This needs root on Debian 12 (bookworm); here is ${PRETTY_NAME:-something else}. A container of it will do." >&2
  exit 1
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"

# The machine's own sources, read as sources of source packages, for this run alone.
mkdir sources lists
sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >sources/debian.sources 2>/dev/null || true
sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >sources/debian.list 2>/dev/null || true
source_apt=(apt-get -qq -o "Dir::Etc::sourceparts=$work/sources" -o Dir::Etc::sourcelist=none -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)

export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends golang-go make jq rsync dpkg-dev >/dev/null
# Unpacked, not installed: its package would make a service of it.
apt-get -qq -o APT::Sandbox::User=root download etcd-server
dpkg-deb -x etcd-server_*.deb etcd
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
install -m 755 "$work/etcd/usr/bin/etcd" "$folder/"
"$folder/kube-apiserver" --version
