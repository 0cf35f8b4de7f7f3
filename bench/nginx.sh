# Sourced by benchmarks: configurations of nginx.

# nginx_conf DIR: prints the configuration of an nginx with one process, which keeps its
# files in DIR. Standard input holds more directives for the section http.
nginx_conf() {
	mkdir "$1/tmp"
	cat <<CONF
daemon off;
master_process off;  # one process, one thread: what serves is what was started
pid $1/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path $1/tmp/body;
	proxy_temp_path $1/tmp/proxy;
	fastcgi_temp_path $1/tmp/fastcgi;
	uwsgi_temp_path $1/tmp/uwsgi;
	scgi_temp_path $1/tmp/scgi;
$(cat)
}
CONF
}

# nginx_static DIR PORT: writes DIR/nginx.conf for a server of one file of 612 bytes,
# /index.html.
nginx_static() {
	nginx_file "$1" 612 <<<"listen 127.0.0.1:$2 backlog=4096;"
}

# nginx_file DIR SIZE: writes DIR/nginx.conf for a server of one file of SIZE bytes,
# /index.html. Standard input holds the directives that say where it listens, and how.
nginx_file() {
	mkdir "$1/html"
	head -c "$2" /dev/zero | tr '\0' 'x' >"$1/html/index.html"
	nginx_conf "$1" >"$1/nginx.conf" <<CONF
	keepalive_timeout 1h;
	open_file_cache max=10 inactive=1h;
	server {
		root $1/html;
$(cat)
	}
CONF
}

# nginx_tls DIR VERSION KEY: writes DIR/cert.pem, a certificate that signs itself, and its
# key, ec (P-256) or rsa (2048 bits). It prints directives of nginx for TLS of that version,
# 1.2 or 1.3, with one cipher suite and one group, so that all clients speak the same.
# Sessions cannot be resumed.
nginx_tls() {
	local algorithm=(ec -pkeyopt ec_paramgen_curve:P-256) suite=ECDSA
	[ "$3" = ec ] || algorithm=(rsa:2048) suite=RSA
	openssl req -x509 -newkey "${algorithm[@]}" -nodes -days 2 -subj /CN=127.0.0.1 \
		-addext subjectAltName=IP:127.0.0.1 -keyout "$1/key.pem" -out "$1/cert.pem" 2>"$1/openssl.log" || {
		cat "$1/openssl.log" >&2
		return 1
	}
	cat <<CONF
		ssl_certificate $1/cert.pem;
		ssl_certificate_key $1/key.pem;
		ssl_protocols TLSv$2;
		ssl_ciphers ECDHE-$suite-AES128-GCM-SHA256;
		ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
		ssl_ecdh_curve X25519;
		ssl_session_cache off;
		ssl_session_tickets off;
CONF
}
