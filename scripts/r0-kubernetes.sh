#!/usr/bin/env bash
# Claims R0.1 and R0.2 of report R0 in an environment like the report's: the control plane as a StatefulSet of three,
# etcd as three static pods, the load as a Job, on a Kubernetes of their own (scripts/kubernetes.sh). Then the same
# programs without Kubernetes. Prints a table of both. The experiments are those of experiments/reports, against a control
# plane that runs already, and without CPUs of its own.
#
#   scripts/r0-kubernetes.sh FOLDER [OPTION...]     options of dyno run, such as --set rounds=3
#
# In both, connections go to one replica or another by a rule of nftables: kube-proxy's, or one like it. FOLDER has the
# cluster, which is used again, and the run folders: FOLDER/r0. Takes 10 minutes. Needs root, etcd, nft and jq.
set -euo pipefail
# shellcheck source=scripts/kubernetes-common.sh
. "$(dirname "$0")/kubernetes-common.sh"
options=("$@")
experiments=(R0-load R0-stages R0-push)
r0=$folder/r0 started=()
token=$(od -An -vN 24 -tx1 /dev/urandom | tr -d ' \n')

# etcd_arguments NUMBER ADDRESS: those of one of three.
etcd_arguments() {
	local i members=''
	for i in 0 1 2; do
		members+=${members:+,}etcd-$i=http://$2:$((24791 + 2 * i))
	done
	echo "--name=etcd-$1 --listen-client-urls=http://$2:$((24790 + 2 * $1)) --advertise-client-urls=http://$2:$((24790 + 2 * $1))" \
		"--listen-peer-urls=http://$2:$((24791 + 2 * $1)) --initial-advertise-peer-urls=http://$2:$((24791 + 2 * $1)) --initial-cluster=$members --quota-backend-bytes=8589934592"
}
# control_arguments ADDRESS-OF-ETCD
control_arguments() {
	echo "--allow-remote --plain-http --principals=$r0/keys/principals.yaml --max-policies=100000000 --gc-percent=50 --drain-timeout=2s --etcd=$1:24790,$1:24792,$1:24794"
}
# list WORD...: as in YAML.
list() { printf '%s\n' "$@" | jq -Rnc '[inputs]'; }

# experiment NAME HOST:PORT: one of the reports', against a control plane that runs already, and keeps what earlier trials
# wrote: policies have other names in each.
experiment() {
	local target="target: {protocol: http, url: \"http://$2/\"}"
	[ "$1" != R0-push ] || target="target:
  protocol: program
  start: [$folder/bin/control-load, push, --token-file, $r0/keys/token, --url, \"http://$2\", --subscribers, \"{{subscribers}}\", --rate, \"{{rate}}\", --for, \"{{length}}\"]
  timeout: 2m"
	awk -v target="$target" '
		/^(target|services|awake):/ { if (/^target/) print target; skip = 1; next }
		/^[^ ]/ { skip = 0 }
		skip || /^  cpus:/ { next }
		{ print }' "experiments/reports/$1.yaml" |
		sed -e "s/headers: {/headers: {Authorization: Bearer $token, /" \
			-e 's/"name":"p{{ counter() }}"/"name":"p{{ timestamp() }}-{{ counter() }}"/'
}

in_kubernetes() {
	local i name node=10.88.1.1
	start dyno dyno-control
	image r0:dev "$folder/bin/dyno" -file "$folder/bin/control-load"
	image etcd:dev /usr/bin/etcd
	# shellcheck disable=SC2046 # the arguments are words
	for i in 0 1 2; do
		cat >"$folder/manifests/etcd-$i.yaml" <<-Y
			apiVersion: v1
			kind: Pod
			metadata: {name: etcd-$i, namespace: kube-system}
			spec:
			  hostNetwork: true
			  containers:
			    - name: etcd
			      image: etcd:dev
			      imagePullPolicy: Never
			      args: $(list --data-dir=/data $(etcd_arguments $i $node))
			      securityContext: {runAsUser: 0}
			      volumeMounts: [{name: data, mountPath: /data}]
			  volumes: [{name: data, hostPath: {path: "$r0/etcd-pod-$i", type: DirectoryOrCreate}}]
		Y
	done
	use r0
	k create secret generic keys --from-file="$r0/keys" >/dev/null
	# shellcheck disable=SC2046,SC2016 # the arguments are words, and the kubelet knows the pod's name
	k apply -f - <<-Y >/dev/null
		apiVersion: v1
		kind: Service
		metadata: {name: control}
		spec: {selector: {app: control}, ports: [{port: 7100}]}
		---
		apiVersion: apps/v1
		kind: StatefulSet
		metadata: {name: control}
		spec:
		  serviceName: control
		  replicas: 3
		  podManagementPolicy: Parallel
		  selector: {matchLabels: {app: control}}
		  template:
		    metadata: {labels: {app: control}}
		    spec:
		      automountServiceAccountToken: false
		      securityContext: {fsGroup: 65532}
		      containers:
		        - name: control
		          image: dyno-control:dev
		          imagePullPolicy: Never
		          args: $(list --listen=0.0.0.0:7100 '--replica=$(POD_NAME)' $(control_arguments $node))
		          env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
		          readinessProbe: {tcpSocket: {port: 7100}, periodSeconds: 2}
		          volumeMounts: [{name: keys, mountPath: "$r0/keys"}]
		      volumes: [{name: keys, secret: {secretName: keys, defaultMode: 0440}}]
	Y
	k rollout status statefulset/control --timeout=3m >/dev/null
	mkdir -p "$r0/kubernetes"
	chmod 777 "$r0/kubernetes"
	for name in "${experiments[@]}"; do
		experiment "$name" control:7100 | k create configmap "${name,,}" --from-file="$name.yaml=/dev/stdin" >/dev/null
		k apply -f - <<-Y >/dev/null
			apiVersion: batch/v1
			kind: Job
			metadata: {name: ${name,,}}
			spec:
			  backoffLimit: 0
			  template:
			    spec:
			      restartPolicy: Never
			      automountServiceAccountToken: false
			      securityContext: {fsGroup: 65532}
			      containers:
			        - name: dyno
			          image: r0:dev
			          imagePullPolicy: Never
			          args: $(list run -q --no-color "${options[@]}" "--out=/runs/$name" "/experiment/$name.yaml")
			          volumeMounts:
			            - {name: experiment, mountPath: /experiment}
			            - {name: keys, mountPath: "$r0/keys"}
			            - {name: runs, mountPath: /runs}
			      volumes:
			        - {name: experiment, configMap: {name: ${name,,}}}
			        - {name: keys, secret: {secretName: keys, defaultMode: 0440}}
			        - {name: runs, hostPath: {path: "$r0/kubernetes"}}
		Y
		within 600 exit_code "job-name=${name,,}" >/dev/null
		[ -e "$r0/kubernetes/$name/run.json" ] || die "$name: $(k logs "job/${name,,}")"
	done
	scripts/kubernetes.sh down "$folder"
}

without_kubernetes() {
	local i name
	trap stop EXIT
	for i in 0 1 2; do
		# shellcheck disable=SC2046 # the arguments are words
		etcd --data-dir="$r0/etcd-$i" $(etcd_arguments $i 127.0.0.1) >"$r0/etcd-$i.log" 2>&1 &
		started+=($!)
		# shellcheck disable=SC2046
		dyno-control --listen="127.0.1.$((i + 1)):7100" --replica="control-$i" $(control_arguments 127.0.0.1) >"$r0/control-$i.log" 2>&1 &
		started+=($!)
	done
	nft -f - <<-N
		table ip r0 {
		  chain output {
		    type nat hook output priority -100;
		    ip daddr 127.0.1.9 tcp dport 7100 dnat to numgen random mod 3 map { 0 : 127.0.1.1, 1 : 127.0.1.2, 2 : 127.0.1.3 }
		  }
		}
	N
	for i in 1 2 3; do
		within 60 curl -fso /dev/null -H "Authorization: Bearer $token" "http://127.0.1.$i:7100/v1/status"
	done
	for name in "${experiments[@]}"; do
		experiment "$name" 127.0.1.9:7100 >"$r0/$name.yaml"
		dyno run -q --no-color "${options[@]}" --out="$r0/without/$name" "$r0/$name.yaml" >"$r0/$name.log" 2>&1 || [ -e "$r0/without/$name/run.json" ] || die "$name: $(cat "$r0/$name.log")"
	done
	stop
	trap - EXIT
}
stop() {
	nft delete table ip r0 2>/dev/null || true
	kill "${started[@]}" 2>/dev/null || true
	wait
}

# claims FOLDER: a claim and what came of it a line.
claims() {
	cat "$1"/*/run.json | jq -r '
		def figure($id): if $id | test("users|more") then "\(. | round)/s" elif $id | test("stages") then "\(. * 10000 | round / 100) %"
			elif $id | test("complete") then "\(.)" else "\(. * 10000 | round / 10) ms" end;
		.claims[]? | .id as $id | select($id | test("^R0[.][12]/")) |
		"\($id)\t\(.outcome): \(if .measured then .measured | figure($id) else "?" end)\(if .low and .high then " (\(.low | figure($id)) … \(.high | figure($id)))" else "" end)"' | sort
}

rm -rf "$r0"
mkdir -p "$r0/keys"
printf %s "$token" >"$r0/keys/token"
cat >"$r0/keys/principals.yaml" <<Y
principals:
  - name: load
    token_sha256: $(printf %s "$token" | sha256sum | cut -d ' ' -f 1)
    grants: [{namespace: default, role: editor}]
Y
mkdir -p "$folder/bin"
go build -ldflags='-s -w' -o "$folder/bin/control-load" ./experiments/bench/control
in_kubernetes
without_kubernetes
say '| claim | in Kubernetes | without |'
say '| --- | --- | --- |'
join -t $'\t' <(claims "$r0/kubernetes") <(claims "$r0/without") | sed 's/\t/ | /g; s/^/| /; s/$/ |/'
