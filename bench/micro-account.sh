#!/usr/bin/env bash
# Where a request's time goes in the generator: CPU time by what it does, system calls, and instructions of the program.
# nginx on one CPU, the generator on another, closed loop.
#
#   bench/micro-account.sh before=FOLDER/dyno after=bin/dyno | tee bench/micro-account.txt
#
# The CPU time is that of the worker's thread, by samples of perf; sampling lengthens it. Send and receive include what
# the kernel does for them at once: over loopback, send delivers to the peer. The instructions are those of
# the worker's loop outside of the kernel, by callgrind.
#
# Settings, by environment:
#   LOADS="http1 clear.64x1 clear.8x16 tls.64x1 tls.8x16" SECONDS_EACH=2 REQUESTS=20000 (of callgrind)
#   SERVER_CPU=0 LOAD_CPU=1 PORT=18200 (and the next two)
set -euo pipefail
cd "$(dirname "$0")/.."
loads=${LOADS:-http1 clear.64x1 clear.8x16 tls.64x1 tls.8x16} seconds=${SECONDS_EACH:-2} requests=${REQUESTS:-20000}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18200}
[ $# -gt 0 ] || set -- dyno=bin/dyno

. bench/required.sh
. bench/nginx.sh
required nginx openssl jq perf valgrind taskset "${@#*=}"
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
tls=$(nginx_tls "$dir" 1.3 ec)
nginx_file "$dir" 100 <<CONF
		listen 127.0.0.1:$port backlog=4096;
		listen 127.0.0.1:$((port + 1)) http2 backlog=4096;
		listen 127.0.0.1:$((port + 2)) ssl http2 backlog=4096;
$tls
CONF
taskset -c "$server_cpu" nginx -p "$dir" -e stderr -c "$dir/nginx.conf" &
until curl -sf -o "$dir/index" "http://127.0.0.1:$port/index.html"; do sleep 0.1; done

# flags LOAD: those of dyno.
flags() {
	local shape=${1#*.}
	case $1 in
	http1) echo -c 64 "http://127.0.0.1:$port/index.html" ;;
	clear.*) echo --http2 -c "${shape%x*}" --streams "${shape#*x}" "http://127.0.0.1:$((port + 1))/index.html" ;;
	tls.*) echo --http2 --insecure -c "${shape%x*}" --streams "${shape#*x}" "https://127.0.0.1:$((port + 2))/index.html" ;;
	esac
}
answered() { jq '.variants[0].counts.ok' "$dir/result.json"; }

events=$(echo syscalls:sys_enter_{sendto,recvfrom,recvmsg,epoll_pwait,epoll_pwait2,timerfd_settime})

# generate CPUS COMMAND…: run it on these CPUs. Exit code 4 says that the generator was the limit.
generate() {
	local code=0
	taskset -c "$@" >"$dir/log" 2>&1 || code=$?
	[ $code = 0 ] || [ $code = 4 ] || { cat "$dir/log" >&2; exit 1; }
}

echo "made by: SECONDS_EACH=$seconds REQUESTS=$requests bench/micro-account.sh ${*%%=*}"
echo "$(nproc) × $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), $(nginx -v 2>&1 | sed 's/.*: //')"
printf '\n%-11s %-7s %9s  %42s  %26s  %12s\n' '' '' '' 'CPU ns per request' 'system calls per request' instructions
printf '%-11s %-7s %9s  %6s %6s %6s %7s %6s %6s  %8s %8s %8s  %12s\n' load program requests user send receive wait other all send receive wait 'per request'
for load in $loads; do
	for program; do
		read -ra arguments <<<"http -q --warmup 0 --json $dir/result.json $(flags "$load")"
		generate "$load_cpu" perf record -o "$dir/samples" -e cpu-clock -c 200000 -g -- "${program#*=}" "${arguments[@]}" -z "${seconds}s"
		count=$(answered)
		times=$(perf script -i "$dir/samples" -F tid,ip,sym 2>/dev/null | awk -v count="$count" '
			function add() { if (thread != "") { all[thread]++; of[thread, kind]++ } thread = "" }
			NF == 0 { add(); next }
			NF == 1 && thread == "" { thread = $1; kind = "user"; next }
			/sys_send|sys_write/ { kind = "send" }
			/sys_recv|sys_read/ { kind = "receive" }
			/sys_epoll|sys_poll/ { kind = "wait" }
			kind == "user" && $1 ~ /^ffffffff/ { kind = "other" }
			END {
				add()
				for (thread in all) if (all[thread] > all[worker]) worker = thread
				split("user send receive wait other", kinds)
				for (k = 1; k <= 5; k++) printf "%.0f ", of[worker, kinds[k]] * 200000 / count
				printf "%.0f", all[worker] * 200000 / count
			}')
		generate "$load_cpu" perf stat -x, -o "$dir/calls" -e "${events// /,}" -- \
			"${program#*=}" "${arguments[@]}" -z "${seconds}s"
		calls=$(awk -F, -v count="$(answered)" '
			/sendto/ { send += $1 } /recv/ { receive += $1 } /epoll|timerfd/ { wait += $1 }
			END { printf "%.2f %.2f %.2f", send / count, receive / count, wait / count }' "$dir/calls")
		# Signals that preempt goroutines are more than callgrind bears, and it misses the loop now and then.
		for _ in 1 2 3; do
			GODEBUG=asyncpreemptoff=1 generate "$server_cpu,$load_cpu" valgrind --tool=callgrind --callgrind-out-file="$dir/callgrind" \
				--collect-atstart=no --toggle-collect='dyno/load/engine.(*worker).loop' "${program#*=}" "${arguments[@]}" -n "$requests" --workers 1
			instructions=$(awk -v count="$(answered)" '/Collected :/ { printf "%.0f", $4 / count }' "$dir/log")
			[ "$instructions" -lt 500 ] || break
		done
		# shellcheck disable=SC2086 # several words each
		printf '%-11s %-7s %9s  %6s %6s %6s %7s %6s %6s  %8s %8s %8s  %12s\n' "$load" "${program%%=*}" "$count" $times $calls "$instructions"
	done
done
