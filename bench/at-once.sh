#!/usr/bin/env bash
# Time 20 loads of one request, from start to exit, by dyno, curl, hey and oha as far as they are installed: wall time and
# CPU time, median and worst, and without the first one, which reads the program from the disk. Then the time that a trial
# of dyno compare takes beyond its warm-up and its window.
#
#   bench/at-once.sh DYNO [OLDER]      OLDER is a dyno before a change
set -euo pipefail
. "$(dirname "$0")/required.sh"
dyno=$(realpath "${1:?the program dyno}") older=${2:+$(realpath "$2")}
required curl python3
dir=$(mktemp -d)
cd "$dir"
export DYNO_QUIET_WAIT=1s # or a machine that is not quiet costs a trial more than it takes
"$dyno" serve echo --http 127.0.0.1:0 >echo.out 2>&1 &
echo=$!
trap 'kill $echo; rm -rf "$dir"' EXIT
until address=$(grep -o '127\.0\.0\.1:[0-9]*' echo.out | head -1) && [ "$address" ]; do sleep 0.1; done

echo "$(uname -sr), $(nproc) CPUs of $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
cat >timed.py <<'P'
import os, statistics, subprocess, sys, time
name, command = sys.argv[1], sys.argv[2:]
wall, cpu = [], []
for _ in range(21):
    start = time.monotonic()
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(p.pid, 0)
    if status:
        sys.exit(f"{name}: exit status {status}")
    wall.append((time.monotonic() - start) * 1e3)
    cpu.append((used.ru_utime + used.ru_stime) * 1e3)
wall, cpu = wall[1:], cpu[1:]
print(f"{name:22} wall {statistics.median(wall):5.0f} ms, at most {max(wall):5.0f}   CPU {statistics.median(cpu):5.0f} ms, at most {max(cpu):5.0f}")
P
timed() { python3 timed.py "$@"; }
url=http://$address/
[ -z "$older" ] || timed 'older dyno -q -n 1' "$older" -q -n 1 "$url"
timed 'dyno -q -n 1' "$dyno" -q -n 1 "$url"
timed 'dyno version' "$dyno" version
timed 'curl' curl -s "$url"
[ -z "$(command -v hey)" ] || timed 'hey -n 1 -c 1' hey -n 1 -c 1 "$url"
[ -z "$(command -v oha)" ] || timed 'oha -n 1 -c 1' oha --no-tui -n 1 -c 1 "$url"

# trials NAME DYNO: what a trial costs beyond its 0.1 s of warm-up and 0.5 s of window.
trials() {
	local start end serve="$dyno serve echo --http 127.0.0.1:{{port}}"
	start=$(date +%s%N)
	"$2" compare -q -o "$1" --rounds 4 --warmup 0.1s --duration 0.5s --control=false -c 2 --a "$serve" --b "$serve" 'http://127.0.0.1:{{port}}/' >said 2>&1 || true
	end=$(date +%s%N)
	python3 -c 'import sys; ns, n = map(int, sys.argv[2:]); print(f"{sys.argv[1]:22} {n} trials, each {ns / n / 1e6 - 600:.0f} ms more than its load")' \
		"$1 compare" $((end - start)) "$(find "$1/trials" -name trial.json | wc -l)"
}
[ -z "$older" ] || trials older "$older"
trials dyno "$dyno"
