#!/usr/bin/env bash
# The fleet of deploy/fleet on a Kubernetes of its own (scripts/kubernetes.sh): four agents, an observer, and two pods
# of nginx as the target, whose logs count what they answered. Prints what comes out; fails if a figure is wrong.
#
#   scripts/fleet-kubernetes.sh FOLDER [--release DIST] [STEP...]     load collect kills daemonset uninstall
#
#   --release  the images, the chart and dyno of a folder that scripts/release.sh has written, instead of those of this tree
#   load       an experiment as a Job loads both pods: percentiles, counts, and what the pods counted; their CPU time, and
#              what their control groups say
#   collect    the run folders are copied out of their volume, as the README of deploy/fleet says
#   kills      ten pods are killed while experiments run, agents, targets and observers: what becomes of each run
#   daemonset  the agents are one on each node from then on, and one carries the load
#   uninstall  nothing that the chart has made is left
#
# FOLDER has the cluster; what was built there is used again. Needs root, nginx, openssl and jq.
set -euo pipefail
# shellcheck source=scripts/kubernetes-common.sh
. "$(dirname "$0")/kubernetes-common.sh"
release='' tag=dev chart=deploy/fleet/chart
if [ "${1-}" = --release ]; then
	release=$(realpath "${2:?a folder of a release}")
	chart=$(echo "$release"/dyno-fleet-*.chart.tgz)
	tag=$(basename "$chart" .chart.tgz)
	tag=${tag#dyno-fleet-}
	shift 2
fi
steps=("$@")
[ $# -gt 0 ] || steps=(load collect kills daemonset uninstall)
agents=4

# released: dyno of the release, and its images.
released() {
	local program name
	name=dyno-$tag-linux-$(go env GOARCH)
	tar -xzf "$release/$name.tar.gz" -C "$folder/bin" --strip-components=2 "$name/bin/dyno"
	for program in dyno dyno-control; do
		scripts/kubernetes.sh image "$folder" "$release/$program-${name#dyno-}.image.tar" >/dev/null
	done
	say "release: $(basename "$chart"), $(sha256sum "$chart" | cut -d ' ' -f 1)"
}

# objects: all that there is in the namespace. What has happened there is no object of the chart.
objects() { k get "$(kubectl api-resources --verbs=list --namespaced -o name | grep -v '^events' | paste -sd ,)" -o name | sort; }

# install: the chart, with what its README has beforehand.
install() {
	local wrong
	use dyno control results
	deploy/fleet/secrets.sh "$folder/keys.d" "$namespace"
	k apply -f "$folder/keys.d/secrets.yaml" >/dev/null
	[ -x "$folder/bin/helm" ] || GOBIN=$folder/bin go install helm.sh/helm/v3/cmd/helm@v3.18.4
	helm lint --strict --quiet "$chart"
	beforehand=$(objects)
	helm -n "$namespace" install fleet "$chart" --set agents.kind=Deployment,agents.replicas=$agents,agents.resources.requests.cpu=50m,observers.enabled=true >/dev/null
	within 180 agents_ready
	wrong=$(k get pod -o json | jq -r --arg tag "$tag" '.items[].spec.containers[].image | select(endswith(":" + $tag) | not)')
	[ -z "$wrong" ] || die "install: images that are not of $tag: $wrong"
	[ -z "$release" ] || k exec deploy/dyno-authority -- /dyno version | grep -F "$tag"
	say "== install: $(k get pod -o json | jq -r '[.items[].spec.containers[].image] | group_by(.) | map("\(length) pods of \(.[0])") | join(", ")'); dyno fleet list:"
	fleet list | sed 's/^/    /'
}

fleet() { k exec deploy/dyno-authority -- /dyno fleet "$@" --identity /fleet; }

# agents_ready: all agents are there, the observer too, and nobody else.
agents_ready() { [ "$(fleet list 2>/dev/null | awk 'NR > 1 {print $(NF - 1)}' | sort | uniq -c | xargs)" = "$((agents + 1)) ready" ]; }

# targets: two pods that answer, each with a log of its own, which outlives it.
targets() {
	mkdir -p "$folder/answers"
	chmod 777 "$folder/answers"
	k apply -f - <<-Y >/dev/null
		apiVersion: v1
		kind: ConfigMap
		metadata: {name: web}
		data:
		  nginx.conf: |
		    worker_processes 1;
		    pid /tmp/nginx.pid;
		    events { worker_connections 4096; }
		    http {
		      client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi; uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
		      root /tmp;
		      log_format status '\$status';
		      access_log /answers/\$hostname status;
		      keepalive_requests 1000000000;
		      server {
		        listen 8080;
		        location / { return 200 "an answer\n"; }
		        location /ready { access_log off; return 200 "yes\n"; }
		      }
		    }
		---
		apiVersion: v1
		kind: Service
		metadata: {name: web}
		spec:
		  selector: {app: web}
		  ports: [{port: 80, targetPort: 8080}]
		---
		apiVersion: apps/v1
		kind: Deployment
		metadata: {name: web}
		spec:
		  replicas: 2
		  selector: {matchLabels: {app: web}}
		  template:
		    metadata: {labels: {app: web}}
		    spec:
		      automountServiceAccountToken: false
		      containers:
		        - name: nginx
		          image: nginx:dev
		          imagePullPolicy: Never
		          args: [-c, /etc/web/nginx.conf, -g, "daemon off;"]
		          readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
		          volumeMounts:
		            - {name: config, mountPath: /etc/web}
		            - {name: scratch, mountPath: /tmp}
		            - {name: answers, mountPath: /answers}
		      volumes:
		        - {name: config, configMap: {name: web}}
		        - {name: scratch, emptyDir: {}}
		        - {name: answers, hostPath: {path: "$folder/answers"}}
	Y
	k rollout status deploy/web --timeout=60s >/dev/null
}

# answered: how many requests the pods have answered well, those that are gone included.
answered() { cat "$folder"/answers/* 2>/dev/null | grep -c '^200$' || true; }

# used: the seconds of CPU time that the target's pods have used, by their control groups.
used() {
	local uid
	for uid in $(k get pod -l app=web -o jsonpath='{.items[*].metadata.uid}'); do
		if [ -d /sys/fs/cgroup/cpuacct ]; then
			find /sys/fs/cgroup/cpuacct -path "*/pod$uid/cpuacct.usage" -exec cat {} +
		else
			find /sys/fs/cgroup -path "*/pod$uid/cpu.stat" -exec sed -n 's/^usage_usec \(.*\)/\1000/p' {} +
		fi
	done | awk '{ sum += $1 } END { print sum / 1e9 }'
}

# begin REQUESTS: starts the experiment on standard input, whose trials have a number of requests, as a Job.
begin() {
	before=$(answered) want=$1
	k create configmap experiment --from-file=experiment.yaml=/dev/stdin --dry-run=client -o yaml | k apply -f - >/dev/null
	job=$(sed "s/dyno:dev/dyno:$tag/" deploy/fleet/job.yaml | k create -f - -o name)
}
# ended: the Job's pod has ended, with an exit code.
ended() { code=$(exit_code "job-name=${job#*/}"); }
# finish: waits for the Job. run is its folder then, and log what it said.
finish() {
	within 300 ended
	run=$folder/volumes/$(k get pvc dyno-results -o jsonpath='{.spec.volumeName}')/$(k get pod -l "job-name=${job#*/}" -o jsonpath='{.items[0].metadata.name}')
	log=$(k logs "$job")
	sleep 1 # the pods log a request after they have answered it
	served=$(($(answered) - before))
}
# of FILTER: what jq makes of the trials that stand, as a list.
of() {
	find "$run" -name trial.json -exec cat {} + |
		jq -rs --argjson want "$want" --argjson served "$served" --argjson agents $agents \
			'(map(select(.fault == "agent")) | length) as $void | map(select(.complete or .fault == "target")) | '"$1"
}

# faults: what is wrong with the figures of the run. A trial that stands has all requests that it is to have, from
# all agents, or from those that were left if one was lost before. The pods answered what dyno counts as answered; of a run that repeated no trial, dyno knows all that
# the pods answered.
# shellcheck disable=SC2016
faults() {
	of '.[] | select(.counts.scheduled != $want or (.conservation.ok | not)) | "trial \(.number): \(.counts.scheduled) requests, conservation \(.conservation.ok)"'
	of '.[] | select((.agents | length) < $agents - $void or ([.agents[].share] | add - 1 | fabs > 1e-9)) | "trial \(.number): shares of agents \([.agents[].share])"'
	of '(map(.counts.ok) | add // 0) | select(. > $served) | "\(.) requests are ok, and the pods answered \($served)"'
	[ "$(find "$run" -name trial.json | wc -l)" -ne "$(of length)" ] ||
		of '(map(.counts | .ok + .errors + .timeouts + .unfinished) | add // 0) | select(. < $served) | "\(.) requests in all, and the pods answered \($served)"'
}

load() {
	local wrong before_load
	before_load=$(used)
	begin 40000 <<-'Y'
		name: pods
		question: How long do two pods behind a service take to answer four agents?
		target: {protocol: http, url: "http://web/"}
		observe: {pods: app=web}
		load:
		  closed: {connections: 64}
		  requests: 40000
		  warmup: 0s
		design: {rounds: 3, seed: 1}
	Y
	finish
	say "$log" | sed 's/^/    /'
	say "== load: exit code $code, $(of 'map(.counts.ok) | add') ok of $(of 'map(.counts.scheduled) | add'), $(of 'map(.counts | .errors + .timeouts + .unfinished) | add') failed"
	of '.[] | "   trial \(.number): \(.pods // [] | map("\(.name) \(.cpu_seconds * 1000 | round) ms") | join(", ")) of CPU time in \(.window_seconds * 1000 | round) ms"'
	say "   all: $(of 'map(.target.cpu_seconds) | add * 1000 | round') ms in the windows; by the control groups $(jq -n "$(used) - $before_load | . * 1000 | round") ms during the Job"
	of '.[] | "   trial \(.number): p50 \(.times.service.p50_seconds * 1e6 | round) µs, p99 \(.times.service.p99_seconds * 1e6 | round) µs, by \([.agents[].name] | join(", "))"'
	for pod in "$folder"/answers/*; do
		say "   $(basename "$pod") has answered $(wc -l <"$pod")"
	done
	wrong=$(faults)
	[ "$served" -eq "$(of 'map(.counts.ok) | add')" ] || wrong+=" the pods answered $served"
	# The rest of their CPU time is between the windows.
	of 'map(.target.cpu_seconds) | add' | jq -e --argjson used "$(jq -n "$(used) - $before_load")" '. <= $used and . >= 0.7 * $used' >/dev/null ||
		wrong+=" the pods' CPU time"
	[ -z "$wrong" ] || die "load: $wrong"
}

collect() {
	local run volume to=$folder/collected
	image collect:dev /usr/bin/tar -file /usr/bin/tar -file /usr/bin/sleep
	k run collect --image=collect:dev --overrides='{"spec": {
		"containers": [{"name": "collect", "image": "collect:dev", "command": ["sleep", "600"], "volumeMounts": [{"name": "results", "mountPath": "/results"}]}],
		"volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "dyno-results"}}]}}' >/dev/null
	k wait --for=condition=Ready pod/collect --timeout=60s >/dev/null
	rm -rf "$to"
	k cp collect:/results "$to" >/dev/null
	k delete pod collect --now >/dev/null
	volume=$folder/volumes/$(k get pvc dyno-results -o jsonpath='{.spec.volumeName}')
	diff -r "$volume" "$to" || die "collect: the copy differs"
	for run in "$to"/*; do
		dyno report --full "$run" | sed -n '/^pods of the target/,/^$/p' | grep -q web- || die "collect: $run has no pods"
	done
	say "== collect: kubectl cp has copied $(find "$to" -name run.json | wc -l) runs, which are those in the volume, and dyno report reads them"
}

daemonset() {
	local wrong
	helm -n "$namespace" upgrade fleet "$chart" --reuse-values --set agents.kind=DaemonSet >/dev/null
	agents=1
	within 180 agents_ready
	begin 10000 <<-'Y'
		name: daemonset
		target: {protocol: http, url: "http://web/"}
		observe: {pods: app=web}
		load:
		  closed: {connections: 64}
		  requests: 10000
		  warmup: 0s
		design: {rounds: 1, seed: 1}
	Y
	finish
	say "== daemonset: exit code $code, $(of 'map(.counts.ok) | add') ok of $(of 'map(.counts.scheduled) | add'), by $(of 'map(.agents[].name) | unique | join(", ")')"
	wrong=$(faults)
	[ "$served" -eq "$(of 'map(.counts.ok) | add')" ] || wrong+=" the pods answered $served"
	[ -z "$wrong" ] || die "daemonset: $wrong"
}

# Ways to end a pod. With the third, its container ends and starts again.
delete() { k delete pod "$1" --grace-period=0 --force --wait=false >/dev/null 2>&1; }
evict() {
	printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s"}}' "$1" |
		kubectl create --raw "/api/v1/namespaces/$namespace/pods/$1/eviction" -f - >/dev/null
}
crash() { tasks kill -s SIGKILL "$(container "$1")"; }

loading() { [ $(($(answered) - before)) -gt 2000 ] || ended; }
# dead CONTAINER: it does not run.
dead() { ! tasks ls -q | grep -q "$1"; }

kills() {
	local ways=(delete evict crash) apps=(dyno-agent web dyno-observer) n=0 tries=0 way app pod container at wrong errors bad=0
	say "== kills: 8,000 requests in 8 s each, and a pod is killed after a quarter of them"
	while [ $n -lt 10 ]; do
		[ $((++tries)) -le 20 ] || die "kills: 20 runs, and the pod ended during the load in $n"
		way=${ways[n / 3 % 3]} app=${apps[n % 3]}
		within 120 agents_ready
		k rollout status deploy/web --timeout=60s >/dev/null
		begin 8000 <<-'Y'
			name: kills
			target: {protocol: http, url: "http://web/"}
			observe: {pods: app=web}
			load:
			  open: {rate: 1000/s, max_connections: 64}
			  requests: 8000
			  warmup: 0s
			design: {rounds: 1, seed: 1}
		Y
		within 120 loading
		pod=$(k get pod -l "app=$app" --field-selector=status.phase=Running -o name | shuf -n 1)
		pod=${pod#*/}
		container=$(container "$pod")
		$way "$pod"
		within 60 dead "$container"
		at=$(($(answered) - before))
		finish
		[ $at -lt 8000 ] || continue # it ended too late
		wrong=$(faults)
		# Of pods that were not there or not observed all the time, the CPU time is not known.
		[ "$app" = dyno-agent ] || [ "$app $way" = "web crash" ] || [ "$(of 'map(select(.target.cpu_seconds)) | length')" -eq 0 ] ||
			wrong+=" the CPU time of pods that changed"
		errors=$(of 'map(.counts.by_kind // {} | to_entries[]) | map("\(.key) \(.value)") | join(", ")')
		say "   $((++n)) $way $pod after $at requests: exit code $code, $(of length) of $(find "$run" -name trial.json | wc -l) trials stand, ok $(of 'map(.counts.ok) | add // 0'), pods $served, $(of 'map(.target.cpu_seconds | if . then "\(. * 1000 | round) ms of CPU time" else "CPU time not known" end) | join(", ")')${errors:+, $errors}"
		say "$log" | grep -m 1 '^dyno: ' | sed 's/^/      /' || true
		[ -z "$wrong" ] || {
			say "      wrong: $wrong"
			bad=$((bad + 1))
		}
	done
	say "   10 kills, $bad wrong figures"
	[ $bad -eq 0 ] || die "kills: $bad wrong figures"
}

# uninstalled: left is what the chart has left. A StatefulSet leaves the claims of its pods.
uninstalled() {
	left=$(comm -13 <(say "$beforehand") <(objects) | xargs)
	[ "$left" = persistentvolumeclaim/data-dyno-control-0 ]
}

uninstall() {
	k delete job --all >/dev/null
	k delete --ignore-not-found deploy/web service/web configmap/web configmap/experiment >/dev/null
	helm -n "$namespace" uninstall fleet >/dev/null
	within 120 uninstalled
	say "== uninstall: nothing is left but $left, of the control plane's StatefulSet"
}

for step in "${steps[@]}"; do
	[[ " load collect kills daemonset uninstall " == *" $step "* ]] || die "no step $step"
done
if [ -n "$release" ]; then
	start
	released
else
	start dyno dyno-control
fi
image nginx:dev /usr/sbin/nginx
install
targets
for step in "${steps[@]}"; do
	"$step"
done
