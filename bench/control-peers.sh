#!/usr/bin/env bash
# The control plane in comparison with systems that keep configurations, too: the same writes at a
# rate (open loop), each of one of SUBSCRIBERS configurations, and a watcher for each of these. In
# turns, each from an empty folder, all processes on the same CPUs:
#
#   control     dyno-control: PUT /v1/configs over HTTP/1.1, watched by server-sent events. JSON is read
#               and checked; a write is made with a history and an entry in the audit
#   etcd        etcd alone: KV/Put over gRPC, watched by Watch/Watch. A write is a key and its value
#   etcd-proxy  the same through "etcd grpc-proxy", a process of its own, which joins watches
#   rnacos      r-nacos: POST /nacos/v1/cs/configs, watched by long polls, each followed by a GET, as
#               its protocol of version 1 has it
#
# The client is one program in Go, with a connection for each writer and each watcher, as programs of
# their own have. Reported are medians of rounds: from when a write was due until it was acknowledged,
# and until its watcher had the content; which share of writes reached watchers (a newer one may
# replace an older one in control and rnacos); and the CPU time of all server processes for a write.
#
# What an acknowledged write has survived is not the same. control and etcd wait for fsync of the
# write-ahead log, of one member; a power cut loses nothing. rnacos 0.8.8 hands its Raft log to the
# kernel and asks for no fsync: a power cut may lose what it acknowledged.
#
#   bench/control-peers.sh | tee bench/control-peers.txt
#
# etcd and its proxy are built from the module that the control plane embeds, in a folder of their own.
# rnacos is left out where $RNACOS is not given and it is not installed:
#   cargo install rnacos --version 0.8.8 --locked --root FOLDER
#
# Settings, by environment:
#   ROUNDS=5 SECONDS_EACH=4 RATE=2000 SUBSCRIBERS=100 WRITERS=64 SIZE=256 CPUS=0,1 PORT=18600
#   SYSTEMS="control etcd etcd-proxy rnacos" FOLDER=… (on the disk that counts)
#   CONTROL=…/bin/dyno-control LOAD=… ETCD=… RNACOS=…
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4} rate=${RATE:-2000} subscribers=${SUBSCRIBERS:-100} writers=${WRITERS:-64} size=${SIZE:-256}
cpus=${CPUS:-0,1} port=${PORT:-18600} control=${CONTROL:-$PWD/bin/dyno-control} rnacos=${RNACOS:-$(command -v rnacos || true)}
read -ra systems <<<"${SYSTEMS:-control etcd etcd-proxy rnacos}"

. bench/required.sh
required jq taskset curl "$control"
dir=$(mktemp -d ${FOLDER:+-p "$FOLDER"})
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
load=${LOAD:-$dir/load}
[ -n "${LOAD-}" ] || go build -o "$load" ./bench/control

etcd=${ETCD:-$dir/etcd}
version=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
if [ -z "${ETCD-}" ]; then
	mkdir "$dir/build"
	cat >"$dir/build/main.go" <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
	(cd "$dir/build" && go mod init peer && go get "go.etcd.io/etcd/server/v3@$version" && go mod tidy && go build -o "$etcd" .) 2>>"$dir/log" || {
		tail -5 "$dir/log" >&2
		exit 1
	}
fi

address=127.0.0.1:$port
# start COMMAND…: on the CPUs, in the background.
start() {
	taskset -c "$cpus" "$@" >>"$dir/log" 2>&1 &
	running+=($!)
}
# ready COMMAND…: waits until it succeeds.
ready() {
	local i
	for ((i = 0; i < 200; i++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.05
	done
	tail -5 "$dir/log" >&2
	return 1
}
accepts() { (: >"/dev/tcp/127.0.0.1/$1"); }
stop() {
	kill "${running[@]}" 2>/dev/null || true
	wait "${running[@]}" 2>/dev/null || true
	running=()
}
start_etcd() {
	start "$etcd" --data-dir "$dir/data/etcd" --log-level error --listen-client-urls "http://$address" --advertise-client-urls "http://$address" \
		--listen-peer-urls "http://127.0.0.1:$((port + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" --initial-cluster "default=http://127.0.0.1:$((port + 1))"
	ready curl -fs "http://$address/health"
}
wrote() { [ "$(curl -fs "http://$address/nacos/v1/cs/configs" -d dataId=ready -d group=DEFAULT_GROUP -d content=yes)" = true ]; }

# serve SYSTEM: starts it from an empty folder, and sets url and system for the client.
serve() {
	rm -rf "$dir/data"
	mkdir "$dir/data"
	url=http://$address system=$1
	case $1 in
	control)
		start "$control" --listen "$address" --admin "127.0.0.1:$((port + 1))" --data "$dir/data"
		ready curl -fs "http://127.0.0.1:$((port + 1))/readyz"
		;;
	etcd)
		start_etcd
		url=$address
		;;
	etcd-proxy)
		start_etcd
		start "$etcd" grpc-proxy start --endpoints "$address" --listen-addr "127.0.0.1:$((port + 2))" --advertise-client-url "127.0.0.1:$((port + 2))" --data-dir "$dir/data/proxy"
		ready accepts $((port + 2))
		url=127.0.0.1:$((port + 2)) system=etcd
		;;
	rnacos)
		start env RNACOS_HTTP_PORT="$port" RNACOS_GRPC_PORT=$((port + 1)) RNACOS_HTTP_CONSOLE_PORT=$((port + 2)) RNACOS_SDK_HOST=127.0.0.1 RNACOS_CONSOLE_HOST=127.0.0.1 \
			RNACOS_RAFT_NODE_ADDR="127.0.0.1:$((port + 1))" RNACOS_DATA_DIR="$dir/data/nacos" RUST_LOG=error "$rnacos"
		ready wrote
		system=nacos
		;;
	*) echo "control-peers: no system $1" >&2 && exit 2 ;;
	esac
}

echo "made by: ROUNDS=$rounds SECONDS_EACH=$seconds RATE=$rate SUBSCRIBERS=$subscribers WRITERS=$writers SIZE=$size CPUS=$cpus SYSTEMS='${systems[*]}' bench/control-peers.sh"
echo "etcd and its proxy $version$([ -z "$rnacos" ] || echo ", rnacos $("$rnacos" --version | awk '{print $NF}')"); data on $(df --output=fstype "$dir" | tail -1)"
if [ -z "$rnacos" ]; then
	echo "rnacos is left out: it is not installed"
	systems=("${systems[@]/rnacos/}")
fi
for ((round = 1; round <= rounds; round++)); do
	for name in "${systems[@]}"; do
		[ -n "$name" ] || continue
		serve "$name"
		taskset -c "$cpus" "$load" peers --system "$system" --url "$url" --pids "$(IFS=,; echo "${running[*]}")" \
			--subscribers "$subscribers" --rate "$rate" --writers "$writers" --size "$size" --for "${seconds}s" | tee -a "$dir/$name.json" >/dev/null
		stop
	done
done
echo
printf '%-11s %9s %12s %12s %12s %12s %6s %9s %8s\n' system writes/s "write p50 ms" "write p99 ms" "push p50 ms" "push p99 ms" told "CPU µs/w" lost
for name in "${systems[@]}"; do
	[ -n "$name" ] || continue
	jq -sr --arg name "$name" '
		def mid(f): map(f) | sort | .[length / 2 | floor];
		def ms(f): mid(f) * 1e5 | round / 100;
		[$name, (mid(.writes_per_second) | round), ms(.write_p50_seconds), ms(.write_p99_seconds), ms(.push_p50_seconds), ms(.push_p99_seconds), (mid(.told_share) * 100 | round / 100), (mid(.cpu_us_per_write) | round), (map(.missing + .failed + .dropped) | add)] | @tsv' "$dir/$name.json" |
		while IFS=$'\t' read -r -a row; do printf '%-11s %9s %12s %12s %12s %12s %6s %9s %8s\n' "${row[@]}"; done
done
echo
for name in "${systems[@]}"; do
	[ -n "$name" ] || continue
	jq -sr --arg name "$name" 'def range3(f): map(f) | sort | "\(.[length / 2 | floor]) (\(.[0]) … \(.[-1]))";
		"result: peers.\($name).push_p99_ms \(range3(.push_p99_seconds * 1e5 | round / 100))", "result: peers.\($name).write_p99_ms \(range3(.write_p99_seconds * 1e5 | round / 100))",
		"result: peers.\($name).cpu_us_per_write \(range3(.cpu_us_per_write * 10 | round / 10))"' "$dir/$name.json"
done
