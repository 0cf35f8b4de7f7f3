package engine_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/wire/http2"
	"dyno/load/wire/tlslayer"
)

// start starts a program and ends it with the test. It returns once its addresses accept
// connections.
func start(t *testing.T, addresses []string, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(err)
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
	var failure error // to be read when ended is closed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failure = command.Wait()
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
				t.Fatalf("%s ended: %v\n%s", name, failure, said())
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
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // behind the last one, so that they differ
		addresses = append(addresses, l.Addr().String())
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

// exercise sends requests to a server over http, https or both, and holds what came back
// against what was sent.
func exercise(t *testing.T, plain, secure string) {
	t.Helper()
	const requests = 3000
	check := func(name string, c engine.Config, alpn string) {
		t.Helper()
		for _, open := range []bool{false, true} {
			c.Requests, c.Connections, c.Drain = requests, 4, time.Minute
			if open {
				c.Schedule = poisson(t, 5000)
			}
			r := run(t, c)
			if r.Counts.OK != requests || r.Status[200] != requests {
				t.Errorf("%s, open loop %v: %+v, %v", name, open, r.Counts, r.Failures)
			}
			if h := r.Handshakes; c.TLS != nil && (h.Completed != r.Connections.Opened || len(h.Agreed) != 1 || h.Agreed[0].ALPN != alpn) {
				t.Errorf("%s, open loop %v: %+v", name, open, h)
			}
		}
	}
	if plain != "" {
		check("prior knowledge", engine.Config{Address: plain, NewMuxes: get2(t, "localhost", 10), Streams: 10}, "")
	}
	if secure != "" {
		insecure := tlslayer.Config{ServerName: "localhost", Insecure: true, Tickets: true}
		muxes := get2(t, "localhost", 10, func(c *http2.Config) { c.Requests[0].Scheme = "https" })
		check("HTTP/2 over TLS", engine.Config{Address: secure, NewMuxes: muxes, Streams: 10, TLS: offer(insecure, "h2")}, "h2")
		check("HTTP/1.1 over TLS", engine.Config{Address: secure, NewClients: get(t, "localhost"), TLS: offer(insecure, "http/1.1")}, "http/1.1")
		check("a handshake each", engine.Config{
			Address: secure, NewMuxes: muxes, Streams: 10, TLS: offer(insecure, "h2"), ExchangesPerConnection: 50,
		}, "h2")
	}
}

// With a GOAWAY after every hundredth request of a connection, nothing fails.
func TestNginx(t *testing.T) {
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	cert, private := write(t, dir, "cert.pem", certificate.Data), write(t, dir, "key.pem", key.Data)
	at := ports(t, 2)
	config := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 100; }
http {
	access_log off; keepalive_requests 100;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server { listen %[2]s http2; location / { return 200 ok; } }
	server { listen %[3]s ssl http2; ssl_certificate %[4]s; ssl_certificate_key %[5]s; location / { return 200 ok; } }
}`, dir, at[0], at[1], cert, private)
	start(t, at, "nginx", "-e", filepath.Join(dir, "error.log"), "-c", write(t, dir, "nginx.conf", []byte(config)))
	exercise(t, at[0], at[1])
}

func TestHAProxy(t *testing.T) {
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	pair := write(t, dir, "pair.pem", append(bytes.Clone(certificate.Data), key.Data...))
	at := ports(t, 2)
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
`, at[0], at[1], pair)
	start(t, at, "haproxy", "-f", write(t, dir, "haproxy.cfg", []byte(config)))
	exercise(t, at[0], at[1])
}

func TestNode(t *testing.T) {
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	cert, private := write(t, dir, "cert.pem", certificate.Data), write(t, dir, "key.pem", key.Data)
	at := ports(t, 2)
	_, plain, _ := strings.Cut(at[0], ":")
	_, secure, _ := strings.Cut(at[1], ":")
	script := fmt.Sprintf(`const http2 = require('http2'), fs = require('fs')
const answer = (request, response) => response.end('ok')
http2.createServer(answer).listen(%s, '127.0.0.1')
http2.createSecureServer({cert: fs.readFileSync('%s'), key: fs.readFileSync('%s'), allowHTTP1: true}, answer).listen(%s, '127.0.0.1')
`, plain, cert, private, secure)
	start(t, at, "node", write(t, dir, "server.js", []byte(script)))
	exercise(t, at[0], at[1])
}
