#!/usr/bin/env bash
# Autobahn's fuzzing server judges dyno's codec for WebSocket: all cases that it has for clients. The codec sends the
# server's messages back, as each case asks. Compression is offered.
#
#   bench/websocket-autobahn.sh | tee bench/websocket-autobahn.txt
#
# The server needs Python 2.7. It is installed into a folder that is removed at the end. Settings, by environment:
#   PYTHON=python2.7 PORT=19001 AUTOBAHN=FOLDER  (empty: install it)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python2.7} port=${PORT:-19001} autobahn=${AUTOBAHN:-} version=25.10.1

. bench/required.sh
required "$python" go jq curl
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
if [ -z "$autobahn" ]; then
	autobahn=$dir/autobahn
	"$python" -m pip install --quiet --target "$autobahn" "autobahntestsuite==$version" >"$dir/pip" 2>&1 || {
		cat "$dir/pip" >&2
		exit 1
	}
fi
jq -n --arg url "ws://127.0.0.1:$port" --arg dir "$dir/reports" '{$url, outdir: $dir, cases: ["*"], "exclude-cases": [], "exclude-agent-cases": {}}' >"$dir/spec.json"
cat >"$dir/server.py" <<'END'
import site
import sys

site.addsitedir(sys.argv.pop(1))
from twisted.internet import reactor

listen = reactor.listenTCP
reactor.listenTCP = lambda port, factory, backlog=50, interface="": listen(port, factory, backlog, "127.0.0.1")
from autobahntestsuite.wstest import run

run()
END
(cd "$dir" && exec "$python" server.py "$autobahn" -m fuzzingserver -u 0 -s spec.json >log 2>&1) &
server=$!
for ((left = 300; left > 0; left--)); do
	! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	kill -0 "$server" 2>/dev/null && [ "$left" -gt 1 ] || {
		cat "$dir/log" >&2
		exit 1
	}
	sleep 0.1
done
DYNO_AUTOBAHN=127.0.0.1:$port go test -count=1 -timeout 60m -run '^TestAutobahn$' ./load/wire/websocket >"$dir/test" || {
	cat "$dir/test" >&2
	exit 1
}
echo "made by: bench/websocket-autobahn.sh, autobahntestsuite $version"
jq -r '.dyno | to_entries | map({case: .key, group: (.key | split(".") | map(tonumber)), said: .value.behavior, close: .value.behaviorClose}) |
	(group_by(.group[0])[] | "cases \(.[0].group[0]).*: " + (group_by(.said) | map("\(length) \(.[0].said)") | join(", "))),
	"", (map(select((.said | IN("OK", "NON-STRICT", "INFORMATIONAL") | not) or (.close | IN("OK", "INFORMATIONAL") | not))) |
		group_by([.group[:2], .said, .close])[] | "\(map(.case) | join(" ")): \(.[0].said), close \(.[0].close)"),
	"", "result: cases \(length)", "result: passed \(map(select(.said | IN("OK", "NON-STRICT", "INFORMATIONAL"))) | length)",
	"result: unimplemented \(map(select(.said == "UNIMPLEMENTED")) | length)",
	"result: failed \(map(select(.said | IN("OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED") | not)) | length)"' "$dir/reports/index.json"
cat <<'END'

UNIMPLEMENTED are the cases 13.3 to 13.6, in which the server bounds the window of the client's compression (client_max_window_bits).
A server may do so only if the client offers it (RFC 7692, section 7.1.2.2). dyno does not: compress/flate has one window, of 32 KiB.
END
