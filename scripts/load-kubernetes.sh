#!/usr/bin/env bash
# Loads whose agents Kubernetes runs (dyno --kubernetes), on a Kubernetes of its own (scripts/kubernetes.sh). The target is
# nginx on this machine, whose log counts what it answered. Prints what comes out; fails if a figure is wrong, or if an
# object of a load is left.
#
#   scripts/load-kubernetes.sh FOLDER [STEP...]
#
#   count      8 pods carry a load: what dyno counts, and what nginx has answered
#   interrupt  SIGINT in the middle of a load
#   killed     SIGKILL in the middle of a load, and while the agents start
#   lost       a pod is deleted in the middle of a load
#   refused    a quota that is too small, an image that is not there, pods that fit no node, a flag that is no quantity
#   rbac       a service account with the role that --kubernetes-rbac prints, and one without
#   incluster  an experiment as a Job, whose pod starts the agents (deploy/fleet/job-kubernetes.yaml)
#
# FOLDER has the cluster; what was built there is used again. Needs root, nginx and jq.
set -euo pipefail
# shellcheck source=scripts/kubernetes-common.sh
. "$(dirname "$0")/kubernetes-common.sh"
steps=("$@")
[ $# -gt 0 ] || steps=(count interrupt killed lost refused rbac incluster)
url=http://10.88.1.1:18380/ answers=$folder/answers.log
small=(--kubernetes-namespace load --kubernetes-cpu 200m --kubernetes-memory 128Mi --kubernetes-image dyno:dev)

# target: an nginx on the node, which pods also know as http://target:18380/, and this machine does not.
target() {
	k create -f - <<-Y >/dev/null
		apiVersion: v1
		kind: Service
		metadata: {name: target}
		spec: {clusterIP: None, ports: [{port: 18380}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: target, labels: {kubernetes.io/service-name: target}}
		addressType: IPv4
		endpoints: [{addresses: [10.88.1.1]}]
		ports: [{port: 18380}]
	Y
	mkdir -p "$folder/web"
	: >"$answers"
	cat >"$folder/web/nginx.conf" <<-N
		worker_processes 1;
		daemon off;
		pid $folder/web/pid;
		error_log $folder/web/error.log;
		events { worker_connections 4096; }
		http {
		  log_format status '\$status';
		  access_log $answers status;
		  keepalive_requests 1000000000;
		  server {
		    listen 10.88.1.1:18380;
		    location / { return 200 "an answer\n"; }
		  }
		}
	N
	nginx -c "$folder/web/nginx.conf" &
	web=$!
	trap 'kill $web; scripts/kubernetes.sh down "$folder"' EXIT
}

answered() { wc -l <"$answers"; }
# objects: all that there is in the namespace, but for what has happened there.
objects() { k get "$(kubectl api-resources --verbs=list --namespaced -o name | grep -v '^events' | paste -sd ,)" -o name 2>/dev/null | sort; }
# clean: all objects of loads are gone, and each kubectl that dyno has started.
clean() { [ "$(objects)" = "$beforehand" ] && ! pgrep -f "$folder/bin/kubectl .*port-forward" >/dev/null; }
# gone SECONDS: waits until they are.
gone() {
	local begin=$SECONDS
	within "$1" clean
	say "   $((SECONDS - begin)) s later nothing is left in the namespace"
}

# load FLAG...: dyno http. code is its exit code, and result its figures.
load() {
	code=0
	dyno http "${small[@]}" -q --json "$folder/result.json" "$@" >"$folder/out" 2>"$folder/err" || code=$?
}
# begin FLAG...: starts a load, and waits until nginx has answered 2,000 requests of it.
begin() {
	before=$(answered)
	dyno http "${small[@]}" -q "$@" "$url" >"$folder/out" 2>"$folder/err" &
	dyno=$!
	within 120 loading
}
loading() { [ $(($(answered) - before)) -gt 2000 ]; }
# expect CODE TEXT: how the load ended, and what it said.
expect() {
	sed 's/^/    /' "$folder/err"
	[ "$code" -eq "$1" ] || die "exit code $code, want $1"
	grep -qF "$2" "$folder/err" || die "no word of $2"
}

count() {
	local before
	before=$(answered)
	load --kubernetes 8 -n 40000 -c 64 http://target:18380/
	expect 0 "8 agents start as the Job"
	sleep 1 # nginx logs a request after it has answered it
	sed 's/^/    /' "$folder/out"
	say "== count: dyno counts $(of .counts.ok) ok of $(of .counts.scheduled), by $(of '.agents | length') agents; nginx has answered $(($(answered) - before))"
	[ "$(of .counts.ok) $(of .counts.scheduled) $(of '.agents | length') $(($(answered) - before))" = "40000 40000 8 40000" ] || die "count: a figure is wrong"
	gone 60
}
# of FILTER: what jq makes of the trial.
of() { jq -r "[.. | objects | select(.agents and .counts)][0] | $1" "$folder/result.json"; }

interrupt() {
	begin --kubernetes 8 -z 120s -c 64
	kill -INT $dyno
	code=0
	wait $dyno || code=$?
	say "== interrupt: exit code $code"
	expect 130 SIGINT
	sed -n 1,4p "$folder/out" | sed 's/^/    /'
	grep -q 'requests/s' "$folder/out" || die "interrupt: what was measured is not printed"
	gone 60
}

killed() {
	begin --kubernetes 8 -z 120s -c 64
	kill -KILL $dyno
	{ wait $dyno || true; } 2>/dev/null # it was killed
	say "== killed: in the middle of a load"
	within 5 no_forwards
	within 20 silent
	gone 180
	dyno http "${small[@]}" --kubernetes 8 --kubernetes-image nowhere:dev --kubernetes-timeout 5s "$url" >/dev/null 2>"$folder/err" &
	dyno=$!
	within 30 has_pods
	kill -KILL $dyno
	{ wait $dyno || true; } 2>/dev/null # it was killed
	say "== killed: while the agents start"
	gone 180
}
no_forwards() { ! pgrep -f "$folder/bin/kubectl .*port-forward" >/dev/null; }
has_pods() { [ "$(k get pod -o name | wc -l)" -eq 8 ]; }
# silent: nginx answers nothing in a second.
silent() {
	local n
	n=$(answered)
	sleep 1
	[ "$n" -eq "$(answered)" ]
}

lost() {
	local pod
	begin --kubernetes 8 -n 30000 -R 2000 -c 64 --json "$folder/result.json" --out "$folder/runs/lost"
	pod=$(k get pod -o name | shuf -n 1)
	k delete "$pod" --grace-period=0 --force --wait=false >/dev/null 2>&1
	code=0
	wait $dyno || code=$?
	say "== lost: ${pod#*/} is deleted after $(($(answered) - before)) requests at most; exit code $code"
	sed 's/^/    /' "$folder/err" "$folder/out"
	find "$folder/runs/lost" -name trial.json -exec cat {} + |
		jq -r '"   trial \(.number): complete \(.complete), \(.counts.ok) ok of \(.counts.scheduled) by \(.agents | length) agents"'
	[ "$code" -eq 0 ] || die "lost: exit code $code"
	find "$folder/runs/lost" -name trial.json -exec cat {} + | jq -rse 'any(.complete and .counts.ok == 30000 and (.agents | length) >= 7) and any(.complete | not)' >/dev/null ||
		die "lost: no trial was measured again"
	gone 60
}

refused() {
	k create quota few --hard=pods=3 >/dev/null
	say "== refused: a quota of 3 pods"
	load --kubernetes 8 -n 100 "$url"
	k delete quota few >/dev/null
	expect 2 "exceeded quota: few"
	gone 60
	say "== refused: an image that is not there"
	load --kubernetes 2 --kubernetes-image nowhere.invalid/dyno:1 -n 100 "$url"
	expect 2 ImagePullBackOff
	gone 60
	say "== refused: agents of 100 CPUs"
	load --kubernetes 2 --kubernetes-cpu 100 --kubernetes-timeout 5s -n 100 "$url"
	expect 2 "Insufficient cpu"
	gone 60
	say "== refused: what is no quantity"
	load --kubernetes 2 --kubernetes-cpu many -n 100 "$url"
	expect 2 "hint: --kubernetes-cpu"
	gone 5
	say "== refused: an image that is not of dyno"
	load --kubernetes 2 --kubernetes-image localhost/pause:1 -n 100 "$url"
	expect 2 "hint: --kubernetes-image"
	gone 60
}

rbac() {
	local all
	all=$beforehand
	k create serviceaccount bare >/dev/null
	dyno http --kubernetes-rbac --kubernetes-namespace load http://127.0.0.1:1/ | kubectl apply -f - >/dev/null
	beforehand=$(objects)
	for account in bare dyno-load; do
		(
			umask 077
			kubectl config view --raw --minify | sed "s/token: .*/token: $(k create token "$account")/" >"$folder/account.conf"
		)
		say "== rbac: as the service account $account"
		KUBECONFIG=$folder/account.conf load --kubernetes 2 -n 1000 "$url"
		if [ $account = bare ]; then
			expect 2 "hint: --kubernetes-rbac"
		else
			expect 0 "2 agents start"
			KUBECONFIG=$folder/account.conf kubectl -n load get secrets >/dev/null 2>&1 && die "rbac: it may read Secrets"
		fi
		gone 60
	done
	rm "$folder/account.conf"
	dyno http --kubernetes-rbac --kubernetes-namespace load http://127.0.0.1:1/ | kubectl delete -f - >/dev/null
	k delete serviceaccount bare >/dev/null
	beforehand=$all
}

incluster() {
	local job before
	image dyno-kubectl:dev "$folder/bin/dyno" -file "$folder/bin/kubectl"
	before=$(answered)
	dyno http --kubernetes-rbac --kubernetes-namespace load http://127.0.0.1:1/ | kubectl apply -f - >/dev/null
	k create configmap experiment --from-file=experiment.yaml=/dev/stdin <<-Y >/dev/null
		name: incluster
		target: {protocol: http, url: "$url"}
		load: {closed: {connections: 16}, requests: 10000, warmup: 0s}
		design: {rounds: 1, seed: 1}
	Y
	job=$(sed -e 's/cpu=500m/cpu=200m/' -e "s#^ *env:\$#&\n            - {name: PATH, value: $folder/bin}#" deploy/fleet/job-kubernetes.yaml | k create -f - -o name)
	within 180 job_ended
	say "== incluster: exit code $code; nginx has answered $(($(answered) - before))"
	k logs "$job" | sed -n "1,12s/^/    /p"
	[ "$code $(($(answered) - before))" = "0 10000" ] || die "incluster: a figure is wrong"
	k delete "$job" configmap/experiment >/dev/null
	dyno http --kubernetes-rbac --kubernetes-namespace load http://127.0.0.1:1/ | kubectl delete -f - >/dev/null
	gone 60
}
job_ended() { code=$(exit_code "job-name=${job#*/}"); }

for step in "${steps[@]}"; do
	[[ " count interrupt killed lost refused rbac incluster " == *" $step "* ]] || die "no step $step"
done
start dyno
use load
target
within 60 k get serviceaccount default >/dev/null
within 60 k get configmap kube-root-ca.crt >/dev/null
beforehand=$(objects)
for step in "${steps[@]}"; do
	"$step"
done
