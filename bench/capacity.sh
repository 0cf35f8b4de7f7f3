#!/usr/bin/env bash
# The capacity that `dyno capacity` finds by its defaults, and what it is by construction, or by the throughput that wrk
# reaches: a search must find it within 10 %, or say "at least" and name the right limit of dyno's.
# Usage: bench/capacity.sh [NAME…]   all servers without names; needs node, nginx, wrk, jq and dyno.
set -euo pipefail
cd "$(dirname "$0")"
dyno=${DYNO:-dyno} port=27400 url=http://127.0.0.1:27400/
scratch=$(mktemp -d) server=
chmod 755 "$scratch" # nginx's workers read there
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$scratch"' EXIT

start() { # COMMAND…: a server on the port
	"$@" >"$scratch/log" 2>&1 &
	server=$!
	for _ in $(seq 100); do (: </dev/tcp/127.0.0.1/$port) 2>/dev/null && return; sleep 0.05; done
	cat "$scratch/log"; exit 1
}
nginx() { # DIRECTIVES of the only location: one worker on CPU 0
	echo ok >"$scratch/index.html"
	cat >"$scratch/nginx.conf" <<-END
		worker_processes 1; worker_cpu_affinity 1; daemon off; pid $scratch/pid; error_log $scratch/error;
		events { worker_connections 10000; }
		http { access_log off; limit_req_zone \$binary_remote_addr zone=z:1m rate=500r/s;
		server { listen 127.0.0.1:$port backlog=65535; keepalive_requests 1000000000; root $scratch; location / { $1 } } }
	END
	start "$(PATH=$PATH:/usr/sbin type -P nginx)" -p "$scratch" -c "$scratch/nginx.conf"
}
saturated() { # the best of three: a server that wrk disturbs is slower
	for _ in 1 2 3; do taskset -c 1 wrk -t1 -c200 -d2s $url; done | awk '/Requests.sec/ && $2 > best { best = $2 } END { printf "%.0f", best }'
}
row() { # TRUTH WANT FLAG…: searches the server that was started; WANT is what must limit the search
	local truth=$1 want=$2 code=0 began=$SECONDS
	shift 2
	"$dyno" capacity -q --slo "$slo" "$@" --json "$scratch/out.json" $url >/dev/null 2>"$scratch/err" || code=$?
	kill "$server"; wait "$server" 2>/dev/null || true; server=
	jq -r --arg name "$name" --arg truth "$truth" --arg want "$want" --arg code $code --arg time $((SECONDS - began)) '
		(.capacities[0].searches[0] // {}) as $s | ($s.own_limit.kind // (if $s.high_disturbed then "disturbed" else "server" end)) as $limit |
		($s.low_per_second // 0) as $low | ($truth | tonumber) as $t |
		(if $limit == "server" then ($low / $t > 0.9 and $low / $t < 1.1 and $code == "0") else ($limit == $want and $low < 1.1 * $t and $code == "4") end) as $ok |
		[$name, $truth, (if $limit == "server" then "" else "≥" end) + ($low | tostring), $limit, $code, $time + "s", (if $ok then "ok" else "WRONG" end)] | @tsv' "$scratch/out.json" |
		awk -F'\t' '{ printf "%-34s %8s %9s  %-18s %4s %6s  %s\n", $1, $2, $3, $4, $5, $6, $7 }'
}
printf '%-34s %8s %9s  %-18s %4s %6s\n' server truth found limit exit time
slo='p99 < 100ms, errors.ratio < 1%'
all=(null slow50 tail bimodal one workers cap refuses pauses closes streams nginx limited)
for which in "${@:-${all[@]}}"; do
	name=$which
	case $which in
	null) name='answers at once, CPU 0' && start taskset -c 0 "$dyno" __oracle null --listen 127.0.0.1:$port && row "$(saturated)" limit.cpu ;;
	slow50) name='50 ms each, any number; -c 50' && start node capacity.js slow $port && row 1000 limit.connections -c 50 ;;
	tail) name='20 workers, 5 % take 200 ms' && start node capacity.js tail $port && slo='p90 < 100ms' row 1356 '' ;;
	bimodal) name='10 workers, 2 or 20 ms' && start node capacity.js bimodal $port && row 909 '' ;;
	one) name='one at a time, 2 ms' && start "$dyno" __oracle queue --workers 1 --service 2ms --listen 127.0.0.1:$port && row 500 '' ;;
	workers) name='4 workers of 10 ms; -c 50' && start "$dyno" __oracle queue --workers 4 --service 10ms --listen 127.0.0.1:$port && row 400 '' -c 50 ;;
	cap) name='10 ms each on 20 connections' && start node capacity.js limited $port && row 2000 '' ;;
	refuses) name='503 above 700/s' && start node capacity.js refuses $port && row 700 '' ;;
	pauses) name='1 ms each, 100 ms pause a second' && start node capacity.js pauses $port && slo='p75 < 100ms' row 900 '' ;;
	closes) name='5 workers of 5 ms, no keep-alive' && start node capacity.js closes $port && row 1000 '' ;;
	streams) name='HTTP/2, 4 streams of 20 ms; -c 2' && start node capacity.js streams $port && row 400 limit.connections --http2 -c 2 --streams 16 ;;
	nginx) name='nginx on CPU 0' && nginx 'return 200 ok;' && row "$(saturated)" limit.cpu ;;
	limited) name='nginx, limit_req 500/s' && nginx 'limit_req zone=z burst=20 nodelay;' && row 500 '' ;;
	esac
done
