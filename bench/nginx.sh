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
	mkdir "$1/html"
	head -c 612 /dev/zero | tr '\0' 'x' >"$1/html/index.html"
	nginx_conf "$1" >"$1/nginx.conf" <<CONF
	keepalive_timeout 1h;
	open_file_cache max=10 inactive=1h;
	server {
		listen 127.0.0.1:$2 backlog=4096;
		root $1/html;
	}
CONF
}
