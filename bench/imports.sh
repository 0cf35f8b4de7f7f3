#!/usr/bin/env bash
# Hold dyno import against the tools whose files it reads: the tool and the imported experiment load a server that writes
# down each request. There must be the same number of requests, in all and by method and path; of ghz, dyno and ghz must
# count the same number of calls. Tools that are not in PATH are left out, and named: curl, vegeta, k6, ghz, locust,
# newman (for Postman). scripts/nightly.sh imports installs them in a folder of its own.
# All of it is in a network of its own, where nobody else uses the ports.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${IN_OWN_NETWORK:-}" ]; then
	exec env IN_OWN_NETWORK=1 unshare --map-root-user --net bench/imports.sh
fi
ip link set lo up

dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
go build -o "$dir" ./experiments/bench/requestlog ./cmd/dyno ./services/echo/rpc/go/connect
data=cli/imports/testdata
address=127.0.0.1:8080
failed=0
declare -A tools=([postman]=newman) # of formats that have another name

module() { go version -m "$(command -v "$1")" | awk '$1 == "mod" {print $2 "@" $3}'; }
for tool in curl vegeta k6 ghz locust newman; do
	command -v $tool >/dev/null || continue
	case $tool in
	curl) curl --version | awk 'NR == 1 {print $1, $2}' ;;
	locust) locust --version | awk '{print $1, $2}' ;;
	newman) echo "newman $(newman --version)" ;;
	*) module $tool ;;
	esac
done

# count NAME COMMAND…: runs a command against the server, and keeps what it sent in NAME: how often, method and path.
count() {
	local name=$1 server
	shift
	"$dir/requestlog" serve --listen $address --save "$dir/log" &
	server=$!
	until curl -so /dev/null http://$address/ready; do sleep 0.1; done
	"$@" >"$dir/$name.out" 2>&1 || true
	kill -INT $server
	wait $server || true
	{ grep -oE '"(GET|POST|PUT|PATCH|DELETE|HEAD) [^ ]+' "$dir/log" || true; } | tr -d '"' | { grep -v ' /ready$' || true; } | awk '{print $1 "|" $2}' | sort | uniq -c >"$dir/$name"
}

# compare FORMAT FILE COMMAND…: the command is the tool's for the file. The experiment is changed by $adjust, of sed.
adjust=
compare() {
	local format=$1 file=$2 name tool
	name=$format-$(basename "$file")
	tool=${tools[$format]:-$format}
	shift 2
	if ! command -v "$tool" >/dev/null; then
		printf '%-18s %s\n' "$name" "there is no $tool"
		return
	fi
	"$dir/dyno" import "$format" -o "$dir/$name.yaml" "$file" 2>"$dir/$name.items"
	[ -z "$adjust" ] || sed -i "$adjust" "$dir/$name.yaml"
	# More load after the window, for system calls, would be counted, too.
	echo 'observe: {kernel: none, server: false}' >>"$dir/$name.yaml"
	local theirs ours apart paths attempt users=1
	[ "$format" != k6 ] || users=8
	for attempt in 1 2 3; do # on a busy machine vegeta ends before it has sent all
		count theirs "$@"
		rm -rf "$dir/$name.run"
		count ours "$dir/dyno" run "$dir/$name.yaml" -o "$dir/$name.run"
		theirs=$(awk '{n += $1} END {print n + 0}' "$dir/theirs")
		ours=$(awk '{n += $1} END {print n + 0}' "$dir/ours")
		# A load that ends after a number of requests ends within iterations: paths differ by less than the users.
		apart=$(join -j 2 <(sort -k 2 "$dir/theirs") <(sort -k 2 "$dir/ours") |
			awk '{d = $2 - $3; d = d < 0 ? -d : d; if (d > most) most = d} END {print most + 0}')
		paths=$(wc -l <"$dir/theirs")
		if [ "$theirs" = "$ours" ] && [ "$ours" -gt 0 ] && [ "$paths" = "$(wc -l <"$dir/ours")" ] && [ "$apart" -lt "$users" ]; then
			printf '%-18s %5d requests, %3d paths: equal, each path to within %d; attempts %d, remarks %d\n' "$name" "$ours" "$paths" "$apart" $attempt "$(wc -l <"$dir/$name.items")"
			return
		fi
	done
	printf '%-18s %s sent %d, dyno %d\n' "$name" "$tool" "$theirs" "$ours"
	diff "$dir/theirs" "$dir/ours" | head -20 || true
	tail -5 "$dir/ours.out"
	failed=1
}

export TOKEN=t0
cp -r "$data/curl" "$dir"
sed -i '/^for i/,/^done/d; s/ | grep -i etag//' "$dir/curl/api.sh" # loops are carried over once, and listed
compare curl "$dir/curl/api.sh" bash -c "cd $dir/curl && bash api.sh"
cat >"$dir/pages.sh" <<'EOF'
for_each=http://127.0.0.1:8080
curl -s $for_each/{index,about,contact}.html
curl -sG --data-urlencode 'q=a b' -d page=1 "$for_each/search" --next -s -X POST --json '{"a": 1}' "$for_each/items"
curl -s -T /etc/hostname $for_each/upload/hostname
EOF
compare curl "$dir/pages.sh" bash "$dir/pages.sh"
cat >"$dir/form.sh" <<'EOF'
curl -s -F a=b -F 'c=d;type=text/x' http://127.0.0.1:8080/form
curl -s -XPUT -d '{"a": "b"}' 127.0.0.1:8080/x?y=%20z
curl -sI http://127.0.0.1:8080/head http://127.0.0.1:8080/head2
EOF
compare curl "$dir/form.sh" bash "$dir/form.sh"

for targets in api.txt lines.json many.txt; do
	format=http
	case $targets in *.json) format=json ;; esac
	# The server answers HEAD as it does GET.
	sed "s|https://api.example.com|http://$address|; s/^HEAD/GET/" "$data/vegeta/$targets" >"$dir/$targets"
	cp "$data/vegeta/part-item.json" "$dir"
	compare vegeta "$dir/$targets" bash -c "cd $dir && vegeta attack -format $format -rate 50 -duration 10s -targets $targets >/dev/null"
done

cat >"$dir/per-vu.js" <<'EOF'
import http from 'k6/http';
import { check, group } from 'k6';
export const options = { scenarios: { all: { executor: 'per-vu-iterations', vus: 5, iterations: 20, exec: 'run' } } };
export function run() {
  group('pages', () => {
    http.batch([['GET', 'http://127.0.0.1:8080/a'], ['GET', 'http://127.0.0.1:8080/b']]);
  });
  const res = http.post(http.url`http://127.0.0.1:8080/c?d=${'e'}`, { f: 'g' });
  check(res, { ok: (r) => r.status === 200 });
}
EOF
cat >"$dir/rate.js" <<'EOF'
import http from 'k6/http';
export const options = { scenarios: { all: { executor: 'shared-iterations', vus: 8, iterations: 500, maxDuration: '1m' } } };
const paths = ['/x', '/y', '/z'];
export default () => paths.forEach((p) => http.del('http://127.0.0.1:8080' + p));
EOF
cp "$data/k6/once.js" "$dir"
for script in once.js per-vu.js rate.js; do
	compare k6 "$dir/$script" k6 run -q --no-usage-report "$dir/$script"
done

# Scripts of collections look into responses, which the server does not have.
for collection in crud.json orders.json auth.json; do
	jq 'walk(if type == "object" then del(.event) else . end) | del(.item[] | select(.name == "missing file" or .name == "elsewhere"))' \
		"$data/postman/$collection" | sed 's/localhost/127.0.0.1/; s/3000/8080/' >"$dir/$collection"
	cp "$data/postman/part-cat.txt" "$dir"
	compare postman "$dir/$collection" bash -c "cd $dir && newman run $collection"
done

# locust has no number of iterations: one user ends after 60 requests.
cat >"$dir/limit.py" <<'EOF'

import gevent, itertools, locust

number = itertools.count(1)

@locust.events.init.add_listener
def limit(environment, **_):
    def count(**_):
        if next(number) >= 60:
            gevent.spawn(environment.runner.quit)
            raise locust.exception.StopUser()
    environment.events.request.add_listener(count)
EOF
cat >"$dir/flow.py" <<'EOF'
from locust import HttpUser, task, constant

class Visitor(HttpUser):
    host = "http://127.0.0.1:8080"
    wait_time = constant(0.01)

    @task
    def visit(self):
        self.client.get("/items", params={"page": 1})
        self.client.post("/orders", json={"item": 17})
        self.client.put("/orders/17", data={"count": 2})
        for n in range(3):
            self.client.get(f"/orders/17/lines/{n}")
EOF
cat >"$dir/sequence.py" <<'EOF'
from locust import FastHttpUser, SequentialTaskSet, task

PREFIX = "/api/v1"

class Steps(SequentialTaskSet):
    @task
    def first(self):
        self.client.get(PREFIX + "/first", headers={"Accept": "application/json"})

    @task
    def second(self):
        self.client.patch("%s/second" % PREFIX, json={"a": [1, 2]})

    @task
    def third(self):
        self.client.delete(PREFIX + "/third?all=1")

class Worker(FastHttpUser):
    host = "http://127.0.0.1:8080"
    tasks = [Steps]
EOF
cat >"$dir/start.py" <<'EOF'
from locust import HttpUser, task

class Member(HttpUser):
    host = "http://127.0.0.1:8080"

    def on_start(self):
        self.client.post("/login", json={"user": "ann"})

    @task
    def page(self):
        with self.client.get("/page", catch_response=True) as response:
            if response.status_code != 200:
                response.failure("no page")
EOF
adjust='s/connections: 10/connections: 1/; s/^  warmup: 0s/&\n  requests: 60/'
for script in flow.py sequence.py start.py; do
	cat "$dir/$script" "$dir/limit.py" >"$dir/run-$script"
	compare locust "$dir/$script" locust -f "$dir/run-$script" --headless -u 1 -r 1 -t 1m
done
adjust=

# calls FILE: ghz and dyno count the calls that dyno's echo server answers.
calls() {
	local theirs ours
	theirs=$(ghz --config "$1" -O json 2>/dev/null | tr -d ' ' | grep -o '"count":[0-9]*' | awk -F: 'NR == 1 {print $2}')
	"$dir/dyno" import ghz -o "${1%.json}.yaml" "$1" 2>/dev/null
	"$dir/dyno" run "${1%.json}.yaml" -o "${1%.json}.run" --json "$1.out" >/dev/null 2>&1 || true
	ours=$(tr -d ' ' <"$1.out" | grep -o '"ok":[0-9]*' | awk -F: 'NR == 1 {print $2}')
	if [ "$theirs" = "$ours" ] && [ -n "$ours" ]; then
		printf '%-18s %6d calls: equal\n' "ghz-$(basename "$1")" "$ours"
	else
		printf '%-18s ghz made %s, dyno %s\n' "ghz-$(basename "$1")" "$theirs" "$ours"
		failed=1
	fi
}
if command -v ghz >/dev/null; then
	"$dir/connect" -listen 127.0.0.1:50051 >/dev/null 2>&1 &
	until (exec 3<>/dev/tcp/127.0.0.1/50051) 2>/dev/null; do sleep 0.1; done
	for n in 200 1000 2000; do
		printf '{"host": "127.0.0.1:50051", "insecure": true, "call": "dyno.echo.v1.Echo/Echo", "total": %d, "concurrency": %d, "connections": %d, "data": {"text": "hello"}}' \
			$n $((n / 100)) $((n / 200)) >"$dir/total-$n.json"
		calls "$dir/total-$n.json"
	done
else
	echo "there is no ghz"
fi
exit $failed
