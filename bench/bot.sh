# Sourced by benchmarks of the bot gateway.

bot_key=bench-0123456789abcdef0123456789abcdef

# bot_config PORT MODEL-PORT FILE: prints a gateway's configuration with authentication, limits of
# all three resources, prices and a ledger: SQLite in FILE. Its admin listener is on the next port.
bot_config() {
	cat <<CONF
listen: 127.0.0.1:$1
admin: 127.0.0.1:$(($1 + 1))
keys:
  - id: bench
    sha256: $(printf %s "$bot_key" | sha256sum | cut -d' ' -f1)
    limits:
      - {resource: requests, amount: 1000000000, window: 1h}
      - {resource: tokens, amount: 1000000000000, window: 24h}
      - {resource: money, amount: 1000000000000000}
allow_networks: [127.0.0.0/8]
upstreams:
  - {name: model, url: "http://127.0.0.1:$2/v1", models: {dyno-1: dyno-1}, max_concurrent: 20000, price: {prompt: 500, completion: 1500}}
max_concurrent: 20000
archive: sqlite
file: $3
CONF
}

# on CPUS COMMAND…: starts a program on those CPUs; its process is $started. What it says goes to
# $dir/log. The caller's trap ends those in $running.
running=()
on() {
	local cpus=$1
	shift
	taskset -c "$cpus" "$@" >>"$dir/log" 2>&1 &
	started=$!
	running+=("$started")
}

# postgres is the folder of PostgreSQL's programs.
postgres=$(compgen -G '/usr/lib/postgresql/*/bin' | tail -n 1 || true)
postgres=${postgres:-/usr/lib/postgresql}

# on_postgres CPUS PORT: starts PostgreSQL in $dir/pg, for the user bot and without a password; its process is $started.
# It does not run as root.
on_postgres() {
	local as=()
	mkdir "$dir/pg"
	if [ "$(id -u)" -eq 0 ]; then
		as=(setpriv --reuid postgres --regid postgres --clear-groups)
		chmod 755 "$dir"
		chown postgres "$dir/pg"
	fi
	"${as[@]}" "$postgres/initdb" -D "$dir/pg/data" -A trust -U bot >>"$dir/log" 2>&1
	on "$1" "${as[@]}" "$postgres/postgres" -D "$dir/pg/data" -k "$dir/pg" -p "$2" -c listen_addresses=127.0.0.1
}

# ready PORT…: waits until all of them accept connections.
ready() {
	local port tries
	for port; do
		for ((tries = 0; tries < 600; tries++)); do
			(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue 2
			sleep 0.1
		done
		echo "$(basename "$0" .sh): nothing listens on port $port:" >&2
		tail -n 20 "$dir/log" >&2
		exit 1
	done
}

# cpu_of PROCESS: the CPU time that it has used, in seconds, exact to 0.02 s.
cpu_of() { sed 's/.*) //' "/proc/$1/stat" | awk '{print ($12 + $13) / 100}'; }

# metric PORT NAME: a metric of a program without its labels, summed up; 0 without one.
metric() { curl -sS "http://127.0.0.1:$1/metrics" | awk -v name="$2" '$1 == name || index($1, name "{") == 1 {sum += $NF} END {printf "%.9g\n", sum}'; }

# quantile PORT NAME Q: a quantile of a histogram, between the bounds of its bucket in
# proportion. In seconds.
quantile() {
	curl -sS "http://127.0.0.1:$1/metrics" | awk -v name="$2_bucket" -v q="$3" '
		index($1, name "{le=") == 1 {bound[++n] = $1; gsub(/.*le="|".*/, "", bound[n]); count[n] = $2}
		END {
			for (i = 1; i <= n; i++) if (count[i] >= q * count[n]) {
				low = i > 1 ? bound[i - 1] : 0; before = i > 1 ? count[i - 1] : 0
				print low + (bound[i] - low) * (q * count[n] - before) / (count[i] - before); exit
			}
		}'
}

# chat STREAM [MODEL]: a request's body.
chat() {
	echo '{"model":"'"${2:-dyno-1}"'","max_tokens":16,"stream":'"$1"',"messages":[{"role":"user","content":"How long does light from the sun take to reach us, and why?"}]}'
}
