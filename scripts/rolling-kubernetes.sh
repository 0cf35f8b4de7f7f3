#!/usr/bin/env bash
# The manifests of the control plane and the bot gateway on a Kubernetes of their own (scripts/kubernetes.sh), three
# replicas each: one rolling update under load, over the service's address. Prints how many requests failed, and why;
# fails if what was written is not there afterwards.
#
#   scripts/rolling-kubernetes.sh FOLDER [STEP...]     control gateway
#
# FOLDER has the cluster; what was built there is used again. PostgreSQL is this machine's, on the node's address; Redis
# and the model server are pods. Needs root, redis, PostgreSQL, openssl and jq.
set -euo pipefail
# shellcheck source=scripts/kubernetes-common.sh
. "$(dirname "$0")/kubernetes-common.sh"
steps=("$@")
[ $# -gt 0 ] || steps=(control gateway)
node=10.88.1.1 postgres_port=25432

random() { od -An -vN 24 -tx1 /dev/urandom | tr -d ' \n'; }

# overlay MANIFEST KIND REPLICAS: applies a manifest with room for all replicas on this node.
overlay() {
	local dir=$folder/overlay
	rm -rf "$dir"
	mkdir "$dir"
	cat >"$dir/manifest.yaml"
	cat >"$dir/kustomization.yaml" <<-Y
		namespace: $namespace
		resources: [manifest.yaml]
		images: [{name: dyno-control, newTag: dev}, {name: dyno-bot, newTag: dev}]
		replicas: [{name: $2, count: 3}]
		patches:
		  - target: {kind: $1}
		    patch: '[{"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests", "value": {"cpu": "50m", "memory": "64Mi"}}]'
	Y
	kubectl apply -k "$dir" >/dev/null
}

# certificate FILE NAMES: FILE.crt, which is its own authority, and FILE.key.
certificate() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=test -addext "subjectAltName=$2" -keyout "$1.key" -out "$1.crt" 2>/dev/null
}

# roll WORKLOAD: updates a workload, pod by pod, while the experiment on standard input loads it from a pod, which finds
# what secret "client" has in /client. Prints what became of the requests; run is the run folder.
roll() {
	local began
	run=$folder/runs/$namespace
	mkdir -p "$run"
	chmod 777 "$run"
	k create configmap load --from-file=experiment.yaml=/dev/stdin >/dev/null
	k apply -f - <<-Y >/dev/null
		apiVersion: v1
		kind: Pod
		metadata: {name: load, labels: {app: load}}
		spec:
		  restartPolicy: Never
		  automountServiceAccountToken: false
		  containers:
		    - name: dyno
		      image: dyno:dev
		      imagePullPolicy: Never
		      args: [run, -q, --out=/runs/run, /load/experiment.yaml]
		      volumeMounts:
		        - {name: load, mountPath: /load}
		        - {name: client, mountPath: /client}
		        - {name: runs, mountPath: /runs}
		  volumes:
		    - {name: load, configMap: {name: load}}
		    - {name: client, secret: {secretName: client}}
		    - {name: runs, hostPath: {path: "$run"}}
	Y
	k wait --for=condition=Ready pod/load --timeout=60s >/dev/null
	sleep 10
	began=$SECONDS
	k rollout restart "$1" >/dev/null
	k rollout status "$1" --timeout=5m >/dev/null
	say "== $namespace: three replicas were replaced in $((SECONDS - began)) s"
	sleep 5
	tasks kill -s SIGINT "$(container load)"
	within 60 exit_code app=load >/dev/null
	of '"   \(.sent) requests, \(.ok) ok; \(.errors) failed, \(.timeouts) timed out, \(.unfinished) under way at the end, \(.dropped) not sent for want of a connection",
		"   why: \(.by_kind // {} | to_entries | map("\(.key) \(.value)") | join(", ") | if . == "" then "none failed" else . end); by status: \(.by_status // {} | to_entries | map("\(.key) \(.value)") | join(", "))"'
	find "$run" -name trial.json -exec cat {} + | jq -r '.failures // {} | to_entries[] | "   \(.value) × \(.key)"'
}
# of FILTER: what jq makes of the counts of the run.
of() { find "$run" -name trial.json -exec cat {} + | jq -r ".counts | $1"; }

control() {
	local token keys=$folder/keys.d written
	use control 0 1 2
	token=$(random)
	mkdir -p "$keys"
	cat >"$keys/principals.yaml" <<-Y
		principals:
		  - name: admin
		    token_sha256: $(printf %s "$token" | sha256sum | cut -d ' ' -f 1)
		    grants: [{namespace: "*", role: admin}]
	Y
	certificate "$keys/tls" DNS:control.control.svc
	certificate "$keys/peer" DNS:control-0.control-peers,DNS:control-1.control-peers,DNS:control-2.control-peers
	k create secret generic control-principals --from-file="$keys/principals.yaml" >/dev/null
	k create secret generic control-admin --from-literal=token="$(random)" >/dev/null
	k create secret tls control-tls --cert="$keys/tls.crt" --key="$keys/tls.key" >/dev/null
	k create secret generic control-peer-tls --from-file=ca.crt="$keys/peer.crt" --from-file=tls.crt="$keys/peer.crt" --from-file=tls.key="$keys/peer.key" >/dev/null
	k create secret generic client --from-file=ca.crt="$keys/tls.crt" >/dev/null
	overlay StatefulSet control <deploy/control/kubernetes.yaml
	k rollout status statefulset/control --timeout=3m >/dev/null
	roll statefulset/control <<-Y
		name: control
		target: {protocol: http, url: "https://control.control.svc:7100/", tls: {ca: /client/ca.crt}}
		load:
		  open: {rate: 200/s, max_connections: 32}
		  scenario:
		    steps:
		      - name: write
		        method: POST
		        path: /v1/policies
		        headers: {Content-Type: application/json, Authorization: Bearer $token}
		        body: '{"name":"p{{ counter() }}","rules":[{"action":"allow"}]}'
		        status: 201
		  warmup: 0s
		  window: 10m
		design: {rounds: 1, seed: 1}
	Y
	written=$(policies "$token")
	say "   $written policies are there"
	[ "$written" -ge "$(of .ok)" ] || die "control: policies that were acknowledged are lost"
}
# policies TOKEN: counts them.
policies() {
	local page after='' n=0
	while
		page=$(curl -fsS --cacert "$folder/keys.d/tls.crt" --resolve "control.control.svc:7100:$(k get service control -o jsonpath='{.spec.clusterIP}')" \
			-H "Authorization: Bearer $1" -G -d limit=1000 ${after:+--data-urlencode "after=$after"} https://control.control.svc:7100/v1/policies)
		n=$((n + $(jq '.items | length' <<<"$page")))
		after=$(jq -r '.next // ""' <<<"$page")
		[ -n "$after" ]
	do :; done
	echo $n
}

# postgres: one of this machine, until this script ends.
postgres() {
	local bin dir=$folder/postgres
	bin=$(dirname "$(find /usr/lib/postgresql -path '*/bin/initdb' | sort | tail -n 1)")
	rm -rf "$dir"
	mkdir "$dir"
	chown postgres "$dir"
	setpriv --reuid postgres --regid postgres --clear-groups "$bin/initdb" -D "$dir/data" -A trust -U postgres >/dev/null
	echo "host all all 10.88.0.0/24 trust" >>"$dir/data/pg_hba.conf"
	setpriv --reuid postgres --regid postgres --clear-groups "$bin/postgres" -D "$dir/data" -k "$dir" -p $postgres_port -c listen_addresses=$node >"$dir/log" 2>&1 &
	postgres=$!
	trap 'kill -INT $postgres; wait $postgres || true; scripts/kubernetes.sh down "$folder"' EXIT
	within 30 "$bin/pg_isready" -q -h $node -p $postgres_port
}

gateway() {
	local key
	use bot
	key=$(random)
	postgres
	image redis:dev /usr/bin/redis-server
	k create secret generic client >/dev/null
	k create secret generic dyno-bot --from-literal=admin.secret="$(random)" --from-literal=token.secret="$(random)" \
		--from-literal=postgres.secret="host=$node port=$postgres_port user=postgres dbname=postgres sslmode=disable" >/dev/null
	server redis redis:dev 6379 --bind 0.0.0.0 --protected-mode no --save "" --dir /tmp
	server model dyno:dev 9000 serve llm --listen 0.0.0.0:9000 --allow-remote --first-token 100ms --inter-token 5ms
	sed -e "s/\"0\\{64\\}\"/\"$(printf %s "$key" | sha256sum | cut -d ' ' -f 1)\"/" -e 's/amount: 600,/amount: 600000,/' deploy/bot/kubernetes.yaml | overlay Deployment dyno-bot
	k rollout status deployment/dyno-bot --timeout=3m >/dev/null
	roll deployment/dyno-bot <<-Y
		name: gateway
		target: {protocol: http, url: "http://dyno-bot/"}
		load:
		  open: {rate: 20/s, max_connections: 64}
		  scenario:
		    steps:
		      - name: ask
		        method: POST
		        path: /v1/bot/chat
		        headers: {Content-Type: application/json, Authorization: Bearer $key}
		        body: '{"bot_id":"b","user_id":"u{{ counter() }}","query":"hello"}'
		        status: 200
		  warmup: 0s
		  window: 10m
		design: {rounds: 1, seed: 1}
	Y
}
# server NAME IMAGE PORT ARGUMENT...: a pod and a service of the name.
server() {
	local args
	args=$(printf '"%s", ' "${@:4}")
	k apply -f - <<-Y >/dev/null
		---
		{apiVersion: v1, kind: Service, metadata: {name: $1}, spec: {selector: {app: $1}, ports: [{port: $3}]}}
		---
		{apiVersion: v1, kind: Pod, metadata: {name: $1, labels: {app: $1}}, spec: {containers: [
		  {name: $1, image: "$2", imagePullPolicy: Never, args: [$args], volumeMounts: [{name: tmp, mountPath: /tmp}]}], volumes: [{name: tmp, emptyDir: {}}]}}
	Y
}

for step in "${steps[@]}"; do
	[[ " control gateway " == *" $step "* ]] || die "no step $step"
done
start dyno dyno-control dyno-bot
for step in "${steps[@]}"; do
	"$step"
done
