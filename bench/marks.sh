#!/usr/bin/env bash
# Which figures of plain quick loads bear a mark, and how far they are from what other load generators print: ten
# servers, each loaded by dyno, wrk and whichever others are installed, in turns. First on the machine as it is, then
# next to a program that takes a fifth of a CPU. Where another tool's latency differs by more than a tenth, dyno's own
# screens are searched for the reason. "Its rate" means that the other tool sent fewer requests, so that each connection took
# longer; "its pause" that it does not count the time between an answer and its next request, which c/X has.
#
#   bench/marks.sh | tee bench/marks.txt
#
# Settings, by environment; calls with the same KEEP add their loads to those before, so that a series can be cut up:
#   ROUNDS=5 SECONDS_EACH=2 CONNECTIONS=20 SERVERS="nginx node …" HOGS="0 20" SUBJECTS="dyno wrk" DYNO="…/bin/dyno" KEEP=DIR
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-2} connections=${CONNECTIONS:-20}
servers=${SERVERS:-nginx haproxy node slow python null delay queue work freeze}
hogs=${HOGS:-0 20} dyno=${DYNO-$PWD/bin/dyno}
. bench/required.sh
required wrk jq python3 nginx haproxy node "$dyno"

dir=$(mktemp -d) server=() hog=()
kept=${KEEP:-$dir/kept}
mkdir -p "$kept" "$dir/www"
chmod 755 "$dir" # workers of nginx run as another user
trap 'kill "${server[@]}" "${hog[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
port=18400
url=http://127.0.0.1:$port/
echo hello >"$dir/www/index.html"
cat >"$dir/nginx.conf" <<END
daemon off; worker_processes 1; pid $dir/nginx.pid; error_log $dir/nginx.log;
events { worker_connections 1024; }
http { access_log off; keepalive_requests 100000000; server { listen 127.0.0.1:BASE; root $dir/www; } }
END
cat >"$dir/haproxy.cfg" <<END
global
	nbthread 1
defaults
	mode http
	timeout connect 5s
	timeout client 60s
	timeout server 60s
listen all
	bind 127.0.0.1:$port
	server one 127.0.0.1:$((port + 1))
END
# Answers at once, but for one request in twenty after 20 ms, if asked.
cat >"$dir/node.js" <<END
let n = 0;
require('http').createServer((_, to) => {
  if (process.argv[2] === 'slow' && ++n % 20 === 0) setTimeout(() => to.end('hello\n'), 20);
  else to.end('hello\n');
}).listen($port, '127.0.0.1');
END

nginx_on() {
	sed "s/BASE/$1/" "$dir/nginx.conf" >"$dir/nginx-$1.conf"
	nginx -e "$dir/nginx.log" -c "$dir/nginx-$1.conf" &
	server+=($!)
}
start() {
	server=()
	case $1 in
	nginx) nginx_on $port ;;
	haproxy)
		nginx_on $((port + 1))
		haproxy -f "$dir/haproxy.cfg" >"$dir/haproxy.log" 2>&1 &
		;;
	node | slow) node "$dir/node.js" "$1" & ;;
	python) python3 -m http.server -d "$dir/www" -b 127.0.0.1 $port >"$dir/python.log" 2>&1 & ;;
	null) "$dyno" __oracle null --listen "127.0.0.1:$port" >/dev/null 2>&1 & ;;
	delay) "$dyno" __oracle delay --delay 5ms --listen "127.0.0.1:$port" >/dev/null 2>&1 & ;;
	queue) "$dyno" __oracle queue --workers 4 --service 1ms --listen "127.0.0.1:$port" >/dev/null 2>&1 & ;;
	work) "$dyno" __oracle work --work 200us --listen "127.0.0.1:$port" >/dev/null 2>&1 & ;;
	freeze) "$dyno" __oracle freeze --hold 20ms --period 200ms --listen "127.0.0.1:$port" >/dev/null 2>&1 & ;;
	*) echo "no server $1" >&2 && exit 2 ;;
	esac
	server+=($!)
	for _ in {1..100}; do
		curl -so /dev/null "$url" && return
		sleep 0.05
	done
	echo "$1 does not answer" >&2 && exit 1
}
stop() {
	kill "$@" 2>/dev/null || true
	wait "$@" 2>/dev/null || true
}

# Each prints requests per second, and p50, p90 and p99 in milliseconds.
load_dyno() {
	local to="$kept/$load-$name-$round"
	"$dyno" -c "$connections" -z "${seconds}s" --json "$to.json" "$url" >"$to.screen" 2>/dev/null || echo "$load $name: exit code $?" >>"$dir/ended"
	jq -r '.variants[0] | [.figures.throughput.estimate] + [("service.p50", "service.p90", "service.p99") as $of | (.figures[$of].estimate // .figures_of_few[$of] // 0) * 1e3] | @tsv' "$to.json"
}
load_wrk() {
	wrk -t1 -c"$connections" -d"${seconds}s" --latency "$url" | awk '
		function ms(t) {return t ~ /us$/ ? t / 1e3 : t ~ /ms$/ ? t + 0 : t * 1e3}
		$1 == "50%" {a = ms($2)} $1 == "90%" {b = ms($2)} $1 == "99%" {c = ms($2)} /^Requests\/sec:/ {print $2, a, b, c}'
}
load_oha() {
	oha --no-tui --output-format json -c "$connections" -z "${seconds}s" "$url" |
		jq -r '[.summary.requestsPerSec] + [.latencyPercentiles | .p50, .p90, .p99 | . * 1e3] | @tsv'
}
load_hey() {
	hey -c "$connections" -z "${seconds}s" "$url" |
		awk '/Requests\/sec:/ {r = $2} /50%+ in/ {a = $3 * 1e3} /90%+ in/ {b = $3 * 1e3} /99%+ in/ {print r, a, b, $3 * 1e3}'
}

subjects=(dyno wrk)
for other in hey oha; do
	! command -v "$other" >/dev/null || subjects+=("$other")
done
[ -z "${SUBJECTS:-}" ] || read -ra subjects <<<"$SUBJECTS"
for load in $hogs; do
	if [ "$load" != 0 ]; then
		python3 -c "
import time
while True:
    begun = time.process_time()
    while time.process_time() - begun < $load / 1000:
        pass
    time.sleep((100 - $load) / 1000)" &
		hog=($!)
	fi
	for name in $servers; do
		start "$name"
		for ((round = 1; round <= rounds; round++)); do
			for subject in "${subjects[@]}"; do
				read -r -a figures < <("load_$subject")
				echo "$load $name $subject ${figures[*]}" >>"$kept/figures"
			done
		done
		stop "${server[@]}"
	done
	[ "$load" = 0 ] || stop "${hog[@]}"
done

echo "plain quick loads: $connections connections, ${seconds} s each, interleaved; medians; c/X is what connections and rate leave for the mean"
echo "$(nproc) × $(sed -n 's/^model name\s*: //p;T;q' /proc/cpuinfo), Linux $(uname -r | cut -d- -f1), $(date +%F)"
python3 - "$kept" "$connections" <<'END'
import collections, glob, re, statistics, sys

kept, connections = sys.argv[1], int(sys.argv[2])
figures = collections.defaultdict(list)
for line in open(kept + "/figures"):
    load, name, subject, *values = line.split()
    figures[load, name, subject].append([float(v) for v in values])
loads, names, subjects = ([*dict.fromkeys(k[i] for k in figures)] for i in (0, 1, 2))
for load in loads:
    marked = shown = quiet = screens = alike = explained = slower = 0
    unexplained = []
    print("\n" + ("idle" if load == "0" else f"next to a program that takes {load} % of a CPU"))
    print(f"{'server':8} {'':>4} " + "".join(f"{s:>10}" for s in subjects) + "   dyno's marks; where others differ, and what dyno's screen says of it")
    for name in names:
        marks, says, read = collections.Counter(), collections.Counter(), []
        for path in glob.glob(f"{kept}/{load}-{name}-*.screen"):
            text = open(path).read()
            rows = [r.split(None, 1)[1] for r in text.splitlines() if re.match(r"  (requests/s|latency|connect) ", r)]
            found = [w for r in rows for w in re.findall(r"(?:p[\d.]+|max|^) ?([≤≥~]?[\d,.]+(?: [µnm]?s)?\??)", r)]
            for word in found:
                shown += 1
                if re.search("[≤≥~?]", word):
                    marks[word[0] if word[0] in "≤≥~" else "?"] += 1
            screens += 1
            quiet += not re.search("[≤≥~?]", "".join(found))
            for word in ("until read", "coordinated omission"):
                says[word] += word in text
        marked += sum(marks.values())
        count = len(glob.glob(f"{kept}/{load}-{name}-*.screen"))
        middle = lambda s, i: statistics.median([v[i] for v in figures[load, name, s] if len(v) > i] or [0])
        for i, what in enumerate(["/s", "p50", "p90", "p99", "c/X"]):
            row = [1e3 * connections / middle(s, 0) if i == 4 and middle(s, 0) else middle(s, i % 4) for s in subjects]
            notes = [f"{n} {m}" for m, n in marks.items()] if i == 0 else []
            for s, x in zip(subjects, row):
                if s == "dyno" or i in (0, 4) or not x:
                    continue
                of = row[subjects.index("dyno")]
                if abs(of / x - 1) <= 0.1 or s == "hey" and abs(of - x) <= 0.1:  # hey prints tenths of a millisecond
                    alike += 1
                    continue
                mine, its = (1e3 * connections / middle(of, 0) for of in ("dyno", s))
                why = "its rate" if x > of and its > 1.1 * mine else "its pause" if x < of and x < 0.95 * its else "until read" if 2 * says["until read"] > count and x > of else "coordinated omission" if s == "wrk" and x > of and 2 * says["coordinated omission"] > count else ""
                explained += why in ("until read", "coordinated omission")
                slower += why in ("its rate", "its pause")
                notes.append(f"{s}: {why or '?'}")
                if not why:
                    unexplained.append(f"{name} {what} {s}")
            print(f"{name if i == 0 else '':8} {what:>4} " + "".join(f"{x:>10.4g}" for x in row) + ("   " + ", ".join(notes) if notes else ""))
    print(f"result: unmarked.{load} {quiet} of {screens} loads without a mark")
    print(f"result: marked.{load} {marked} of {shown} figures with one")
    if compared := alike + explained + slower + len(unexplained):
        print(f"result: alike.{load} {alike} of {compared} latencies within a tenth")
        print(f"  {explained} more have the reason on the screen, {slower} are due to the other tool's rate or pauses; others: {', '.join(unexplained) or 'none'}")
    for s in subjects:
        runs = figures[load, "delay", s]
        for i, what in ((0, "requests_per_second"), (1, "p50_ms"), (3, "p99_ms")) if runs else ():
            of = [v[i] for v in runs if len(v) > i]
            print(f"result: delay.{load}.{s}.{what} {statistics.median(of):.4g} ({min(of):.4g} … {max(of):.4g})")
END
[ ! -s "$dir/ended" ] || cat "$dir/ended"
