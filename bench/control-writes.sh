#!/usr/bin/env bash
# How many durable writes a second the control plane takes, with its etcd in the process and fsync
# on, and what plain etcd takes over gRPC; all processes, the generator included, share two CPUs.
# In turns, each from an empty folder:
#
#   control  POST /v1/policies over HTTP/1.1: JSON is read and checked, the policy is made on
#            condition that there is none, with an entry in the audit, and told to watchers
#   etcd     KV/Put over gRPC, of the same documents under keys of the same length, by a small
#            client in Go: 64 connections, as etcd's own benchmark would have it
#   etcd-16  the same by dyno, with 16 calls at once on each of its connections: a cheaper generator
#            than programs have, which leaves etcd more of the CPUs
#
# The control plane's generator is dyno. All are closed loops with as many requests at once. After
# that: the times of writes at a rate (open loop), what reads take, and what CPU time all processes
# took for a write.
#
#   bench/control-writes.sh | tee bench/control-writes.txt
#
# Settings, by environment:
#   ROUNDS=5 SECONDS_EACH=5 AT_ONCE=128 RATE=20000 CPUS=0,1 PORT=18300 PARTS="writes rate reads"
#   FOLDER=…  where the data is; it must be on the disk that counts
#   DYNO=…/bin/dyno CONTROL=…/bin/dyno-control CONTROL_FLAGS="" ETCD=… (a program that
#   takes an address and a folder; experiments/bench/etcd is built if not given)
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-5} at_once=${AT_ONCE:-128} rate=${RATE:-20000}
cpus=${CPUS:-0,1} port=${PORT:-18300} parts=${PARTS:-writes rate reads}
dyno=${DYNO:-$PWD/bin/dyno} control=${CONTROL:-$PWD/bin/dyno-control} etcd=${ETCD:-}
read -ra flags <<<"${CONTROL_FLAGS:-}"

. bench/required.sh
required jq taskset awk "$dyno" "$control"

dir=$(mktemp -d ${FOLDER:+-p "$FOLDER"})
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
pair=${PAIR:-$dir/pair}
[ -n "${PAIR-}" ] || go build -o "$pair" ./experiments/bench/pair
if [ -z "$etcd" ]; then
	etcd=$dir/etcd
	go build -o "$etcd" ./experiments/bench/etcd
fi

address=127.0.0.1:$port url=http://127.0.0.1:$port
rules='"rules":[{"match":{"services":["checkout","basket"],"methods":["POST"],"path_prefix":"/v1/orders"},"action":"limit","limit":{"requests_per_second":500,"burst":50}},{"action":"allow"}]'
cat >"$dir/create.yaml" <<YAML
steps:
  - name: create
    method: POST
    path: /v1/policies
    headers: {Content-Type: application/json}
    body: '{"name":"p{{ counter() }}",$rules}'
    status: 201
YAML
# What etcd is given: the document as the control plane keeps it, base64 in JSON.
value=$(printf '{"namespace":"default","name":"p100000",%s,"version":1,"changed_at":"2026-01-01T00:00:00.123456789Z","changed_by":"anonymous"}' "$rules" | base64 -w0)
printf %s "$value" | base64 -d >"$dir/value"
printf 'value\n%s\n' "$value" >"$dir/put.csv"
put='{"key": "{{ base64("dyno/s/policy/default/p", counter()) }}", "value": "{{ value }}"}'

# fresh COMMAND…: a server from an empty folder. The folder is removed before, not after, so
# that this does not fall into what comes next.
cat >"$dir/fresh" <<SH
#!/usr/bin/env bash
rm -rf "$dir/data" && mkdir "$dir/data"
exec "\$@"
SH
# dyno's exit code 4 says that the generator was near its limit, as it must be on shared CPUs; 3, that
# requests were dropped, which the figures say, too.
cat >"$dir/load" <<SH
#!/usr/bin/env bash
"$dyno" "\$@"
case \$? in 0 | 3 | 4) ;; *) exit 1 ;; esac
SH
chmod +x "$dir/fresh" "$dir/load"
serve_control=("$dir/fresh" "$control" --listen "$address" --data "$dir/data" "${flags[@]}")
serve_etcd=("$dir/fresh" "$etcd" "$address" "$dir/data/etcd")

# server COMMAND…: starts one in the background and waits for it.
server() {
	taskset -c "$cpus" "$@" 2>>"$dir/log" &
	running=($!)
	for ((i = 0; i < 200; i++)); do
		(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
		sleep 0.05
	done
	cat "$dir/log" >&2
	return 1
}
stop() {
	kill "${running[@]}"
	wait "${running[@]}" 2>/dev/null || true
	running=()
}
# ticks PID: its CPU time so far, in hundredths of a second.
ticks() { awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$1/stat"; }

echo "made by: ROUNDS=$rounds SECONDS_EACH=$seconds AT_ONCE=$at_once RATE=$rate CPUS=$cpus CONTROL_FLAGS='${CONTROL_FLAGS:-}' PARTS='$parts' bench/control-writes.sh"
echo "$("$etcd" --version | head -1); data on $(df --output=fstype "$dir" | tail -1); a document of $(printf %s "$value" | base64 -d | wc -c) bytes"

if [[ " $parts " = *" writes "* ]]; then
	echo
	jq -n --argjson rounds "$rounds" --arg cpus "$cpus" --arg at "$at_once" --arg load "$dir/load" --arg url "$url" --arg ready "$address" \
		--arg dir "$dir" --arg seconds "$seconds" --arg put "$put" --argjson control "$(printf '%s\n' "${serve_control[@]}" | jq -R . | jq -s .)" \
		--argjson etcd "$(printf '%s\n' "${serve_etcd[@]}" | jq -R . | jq -s .)" '
		def load: ["-q", "-z", "\($seconds)s", "--warmup", "1s", "--json", "-"];
		{
			title: "Durable writes, \($at) at once, closed loop, servers and generator on CPUs \($cpus): writes per second of the window",
			key: "writes", unit: "writes", $rounds, base: "etcd", rates: true,
			subjects: [
				{name: "control", run: ([$load, "http", "-c", $at, "--scenario", "\($dir)/create.yaml"] + load + ["\($url)/"]), under: {run: $control, $cpus, $ready}},
				{name: "etcd", run: [$etcd[1], "put", $ready, "64", $at, "\($seconds)s", "\($dir)/value"], under: {run: $etcd, $cpus, $ready}},
				{name: "etcd-16", run: ([$load, "grpc", "-c", "16", "--streams", (($at | tonumber) / 16 | tostring), "--proto", "experiments/bench/etcd/kv.proto", "--rows", "\($dir)/put.csv", "-d", $put] + load + [$ready, "etcdserverpb.KV/Put"]), under: {run: $etcd, $cpus, $ready}}
			] | map(. + {$cpus, count: "tee -a \($dir)/\(.name).json | jq \u0027.puts_per_second // .variants[0].figures.throughput.estimate\u0027"})
		}' >"$dir/plan.json"
	"$pair" <"$dir/plan.json"
	for name in control etcd etcd-16; do
		jq -s -r --arg name "$name" 'map(.variants[0].figures as $f | if $f then {p50_seconds: $f["service.p50"].estimate, p99_seconds: $f["service.p99"].estimate} else . end) | "result: writes.\($name).p50_ms \(map(.p50_seconds * 1000) | sort | .[length / 2 | floor])\nresult: writes.\($name).p99_ms \(map(.p99_seconds * 1000) | sort | .[length / 2 | floor])"' "$dir/$name.json"
	done
fi

if [[ " $parts " = *" rate "* ]]; then
	echo
	server "${serve_control[@]}"
	before=$(ticks "${running[0]}")
	taskset -c "$cpus" "$dir/load" http -q -R "$rate" -z "${seconds}s" --warmup 2s --scenario "$dir/create.yaml" --json "$dir/rate.json" "$url/" >/dev/null
	after=$(ticks "${running[0]}")
	stop
	jq -r --argjson ticks $((after - before)) --arg rate "$rate" --argjson seconds "$seconds" '.variants[0] |
		"At \($rate)/s (open loop): \(.figures.throughput.estimate | floor) writes/s, response p50 \(.figures["response.p50"].estimate * 1e3) ms, p99 \(.figures["response.p99"].estimate * 1e3) ms, p99.9 \(.figures["response.p999"].estimate * 1e3) ms; errors \(.figures["errors.total"].estimate)",
		"result: rate.per_second \(.figures.throughput.estimate)", "result: rate.p99_ms \(.figures["response.p99"].estimate * 1e3)",
		"result: rate.server_cpu_us_per_write \($ticks * 10000 / (.counts.ok * ($seconds + 2) / $seconds))",
		"result: rate.generator_cpu_us_per_write \(.figures["generator.cpu_seconds"].estimate * 1e6 / .counts.ok)"' "$dir/rate.json"
fi

if [[ " $parts " = *" reads "* ]]; then
	echo
	server "${serve_control[@]}"
	"$dir/load" http -q -n 1000 -c 16 --warmup 0 --scenario "$dir/create.yaml" --json "$dir/made.json" "$url/" >/dev/null
	for query in "?stale=true" ""; do
		cat >"$dir/read.yaml" <<YAML
steps:
  - {name: read, path: "/v1/policies/p{{ counter() }}$query"}
YAML
		sed -i 's/counter()/random_int(0, 999)/' "$dir/read.yaml"
		before=$(ticks "${running[0]}")
		taskset -c "$cpus" "$dir/load" http -q -c 64 -z "${seconds}s" --warmup 0 --scenario "$dir/read.yaml" --json "$dir/read.json" "$url/" >/dev/null
		after=$(ticks "${running[0]}")
		jq -r --argjson ticks $((after - before)) --arg kind "${query:+stale}" '(if $kind == "" then "linearizable" else $kind end) as $kind | .variants[0] |
			"Reads, \($kind): \(.figures.throughput.estimate | floor)/s, \(.counts.ok * 100 / $ticks | floor) per CPU-second of the server, service p99 \(.figures["service.p99"].estimate * 1e3) ms; errors \(.figures["errors.total"].estimate)",
			"result: reads.\($kind).per_cpu_second \(.counts.ok * 100 / $ticks)"' "$dir/read.json"
	done
	stop
fi
