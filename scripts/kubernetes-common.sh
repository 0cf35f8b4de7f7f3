# shellcheck shell=bash
# What scripts share that try manifests with a Kubernetes of their own. They source it with the folder of the cluster
# as their first argument: the rest of the arguments stays. "start" brings the cluster up, and takes it down at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(realpath -m "${1:?a folder for the cluster}")
shift
export KUBECONFIG=$folder/kubeconfig PATH=$folder/bin:$PATH CGO_ENABLED=0 GOFLAGS=-trimpath
namespace=default

k() { kubectl -n "$namespace" "$@"; }
say() { printf '%s\n' "$*"; }
die() {
	say "$(basename "$0"): $*" >&2
	exit 1
}
# within SECONDS COMMAND...: waits until it succeeds.
within() {
	local end=$((SECONDS + $1))
	until "${@:2}"; do
		[ $SECONDS -lt $end ] || die "after $1 s there is still no: ${*:2}"
		sleep 0.5
	done
}

# start PROGRAM...: the cluster, without what was in it, and images of some of dyno's programs. Says what is tried where.
start() {
	local program
	say "made by: scripts/$(basename "$0"); nproc $(nproc), kernel $(uname -r)"
	trap 'scripts/kubernetes.sh down "$folder"' EXIT
	rm -rf "$folder"/{etcd,volumes,answers,keys.d,runs}
	scripts/kubernetes.sh up "$folder" >&2
	go build -o "$folder/bin/image-of" ./scripts/image
	for program; do
		go build -buildvcs=false -ldflags='-s -w' -o "$folder/bin/" "./cmd/$program"
		image "$program:dev" "$folder/bin/$program"
	done
}

# image TAG PROGRAM [OPTION...]: makes an image with the libraries that the program needs, unless there is one of the same
# files, and loads it.
image() {
	local word options=(-arch "$(go env GOARCH)" -tag "$1" -program "${@:2}") archive
	for word in $(ldd "$2" 2>/dev/null | grep -o '/[^ ]*'); do
		options+=(-file "$word")
	done
	archive=$folder/images/$(for word in "${options[@]}"; do
		echo "$word"
		[ ! -f "$word" ] || cat "$word"
	done | sha256sum | cut -c 1-32).tar
	mkdir -p "$folder/images"
	[ -e "$archive" ] || {
		image-of "${options[@]}" -most 100 -o "$archive.new" >&2
		mv "$archive.new" "$archive"
	}
	scripts/kubernetes.sh image "$folder" "$archive" >/dev/null
}

# use NAMESPACE [VOLUME...]: makes a namespace, which k is about from then on, and volumes for claims.
use() {
	local volume
	namespace=$1
	kubectl create namespace "$namespace" >/dev/null
	for volume in "${@:2}"; do
		scripts/kubernetes.sh volume "$folder" "$namespace-$volume" >/dev/null
	done
}

# container POD: the ID of its container, for tasks.
container() {
	local id
	id=$(k get pod "$1" -o jsonpath='{.status.containerStatuses[0].containerID}')
	echo "${id##*/}"
}
# tasks COMMAND...: of the containers that run.
tasks() { ctr -a "$folder/containerd.sock" -n k8s.io tasks "$@"; }
# exit_code SELECTOR: that of the pod's container, once it has ended.
exit_code() {
	k get pod -l "$1" -o jsonpath='{.items[0].status.containerStatuses[0].state.terminated.exitCode}' 2>/dev/null | grep .
}
