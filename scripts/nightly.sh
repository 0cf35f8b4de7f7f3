#!/usr/bin/env bash
# What scripts/test.sh leaves out, because it takes long or measures this machine: all tests without
# -short (memory, allocations, programs that are killed again and again, echo servers in other
# languages), those of sockets and time ten times on a busy machine, every fuzz target for 20 s, the
# calibration (20 comparisons of a server with itself, 20 with a slower one), agents of a fleet that are
# killed and cut off, imports against the tools whose files they read, four agents on four machines against one
# generator, the manifests and the fleet with a real Kubernetes, what is sent to a real OpenTelemetry collector, two
# releases of one commit, a bare Debian with the first, its images here and emulated, and the documents' site. Takes
# some hours.
#
#   scripts/nightly.sh [STEP...]     only these: languages tests stress fuzz calibration faults imports fleet manifests kubernetes collector package site
set -uo pipefail
cd "$(dirname "$0")/.." || exit

languages() {
	services/echo/rpc/build.sh
}
tests() {
	scripts/gotest.sh --all
}
stress() {
	scripts/stress.sh
}
fuzz() {
	scripts/fuzz.sh 20s
}
calibration() {
	go build -o bin/ ./cmd/dyno ./experiments/dyno-calibrate && bin/dyno-calibrate --strict --only aa,power --slow 5% --comparisons 20
}
faults() {
	scripts/fleet-faults.sh 50 "$RANDOM"
}
imports() {
	local folder code=0
	folder=$(mktemp -d)
	export GOBIN=$folder/bin
	go install go.k6.io/k6@v1.8.1 && go install github.com/tsenart/vegeta/v12@v12.13.0 && go install github.com/bojand/ghz/cmd/ghz@v0.93.0 &&
		python3 -m pip install -q --target "$folder/python" locust==2.47.0 &&
		npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts --silent newman@6.2.2 && scripts/jmeter.sh "$folder/bin" || code=1
	unset GOBIN
	export PYTHONPATH=$folder/python
	PATH=$folder/bin:$folder/python/bin:$folder/node_modules/.bin:$PATH go test -count=1 ./cli/imports/differential || code=1
	PATH=$folder/bin:$folder/python/bin:$folder/node_modules/.bin:$PATH bench/imports.sh || code=1
	unset PYTHONPATH
	rm -rf "$folder"
	return $code
}
manifests() {
	local folder code=0
	if [ "$(id -u)" -ne 0 ]; then
		echo "skip  manifests: a Kubernetes of one's own needs root"
		return
	fi
	folder=$(mktemp -d)
	local kubectl=("$folder/bin/kubectl" --kubeconfig "$folder/kubeconfig")
	# The server refuses what belongs to a namespace that is not there.
	scripts/kubernetes.sh up "$folder" && "${kubectl[@]}" create namespace control &&
		"${kubectl[@]}" apply --dry-run=server -f deploy/bot/kubernetes.yaml -f deploy/control/kubernetes.yaml || code=1
	scripts/kubernetes.sh down "$folder" && rm -rf "$folder" || code=1
	return $code
}
fleet() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "skip  fleet: network namespaces need root"
		return
	fi
	go build -o bin/ ./cmd/... && SECONDS_EACH=5 bench/fleet-namespaces.sh
}
kubernetes() {
	local folder code=0
	if [ "$(id -u)" -ne 0 ]; then
		echo "skip  kubernetes: a Kubernetes of one's own needs root"
		return
	fi
	folder=$(mktemp -d)
	scripts/fleet-kubernetes.sh "$folder" && scripts/load-kubernetes.sh "$folder" && scripts/rolling-kubernetes.sh "$folder" &&
		scripts/release.sh "$folder/release" && scripts/fleet-kubernetes.sh "$folder" --release "$folder/release" load uninstall && PATH=$folder/bin:$PATH go test ./deploy/fleet || code=1
	rm -rf "$folder"
	return $code
}
package() {
	local folder code=0
	folder=$(mktemp -d)
	# The second is made elsewhere and later, and for a user whose files nobody else may read.
	scripts/release.sh "$folder/a" && (umask 077 && git clone -q . "$folder/clone" && "$folder/clone/scripts/release.sh" "$folder/b") &&
		diff -r "$folder/a" "$folder/b" || code=1
	if [ "$(id -u)" -ne 0 ]; then
		echo "skip  bare, platforms: a root folder of one's own needs root"
	elif [ $code = 0 ]; then
		scripts/bare.sh "$folder/a" && scripts/platforms.sh "$folder/a" || code=1
	fi
	rm -rf "$folder"
	return $code
}

collector() {
	local folder code=0
	folder=$(mktemp -d)
	scripts/collector.sh "$folder" && PATH=$folder:$PATH go test ./cli -run Collector || code=1
	rm -rf "$folder"
	return $code
}

site() {
	scripts/site.sh
}

all=(languages tests stress fuzz calibration faults imports fleet manifests kubernetes collector package site)
steps=("$@")
[ $# -gt 0 ] || steps=("${all[@]}")
for name in "${steps[@]}"; do
	[[ " ${all[*]} " == *" $name "* ]] || {
		echo "nightly: no step $name" >&2
		exit 2
	}
done
scripts/setup.sh
failed=()
scripts/clients.sh || failed+=(clients)
for name in "${steps[@]}"; do
	start=$SECONDS
	echo "== $name"
	"$name" || failed+=("$name")
	echo "   $((SECONDS - start)) s"
done

if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all passed in $SECONDS s"
