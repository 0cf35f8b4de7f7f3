#!/usr/bin/env bash
# Exit codes of k6 and of dyno for the same threshold, on the same server: each K-th answer takes 60 ms, or is a 503.
# Both send one request after another, so that the share of slow or failed answers is known exactly. The truth is whether
# the server keeps the threshold in the long run; a verdict is wrong if it says the opposite and is sure.
#
#   bench/thresholds.sh | tee bench/thresholds.txt
#
# Settings, by environment:
#   DYNO=…/bin/dyno
set -euo pipefail
cd "$(dirname "$0")/.."

dyno=${DYNO-$PWD/bin/dyno}
. bench/required.sh
required python3 k6 curl "$dyno"

dir=$(mktemp -d)
python3 -u - >"$dir/port" <<'PY' &
import http.server, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    count, every, what = 0, 0, ''

    def log_message(self, *of):
        pass

    def do_GET(self):
        status = 200
        if self.path.startswith('/reset/'):
            _, _, Handler.what, every = self.path.split('/')
            Handler.every, Handler.count = int(every), 0
        elif Handler.every:
            Handler.count += 1
            if Handler.count % Handler.every == 0:
                if Handler.what == 'slow':
                    time.sleep(0.06)
                else:
                    status = 503
        self.send_response(status)
        self.send_header('Content-Length', '0')
        self.end_headers()

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
server.daemon_threads = True
print(server.server_port)
server.serve_forever()
PY
server=$!
trap 'kill "$server"; rm -rf "$dir"' EXIT
while [ ! -s "$dir/port" ]; do sleep 0.1; done
url=http://127.0.0.1:$(<"$dir/port")

k6_exit() { # METRIC CONDITION REQUESTS
	cat >"$dir/k6.js" <<JS
import http from 'k6/http';
export const options = {vus: 1, iterations: $3, thresholds: {$1: ['$2']}};
export default function () { http.get('$url/'); }
JS
	code=0
	k6 run -q --no-usage-report --no-summary "$dir/k6.js" >"$dir/k6" 2>&1 || code=$?
}
dyno_exit() { # CONDITION REQUESTS
	code=0
	"$dyno" http -q -c 1 -n "$2" --threshold "$1" "$url/" >"$dir/screen" 2>&1 || code=$?
}

echo "exit codes for thresholds, one request after another"
echo "$(nproc) × $(sed -n 's/^model name\s*: //p;T;q' /proc/cpuinfo), $(k6 version | cut -d' ' -f1-2), $(date +%F)"
printf '%-24s %8s %-15s %-6s %4s %5s  %s\n' "server" requests threshold truth k6 dyno "dyno says"
same=0 cases=0 wrong=0
judge() { # WHAT EVERY REQUESTS METRIC CONDITION-OF-K6 CONDITION-OF-DYNO MOST-IN-100
	local theirs truth=kept says
	[ $((100 / $2)) -lt "$7" ] || truth=broken
	curl -s "$url/reset/$1/$2"
	k6_exit "$4" "$5" "$3"
	theirs=$code
	curl -s "$url/reset/$1/$2"
	dyno_exit "$6" "$3"
	says=$(sed -n 's/^ *thresholds *//p' "$dir/screen" | head -1)
	printf '%-24s %8s %-15s %-6s %4s %5s  %s\n' "each $2-th answer $1" "$3" "$6" "$truth" "$theirs" "$code" "$says"
	cases=$((cases + 1))
	[ "$theirs" != "$code" ] || same=$((same + 1))
	case "$truth $says" in "kept 0 of 1 hold" | "broken 1 of 1 hold") wrong=$((wrong + 1)) ;; esac
}
for requests in 50 300 2000; do
	for every in 10 50 200 1000; do
		judge slow $every $requests http_req_duration 'p(95)<30' 'p95<30ms' 5
		judge slow $every $requests http_req_duration 'p(99)<30' 'p99<30ms' 1
	done
	for every in 20 1000; do
		judge 503 $every $requests http_req_failed 'rate<0.01' 'errors.ratio<1%' 1
	done
done
echo "result: the same exit code in $same of $cases"
echo "result: wrong verdicts $wrong of $cases"
