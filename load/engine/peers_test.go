//go:build linux

package engine_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dyno/internal/freeport"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/options"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
	"dyno/load/wire/sse"
	"dyno/load/wire/tlslayer"
)

// start starts a program and ends it with the test. It returns once its addresses accept
// connections.
func start(t *testing.T, addresses []string, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed; scripts/setup.sh installs it: %v", name, err)
	}
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	said := func() []byte {
		text, _ := os.ReadFile(output.Name()) // for a message
		return text
	}
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = output, output // a file, as children may outlive the program
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var how error // once it has ended
	go func() {
		how = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // nginx then ends its workers
		<-ended
	})
	deadline := time.Now().Add(hang)
	for _, address := range addresses {
		for {
			c, err := net.Dial("tcp", address)
			if err == nil {
				_ = c.Close()
				break
			}
			select {
			case <-ended:
				t.Fatalf("%s ended: %v\n%s", name, how, said())
			case <-time.After(10 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not listen: %v\n%s", name, err, said())
			}
		}
	}
}

// ports returns addresses on which nothing listens.
func ports(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		addresses = append(addresses, freeport.Address(t))
	}
	return addresses
}

// write writes a file into a folder and returns its path.
func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A peer is a server that others have written.
type peer struct {
	plain, secure string // its addresses for http and https
	only2         bool   // it does not speak HTTP/1.1

	// answered returns how many requests the server says it has answered so far. Nil if it
	// keeps no count.
	answered func() uint64
}

// peerRequests is how many requests a peer is sent in each way. bench/http2-conservation.sh
// asks for more.
func peerRequests(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("DYNO_PEER_REQUESTS")
	if text == "" {
		return 800
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("DYNO_PEER_REQUESTS=%q: want a number of requests", text)
	}
	return n
}

// logRow logs a row of the table that bench/http2-conservation.sh makes.
func logRow(t *testing.T, protocol string, open bool, r *record.Result, answered string) {
	t.Helper()
	loop := "closed"
	if open {
		loop = "open"
	}
	failures := []string{}
	for kind, n := range r.Counts.ByKind {
		if n > 0 {
			failures = append(failures, fmt.Sprintf("%v %d", wire.Kind(kind), n))
		}
	}
	if len(failures) == 0 {
		failures = []string{"none"}
	}
	n := r.Connections
	t.Logf("row:\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%d", strings.TrimPrefix(t.Name(), "TestPeer"), protocol, loop,
		r.Counts.Sent, r.Counts.OK, strings.Join(failures, ", "), answered, n.Opened, n.GoAways, n.Resent)
}

// exercise sends requests to a peer in all ways. It compares the results with what was sent and with
// the peer's own count.
func exercise(t *testing.T, p peer) {
	t.Helper()
	requests := peerRequests(t)
	check := func(name string, c config.Config, alpn string) {
		t.Helper()
		for _, open := range []bool{false, true} {
			c.Requests, c.Connections, c.Drain = requests, 4, time.Minute
			if open {
				c.Schedule = poisson(t, 5000)
			}
			var before uint64
			if p.answered != nil {
				before = p.answered()
			}
			r := run(t, c)
			if r.Counts.OK != requests || r.Status[200] != requests {
				t.Errorf("%s, open loop %v: %+v, %v", name, open, r.Counts, r.Failures)
			}
			if h := r.Handshakes; c.TLS != nil && (h.Completed != r.Connections.Opened || len(h.Agreed) != 1 || h.Agreed[0].ALPN != alpn) {
				t.Errorf("%s, open loop %v: %+v", name, open, h)
			}
			answered := "no count"
			if p.answered != nil {
				n := p.answered() - before
				answered = strconv.FormatUint(n, 10)
				if n != requests {
					t.Errorf("%s, open loop %v: the server has answered %d requests of %d", name, open, n, requests)
				}
			}
			logRow(t, name, open, r, answered)
		}
	}
	check("HTTP/2 by prior knowledge", config.Config{Address: p.plain, NewMuxes: get2(t, "localhost", 10), Streams: 10}, "")
	insecure := tlslayer.Config{ServerName: "localhost", Insecure: true, Tickets: true}
	muxes := get2(t, "localhost", 10, func(c *http2.Config) { c.Requests[0].Scheme = "https" })
	check("HTTP/2 over TLS", config.Config{Address: p.secure, NewMuxes: muxes, Streams: 10, TLS: offer(insecure, "h2")}, "h2")
	check("HTTP/2 over TLS, 50 requests a connection", config.Config{
		Address: p.secure, NewMuxes: muxes, Streams: 10, TLS: offer(insecure, "h2"), ExchangesPerConnection: 50,
	}, "h2")
	if !p.only2 {
		check("HTTP/1.1 over TLS", config.Config{Address: p.secure, NewClients: get(t, "localhost"), TLS: offer(insecure, "http/1.1")}, "http/1.1")
	}
}

// ask returns a server's answer by HTTP/1.1 under any server name.
func ask(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // it signs itself
		Timeout:   hang,
	}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, response.Status, err, text)
	}
	return string(text)
}

// number reads a count that a server has printed.
func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// credentials writes a certificate and its key into a folder and returns their paths.
func credentials(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	c, k := selfSigned(t)
	return write(t, dir, "cert.pem", c.Data), write(t, dir, "key.pem", k.Data)
}

// port returns the port of an address.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func TestPeerNghttpd(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	certificate, key := credentials(t, dir)
	write(t, files, "index.html", []byte("ok"))
	at := ports(t, 2)
	start(t, at[:1], "nghttpd", "-a", "127.0.0.1", "-d", files, "--no-tls", port(at[0]))
	start(t, at[1:], "nghttpd", "-a", "127.0.0.1", "-d", files, port(at[1]), key, certificate)
	exercise(t, peer{plain: at[0], secure: at[1], only2: true})
}

// With a GOAWAY after every hundredth request of a connection, nothing fails.
func TestPeerNginx(t *testing.T) {
	dir := t.TempDir()
	certificate, key := credentials(t, dir)
	at := ports(t, 3)
	config := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 100; }
http {
	access_log off; keepalive_requests 100;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server { listen %[2]s http2; location / { return 200 ok; } }
	server { listen %[3]s ssl http2; ssl_certificate %[5]s; ssl_certificate_key %[6]s; location / { return 200 ok; } }
	server { listen %[4]s; location / { stub_status; } }
}`, dir, at[0], at[1], at[2], certificate, key)
	start(t, at, "nginx", "-e", filepath.Join(dir, "error.log"), "-c", write(t, dir, "nginx.conf", []byte(config)))
	var asked uint64 // in the count, too
	exercise(t, peer{plain: at[0], secure: at[1], answered: func() uint64 {
		asked++
		_, counts, _ := strings.Cut(ask(t, "http://"+at[2]), "accepts handled requests")
		return number(t, strings.Fields(counts)[2]) - asked
	}})
}

func TestPeerHAProxy(t *testing.T) {
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	pair := write(t, dir, "pair.pem", append(bytes.Clone(certificate.Data), key.Data...))
	at := ports(t, 3)
	config := fmt.Sprintf(`global
	maxconn 1000
defaults
	mode http
	timeout client 30s
	timeout server 30s
	timeout connect 5s
frontend plain
	bind %s proto h2
	http-request return status 200 content-type text/plain string ok
frontend secure
	bind %s ssl crt %s alpn h2,http/1.1
	http-request return status 200 content-type text/plain string ok
frontend counts
	bind %s
	stats enable
	stats uri /
`, at[0], at[1], pair, at[2])
	start(t, at, "haproxy", "-f", write(t, dir, "haproxy.cfg", []byte(config)))
	exercise(t, peer{plain: at[0], secure: at[1], answered: func() (sum uint64) {
		rows, err := csv.NewReader(strings.NewReader(ask(t, "http://"+at[2]+"/;csv"))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		column := slices.Index(rows[0], "req_tot")
		for _, row := range rows {
			if row[0] == "plain" || row[0] == "secure" {
				sum += number(t, row[column])
			}
		}
		return sum
	}})
}

func TestPeerNode(t *testing.T) {
	dir := t.TempDir()
	certificate, key := credentials(t, dir)
	at := ports(t, 2)
	script := fmt.Sprintf(`const http2 = require('http2'), fs = require('fs')
let answered = 0
const answer = (request, response) => {
	if (request.url === '/answered') return response.end(String(answered))
	answered++
	response.end('ok')
}
http2.createServer(answer).listen(%s, '127.0.0.1')
http2.createSecureServer({cert: fs.readFileSync('%s'), key: fs.readFileSync('%s'), allowHTTP1: true}, answer).listen(%s, '127.0.0.1')
`, port(at[0]), certificate, key, port(at[1]))
	start(t, at, "node", write(t, dir, "server.js", []byte(script)))
	exercise(t, peer{plain: at[0], secure: at[1], answered: func() uint64 { return number(t, ask(t, "https://"+at[1]+"/answered")) }})
}

func TestPeerGo(t *testing.T) {
	var answered atomic.Uint64
	answer := func(w http.ResponseWriter, _ *http.Request) {
		answered.Add(1)
		_, _ = io.WriteString(w, "ok")
	}
	secure, _ := https(t, true, answer)
	exercise(t, peer{plain: serve2(t, http.HTTP2Config{}, answer), secure: secure, answered: answered.Load})
}

func TestPeerJetty(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for a virtual machine that compiles the server first")
	}
	const folder = "/usr/share/java/" // Debian's
	var jars []string
	for _, name := range []string{"alpn-server", "alpn-java-server", "http", "http2-common", "http2-hpack", "http2-server", "io", "server", "util"} {
		jars = append(jars, folder+"jetty9-"+name+".jar")
	}
	jars = append(jars, folder+"servlet-api.jar")
	for _, jar := range jars {
		if _, err := os.Stat(jar); err != nil {
			t.Skipf("Jetty is not installed; scripts/setup.sh installs it: %v", err)
		}
	}
	certificate, key := credentials(t, t.TempDir())
	at := ports(t, 2)
	start(t, at, "java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", strings.Join(jars, ":"), filepath.Join("testdata", "Jetty.java"),
		port(at[0]), port(at[1]), certificate, key)
	exercise(t, peer{plain: at[0], secure: at[1], answered: func() uint64 { return number(t, ask(t, "http://"+at[0]+"/answered")) }})
}

// An unruly server says GOAWAY at the thousandth request of a connection. It resets one in a hundred,
// alternately before and within its response.
type unruly struct{ answered, reset, goAways atomic.Uint64 }

// unrulyCount is the key of a connection's number of requests so far, in its context.
type unrulyCount struct{}

func (u *unruly) connected(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, unrulyCount{}, new(atomic.Uint64))
}

func (u *unruly) answer(w http.ResponseWriter, r *http.Request) {
	switch n := r.Context().Value(unrulyCount{}).(*atomic.Uint64).Add(1); {
	case n == 1000:
		u.goAways.Add(1)
		w.Header().Set("Connection", "close") // for HTTP/2, net/http makes it a GOAWAY
	case n%200 == 50:
		u.reset.Add(1)
		panic(http.ErrAbortHandler) // a RST_STREAM with INTERNAL_ERROR
	case n%200 == 150:
		u.reset.Add(1)
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush() // fails if the connection has ended
		panic(http.ErrAbortHandler)
	}
	u.answered.Add(1)
	_, _ = io.WriteString(w, "ok")
}

// Every request to an unruly server is accounted for by kind, and none reaches it twice.
func TestPeerUnruly(t *testing.T) {
	const connections, streams = 4, 16
	requests := max(peerRequests(t), 5000) // more than 1000 on a connection
	for _, secure := range []bool{false, true} {
		for _, open := range []bool{false, true} {
			var u unruly
			c := config.Config{Connections: connections, Streams: streams, Requests: requests, Drain: time.Minute}
			name := "HTTP/2 by prior knowledge"
			if secure {
				name = "HTTP/2 over TLS"
				address, config := https(t, true, u.answer, func(s *httptest.Server) { s.Config.ConnContext = u.connected })
				c.Address, c.TLS, c.NewMuxes = address, offer(config, "h2"), get2s(t, streams)
			} else {
				c.Address = serve2(t, http.HTTP2Config{}, u.answer, func(s *http.Server) { s.ConnContext = u.connected })
				c.NewMuxes = get2(t, "localhost", streams)
			}
			if open {
				c.Schedule = poisson(t, 5000)
			}
			r := run(t, c)
			answered, reset, goAways := u.answered.Load(), u.reset.Load(), u.goAways.Load()
			if r.Counts.OK != answered || r.Counts.ByKind[wire.Reset] != reset || answered+reset != requests || reset < requests/200 {
				t.Errorf("%s, open loop %v: %+v, %v; the server answered %d and reset %d", name, open, r.Counts, r.Failures, answered, reset)
			}
			// A connection that ends with the load may not have read its GOAWAY.
			n := r.Connections
			if n.GoAways == 0 || n.GoAways > goAways || n.GoAways+connections < goAways || n.Refused != n.Resent || n.PeerClosed > 0 {
				t.Errorf("%s, open loop %v: %+v; the server said GOAWAY %d times", name, open, n, goAways)
			}
			logRow(t, name, open, r, fmt.Sprintf("%d, reset %d", answered, reset))
		}
	}
}

// A hub that others have written, with TLS of OpenSSL.
func TestPeerNchan(t *testing.T) {
	const module = "/usr/lib/nginx/modules/ngx_nchan_module.so"
	for _, version := range []string{"1.2", "1.3"} {
		dir := t.TempDir()
		if ok, _ := filepath.Glob(module); ok == nil {
			t.Skip("nchan is not installed; scripts/setup.sh installs it")
		}
		certificate, key := credentials(t, dir)
		at := ports(t, 1)
		settings := fmt.Sprintf(`load_module %[5]s; daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 200; }
http {
	access_log off; keepalive_requests 100000;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server {
		listen %[2]s ssl; ssl_certificate %[3]s; ssl_certificate_key %[4]s;
		nchan_channel_id $arg_topic; nchan_message_buffer_length 10000;
		location = /events { nchan_subscriber eventsource; nchan_subscriber_first_message newest; }
		location = /publish { nchan_publisher; }
	}
}`, dir, at[0], certificate, key, module)
		start(t, at, "nginx", "-e", filepath.Join(dir, "error.log"), "-c", write(t, dir, "nginx.conf", []byte(settings)))
		const subscribers = 40
		r := run(t, config.Config{
			Address: at[0], TLS: &tlslayer.Config{Insecure: true, ServerName: "example.com", ALPN: []string{"http/1.1"}, MaxVersion: version},
			Threads: options.Threads{Workers: 2}, Schedule: steady(t, 200), Connections: 4, Drain: hang,
			NewClients: publish(t, 2, sse.PublisherConfig{
				Request: http1.Request{Target: "/publish?topic={topic}", Host: "example.com"}, Topics: []string{"a", "b"}, Size: 100,
			}),
			Warmup: 100 * time.Millisecond, Window: 500 * time.Millisecond,
			Subscribers: &subscribe.Config{Count: subscribers, NewStreams: topicStreams(t, "/events?topic={topic}")},
		})
		delivered(t, r, subscribers)
		if a := r.Handshakes.Agreed; len(a) != 1 || a[0].ALPN != "http/1.1" {
			t.Errorf("%+v", a)
		}
		if (r.Ends.ByArrival > 0) != stampsArrivals() || r.Ends.Late+r.Ends.Early > 0 {
			t.Errorf("%+v", r.Ends)
		}
	}
}

// nginx names whole addresses or mere paths, and closes connections or does not.
func TestRedirectsOfNginx(t *testing.T) {
	dir := t.TempDir()
	at := ports(t, 3)
	settings := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 100; }
http {
	access_log %[1]s/access.log; keepalive_requests 100;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server {
		listen %[2]s; listen %[3]s http2;
		location = /first { return 301 /second; } location = /second { return 308 /third; } location = /third { return 200 ok; }
	}
	server {
		listen %[4]s; keepalive_timeout 0; absolute_redirect off;
		location = /first { return 301 /second; } location = /second { return 308 /third; } location = /third { return 200 ok; }
	}
}`, dir, at[0], at[1], at[2])
	start(t, at, "nginx", "-e", filepath.Join(dir, "error.log"), "-c", write(t, dir, "nginx.conf", []byte(settings)))
	for n, address := range at {
		for _, open := range []bool{false, true} {
			c := config.Config{Address: address, Connections: 4, Requests: 200, Drain: time.Minute}
			if open {
				c.Schedule = poisson(t, 2000)
			}
			r := run(t, following(t, c, http1.Request{Method: "GET", Target: "/first", Host: address}, false, n != 1, n == 1))
			if r.Counts.OK != 200 || *r.Redirects != 400 {
				t.Errorf("%s, open %v: %+v, %d redirects, %v", address, open, r.Counts, *r.Redirects, r.Failures)
			}
		}
	}
	var log []byte
	for deadline := time.Now().Add(hang); bytes.Count(log, []byte("\n")) < 6*600 && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond) // nginx writes a line after its answer
		var err error
		if log, err = os.ReadFile(filepath.Join(dir, "access.log")); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"first", "second", "third"} {
		if n := bytes.Count(log, []byte("GET /"+path+" HTTP/")); n != 6*200 {
			t.Errorf("nginx has answered %d requests for /%s", n, path)
		}
	}
}
