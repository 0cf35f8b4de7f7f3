#!/usr/bin/env bash
# Print the packages of both modules whose tests run in a single goroutine, one a line, or with
# --not those whose tests do not. The race detector finds nothing in the former, and makes them
# several times slower: most are statistics, checked by simulations.
#
# A package is sequential if its files and tests start no goroutine, run no tests in parallel
# and import nothing that calls back from goroutines of its own, and if no package of the two
# that they import starts one. A line that only looks like a start counts as one.
set -euo pipefail
cd "$(dirname "$0")/.."
# Packages that the race detector has nothing to find in although their tests may start goroutines:
# clients of programs that are built without it; readers of files of other tools, and their loads of one user; readers of sources.
excused='services/echo/rpc|cli/imports(/.*)?|internal/rules'
starts='^[^/"`]*\bgo (func\(|[A-Za-z_]+[A-Za-z0-9_.]*\()|\.(Go|AfterFunc|Parallel|RunParallel)\b'
calling='^(import\s)?\s*([A-Za-z_.]+\s+)?"(net/http|net/http/httptest|net/http/httputil|net/rpc|os/exec|os/signal|testing/synctest|golang.org/x/sync/errgroup|google.golang.org/grpc)"(\s|$)'
folders() { grep -rlE --include='*.go' "$@" . | xargs -r dirname | sort -u; }
{
	folders --exclude='*_test.go' "$starts" | sed 's/^/starts /'
	folders "$starts|$calling" | sed 's/^/tested /'
	go list -f '{{if or .TestGoFiles .XTestGoFiles}}test{{else}}none{{end}} {{.ImportPath}} {{join .Deps " "}} tests {{join .TestImports " "}} {{join .XTestImports " "}}' work
} | awk -v module="$(GOWORK=off go list -m)" -v excused="$excused" -v others="${1-}" '
	$1 == "starts" || $1 == "tested" { sub(/^\./, module, $2); is[$1, $2] = 1; next }
	{
		path[++n] = $2; has[n] = $1 == "test"
		for (i = 2; i <= NF && $i != "tests"; i++) if (("starts", $i) in is) reaches[$2] = 1
		for (i++; i <= NF; i++) imported[n] = imported[n] " " $i
	}
	END {
		for (p = 1; p <= n; p++) {
			concurrent = (("tested", path[p]) in is) || (path[p] in reaches)
			m = split(imported[p], t); for (i = 1; i <= m; i++) concurrent = concurrent || (t[i] in reaches)
			concurrent = concurrent && path[p] !~ "^" module "/(" excused ")$"
			if (has[p] && concurrent == (others == "--not")) print path[p]
		}
	}'
