#!/usr/bin/env bash
# Make the keys of a fleet in a folder, and FOLDER/secrets.yaml with the Secrets that the chart and queue workers need.
# A reader of the folder controls the fleet. The coordinators' certificate holds for 30 days: another call
# with the same folder makes another one, and keeps everything else.
#
#   deploy/fleet/secrets.sh FOLDER [NAMESPACE]      (dyno); needs dyno on PATH, and openssl
#   kubectl -n NAMESPACE apply -f FOLDER/secrets.yaml
set -euo pipefail
dir=${1:?a folder} namespace=${2:-dyno}
umask 077
mkdir -p "$dir"
cd "$dir"
rm -f fleet/member.pem
# The authority makes what is missing when it starts.
dyno fleet authority --listen 127.0.0.1:0 --folder fleet --token-file token >/dev/null 2>authority.log &
authority=$!
until [ -s token ] && [ -s fleet/member.pem ]; do
	kill -0 $authority 2>/dev/null || {
		cat authority.log >&2
		exit 1
	}
	sleep 0.1
done
kill $authority
wait $authority 2>/dev/null || true
rm authority.log

random() { od -An -vN 24 -tx1 /dev/urandom | tr -d ' \n'; }
# Who asks the control plane, with a token of its own each. Agents know nothing of tasks, and a submitter sees no plans.
for name in agent coordinator submitter worker manager admin; do
	[ -e $name.token ] || random >$name.token
done
[ -e control.crt ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=dyno-control \
	-addext "subjectAltName=DNS:dyno-control,DNS:dyno-control.$namespace,DNS:dyno-control.$namespace.svc" -keyout control.key -out control.crt 2>/dev/null
# principal NAME NAMESPACE=ROLE...
principal() {
	local grant
	printf '  - name: %s\n    token_sha256: %s\n    grants:\n' "$1" "$(sha256sum <"$1.token" | cut -d ' ' -f 1)"
	for grant in "${@:2}"; do
		printf '      - {namespace: %s, role: %s}\n' "${grant%%=*}" "${grant#*=}"
	done
}
{
	echo principals:
	principal agent fleet=editor fleet-trust=reader
	principal coordinator fleet=editor fleet-trust=reader
	principal submitter fleet-queue=writer
	principal worker fleet-queue=editor fleet=editor fleet-trust=reader
	principal manager fleet=editor fleet-trust=editor fleet-queue=writer
} >principals.yaml
cat >agent.yaml <<Y
join: dyno-authority:7200
join_token_file: /etc/dyno/join.token
Y

# secret NAME KEY=FILE...
secret() {
	local entry
	printf -- '---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata:\n' "$1"
	for entry in "${@:2}"; do
		printf '  %s: %s\n' "${entry%%=*}" "$(base64 <"${entry#*=}" | tr -d '\n')"
	done
}
{
	secret dyno-authority authority.pem=fleet/authority.pem token=token control.token=manager.token control.crt=control.crt
	secret dyno-control tls.crt=control.crt tls.key=control.key principals.yaml=principals.yaml admin.token=admin.token
	secret dyno-agent agent.yaml=agent.yaml join.token=token control.token=agent.token control.crt=control.crt
	secret dyno-coordinator member.pem=fleet/member.pem control.token=coordinator.token control.crt=control.crt
	secret dyno-worker member.pem=fleet/member.pem control.token=worker.token control.crt=control.crt
} >secrets.yaml
