#!/usr/bin/env bash
# A Kubernetes of one node on this machine, for tests with manifests: API server, controllers,
# scheduler, kubelet, kube-proxy and CoreDNS are built from their Go modules; containerd, runc,
# network plugins and etcd are Debian's. All listen on loopback, or on the node's address, 10.88.1.1,
# which only this machine and its pods reach. Pods have addresses in 10.88.0.0/24, on this machine only.
# Needs root. The first start builds for minutes and takes 2 GB of disk; later ones take 20 s.
#
#   scripts/kubernetes.sh up FOLDER             build, start, wait until the node is ready
#   scripts/kubernetes.sh image FOLDER ARCHIVE  load an image that scripts/image has written
#   scripts/kubernetes.sh volume FOLDER NAME    make a volume for the next claim: FOLDER/volumes/NAME
#   scripts/kubernetes.sh down FOLDER           delete all pods, end all programs, unmount
#   export KUBECONFIG=FOLDER/kubeconfig PATH=FOLDER/bin:$PATH    for kubectl
#
# The kubelet starts the static pods in FOLDER/manifests.
# What it has not: volumes that are provisioned, network policies, cgroups of version 2 where the
# machine has version 1.
set -euo pipefail
version=1.33.4 dns=1.12.1 node=10.88.1.1 port=26443 etcd=23790
usage() {
	sed -n '8,12s/^# *//p' "$0" >&2
	exit 2
}
case ${1-}:$# in
up:2 | down:2 | image:3 | volume:3) ;;
*) usage ;;
esac
folder=$(realpath -m "$2")
[ "$1" != image ] || archive=$(realpath "$3")
mkdir -p "$folder"
cd "$folder"

build() {
	local part staged
	if ! { command -v containerd && command -v runc && command -v etcd && command -v nft && [ -d /usr/lib/cni ]; } >/dev/null; then
		apt-get install -y -qq -o DPkg::Lock::Timeout=120 containerd runc containernetworking-plugins etcd-server nftables >/dev/null
	fi
	[ ! -x bin/coredns ] || return 0
	mkdir -p build bin
	cd build
	# The module names its parts by folders of its own repository: here they are modules of the same release.
	printf 'module cluster\n\ngo 1.26\n\nrequire k8s.io/kubernetes v%s\n' "$version" >go.mod
	staged=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
	sed -n 's#^\s*\(k8s.io/[a-z-]*\) => ./staging.*#\1#p' "$staged" | while read -r part; do
		echo "replace $part => $part v0.${version#1.}"
	done >>go.mod
	{
		printf '//go:build tools\n\npackage tools\n\nimport (\n'
		for part in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
			printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' "$part"
		done
		echo ')'
	} >tools.go
	go mod tidy
	for part in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
		CGO_ENABLED=0 go build -o ../bin/ "k8s.io/kubernetes/cmd/$part"
	done
	# CoreDNS with the plugins that are used, and without those for clouds. It comes last: if it is there, all are.
	mkdir -p dns
	cd dns
	printf 'module dns\n\ngo 1.26\n' >go.mod
	cat >main.go <<-'G'
		package main

		import (
			"github.com/coredns/coredns/coremain"
			_ "github.com/coredns/coredns/plugin/bind"
			_ "github.com/coredns/coredns/plugin/errors"
			_ "github.com/coredns/coredns/plugin/kubernetes"
		)

		func main() { coremain.Run() }
	G
	go get "github.com/coredns/coredns/coremain@v$dns" "github.com/coredns/coredns/plugin/"{bind,errors,kubernetes}"@v$dns"
	CGO_ENABLED=0 go build -o ../../bin/coredns .
	cd ../..
}

# pause ARCHIVE: the image of a pod's first container, which holds its namespaces and does nothing else.
pause() {
	local root=pause-image layer config
	rm -rf $root
	mkdir -p $root/layer
	cat >$root/main.go <<-'G'
		package main

		import (
			"os"
			"os/signal"
			"syscall"
		)

		func main() {
			end := make(chan os.Signal, 1)
			signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
			<-end
		}
	G
	CGO_ENABLED=0 go build -o $root/layer/pause $root/main.go
	tar -C $root/layer -cf $root/layer.tar pause
	layer=$(sha256sum <$root/layer.tar | cut -d ' ' -f 1)
	config='{"architecture":"'$(go env GOARCH)'","os":"linux","config":{"Entrypoint":["/pause"]},"rootfs":{"type":"layers","diff_ids":["sha256:'$layer'"]}}'
	printf %s "$config" >$root/config.json
	echo '[{"Config":"config.json","RepoTags":["localhost/pause:1"],"Layers":["layer.tar"]}]' >$root/manifest.json
	tar -C $root -cf "$1" config.json layer.tar manifest.json
	rm -r $root
}

load() {
	ctr -a "$folder/containerd.sock" -n k8s.io images import "$1"
}

# start NAME COMMAND...: run it in the background; its output is in NAME.log, its id in NAME.pid.
start() {
	setsid "${@:2}" >"$1.log" 2>&1 </dev/null &
	echo $! >"$1.pid"
}

# await COMMAND...: wait until it succeeds, for a minute.
await() {
	local tries
	for ((tries = 0; tries < 120; tries++)); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.5
	done
	echo "kubernetes: after a minute there is still no: $*; see $folder/*.log" >&2
	return 1
}

ask() {
	bin/kubectl --kubeconfig kubeconfig "$@"
}

configure() {
	mkdir -p keys cni manifests
	[ -e keys/account.key ] || openssl genrsa -out keys/account.key 2048 2>/dev/null
	# The kubelet knows the API server, which asks it for logs and commands, by this certificate.
	[ -e keys/client.crt ] || openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=apiserver -keyout keys/client.key -out keys/client.crt 2>/dev/null
	(
		umask 077
		[ -e token ] || od -An -vN 24 -tx1 /dev/urandom | tr -d ' \n' >token
		echo "$(cat token),admin,admin,system:masters" >tokens.csv
		cat >kubeconfig <<-Y
			apiVersion: v1
			kind: Config
			clusters: [{name: local, cluster: {server: "https://$node:$port", insecure-skip-tls-verify: true}}]
			users: [{name: admin, user: {token: $(cat token)}}]
			contexts: [{name: local, context: {cluster: local, user: admin}}]
			current-context: local
		Y
	)
	cat >containerd.toml <<-T
		version = 2
		root = "$folder/containerd"
		state = "$folder/containerd-state"
		[grpc]
		  address = "$folder/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "localhost/pause:1"
		  # In a container, nobody may make a process less likely to be killed.
		  restrict_oom_score_adj = true
		  [plugins."io.containerd.grpc.v1.cri".containerd]
		    snapshotter = "native"
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$folder/cni"
	T
	cat >cni/10-pods.conflist <<-J
		{"cniVersion": "0.4.0", "name": "pods", "plugins": [
		  {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "subnet": "10.88.0.0/24", "routes": [{"dst": "$node/32"}, {"dst": "10.99.0.0/24"}]}}]}
	J
	cat >kubelet.yaml <<-Y
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $node
		healthzBindAddress: 127.0.0.1
		authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $folder/keys/client.crt}}
		authorization: {mode: AlwaysAllow}
		cgroupDriver: cgroupfs
		failSwapOn: false
		failCgroupV1: false
		containerRuntimeEndpoint: unix://$folder/containerd.sock
		evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
		enforceNodeAllocatable: []
		localStorageCapacityIsolation: false
		makeIPTablesUtilChains: false
		staticPodPath: $folder/manifests
		clusterDomain: cluster.local
		clusterDNS: [$node]
	Y
	cat >Corefile <<-C
		cluster.local {
		  bind $node
		  errors
		  kubernetes cluster.local {
		    kubeconfig $folder/kubeconfig local
		    ttl 1
		  }
		}
	C
}

up() {
	build
	configure
	ip address add $node/32 dev lo 2>/dev/null || true # it is there already
	start containerd containerd -c containerd.toml
	start etcd etcd --data-dir etcd --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
		--listen-peer-urls "http://127.0.0.1:$((etcd + 10))"
	await ctr -a "$folder/containerd.sock" version
	pause pause.tar
	load pause.tar >/dev/null
	rm -f keys/apiserver.* # its certificate has its addresses
	start apiserver bin/kube-apiserver --etcd-servers "http://127.0.0.1:$etcd" --bind-address=$node --secure-port=$port --cert-dir=keys \
		--token-auth-file=tokens.csv --authorization-mode=RBAC --service-cluster-ip-range=10.99.0.0/24 \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file=keys/account.key --service-account-signing-key-file=keys/account.key \
		--kubelet-client-certificate=keys/client.crt --kubelet-client-key=keys/client.key --kubelet-preferred-address-types=InternalIP
	await ask get --raw /readyz
	start controllers bin/kube-controller-manager --kubeconfig kubeconfig --service-account-private-key-file=keys/account.key --root-ca-file=keys/apiserver.crt \
		--use-service-account-credentials=false --controllers='*,-bootstrapsigner,-tokencleaner' --leader-elect=false --bind-address=127.0.0.1 --cert-dir=keys
	start scheduler bin/kube-scheduler --kubeconfig kubeconfig --leader-elect=false --bind-address=127.0.0.1 --cert-dir=keys
	start kubelet bin/kubelet --config kubelet.yaml --kubeconfig kubeconfig --root-dir "$folder/kubelet" --cert-dir keys --hostname-override node --node-ip $node
	await ask get node node
	# 0: the machine's limits of connections that are tracked stay as they are.
	start proxy bin/kube-proxy --kubeconfig kubeconfig --proxy-mode nftables --hostname-override node --cluster-cidr 10.88.0.0/24 --bind-address $node \
		--metrics-bind-address 127.0.0.1:10249 --healthz-bind-address 127.0.0.1:10256 --nodeport-addresses $node/32 \
		--conntrack-max-per-core 0 --conntrack-min 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
	start dns bin/coredns -conf Corefile
	await ask wait --for=condition=Ready node/node --timeout=60s
	await ask get serviceaccount default
	ask apply -f - <<-Y
		apiVersion: storage.k8s.io/v1
		kind: StorageClass
		metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
		provisioner: kubernetes.io/no-provisioner
		volumeBindingMode: WaitForFirstConsumer
	Y
	ask get nodes
}

# volume NAME: a folder of this machine that a claim can have.
volume() {
	mkdir -p "$folder/volumes/$1"
	ask apply -f - <<-Y
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: $1}
		spec:
		  storageClassName: local
		  capacity: {storage: 20Gi}
		  accessModes: [ReadWriteOnce]
		  local: {path: "$folder/volumes/$1"}
		  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
	Y
}

# idle: no container runs.
idle() {
	[ -z "$(ctr -a "$folder/containerd.sock" -n k8s.io tasks ls -q)" ]
}

down() {
	local name mount
	rm -f manifests/*
	if [ -e apiserver.pid ]; then
		ask delete deploy,statefulset,daemonset,job,pod --all --all-namespaces --wait=false --grace-period=1 >/dev/null 2>&1 || true
		await idle || true
	fi
	for name in dns proxy kubelet scheduler controllers apiserver etcd containerd; do
		[ -e $name.pid ] || continue
		kill "$(cat $name.pid)" 2>/dev/null || true
		tail --pid="$(cat $name.pid)" -f /dev/null 2>/dev/null
		rm $name.pid
	done
	# What is mounted last is below what is mounted first.
	awk -v folder="$folder/" 'index($2, folder) == 1 {print $2}' /proc/mounts | sort -r | while read -r mount; do
		umount "$mount"
	done
	for name in ip ip6; do
		nft delete table $name kube-proxy 2>/dev/null || true # the proxy leaves its rules
	done
	ip address delete $node/32 dev lo 2>/dev/null || true
}

case $1 in
up) up ;;
image) load "$archive" ;;
volume) volume "$3" ;;
down) down ;;
esac
