package cli

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // the server takes compressed messages
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"dyno/internal/exit"
	"dyno/results/rundir"
)

// serveHealth serves gRPC's health service, by gRPC's own library and with reflection, and
// returns its address.
func serveHealth(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	reflection.Register(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

const healthProto = `syntax = "proto3";
package grpc.health.v1;
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse { int32 status = 1; }
`

// From the command line to the run folder: calls as people write them who know ghz, over TLS
// and without, with descriptions from files and from the server.
func TestGRPCFromTheCommandLine(t *testing.T) {
	plain := serveHealth(t)
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS() // for its certificate
	defer borrowed.Close()
	certificate := borrowed.TLS.Certificates[0]
	secure := serveHealth(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}})))
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		write(t, path, content)
		return path
	}
	ca := certificateFile(t, certificate.Certificate[0])
	proto := file("health.proto", healthProto)
	unknown := file("unknown.json", `{"service": "unknown"}`)
	rows := file("rows.csv", "name\nunknown\n")
	binary := file("unknown.bin", "\x0a\x07unknown")
	const method = "grpc.health.v1.Health/Check"
	for name, c := range map[string]struct {
		args   []string
		status string
	}{
		"reflection":       {[]string{plain, method}, "OK"},
		"dots":             {[]string{plain, "grpc.health.v1.Health.Check"}, "OK"},
		"proto":            {[]string{"--proto", "health.proto", "--import-paths", dir, plain, method}, "OK"},
		"as for ghz":       {[]string{"--insecure", "--proto", proto, "--call", method, "-d", `{"service": ""}`, "-m", `{"a": "b", "c": ["d", "e"]}`, plain}, "OK"},
		"status":           {[]string{"-D", unknown, plain, method}, "NOT_FOUND"},
		"binary":           {[]string{"--kind", "unary", "-B", binary, plain, method}, "NOT_FOUND"},
		"rows":             {[]string{"--rows", rows, "-d", `{"service": "{{name}}"}`, plain, method}, "NOT_FOUND"},
		"many on each":     {[]string{"--streams", "10", "--check", "--compression", "gzip", "--deadline", "10s", plain, method}, "OK"},
		"TLS":              {[]string{"--cacert", ca, "--server-name", "example.com", secure, method}, "OK"},
		"TLS, not checked": {[]string{"--insecure", "--tls", secure, method}, "OK"},
		"TLS by URL":       {[]string{"--insecure", "https://" + secure, method}, "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			l := load(t, "", append([]string{"grpc", "-n", "100", "-c", "2"}, c.args...)...)
			if by := l.trial.Counts.ByStatus; by[c.status] != 100 || len(by) != 1 {
				t.Errorf("exit code %d, %+v, %v\n%s", l.code, l.trial.Counts, l.trial.Failures, l.stdout)
			}
			if failures := l.trial.Failures; c.status == "NOT_FOUND" && failures["status: grpc NOT_FOUND: unknown service"] != 100 {
				t.Errorf("%v", failures)
			}
		})
	}
	// The error says that the server speaks TLS.
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), []string{"grpc", "-n", "1", secure, method}, strings.NewReader(""), &stdout, &stderr)
	if text := stderr.String(); code != exit.Target || !strings.Contains(text, "speaks TLS, and was spoken to in plain text") || !strings.Contains(text, "hint: give --tls") {
		t.Errorf("exit code %d\n%s", code, text)
	}
}

// gRPC-Web is spoken in the version of HTTP that was asked for, and messages are timed there, too.
func TestGRPCWebFromTheCommandLine(t *testing.T) {
	var (
		mu   sync.Mutex // guards seen
		seen = map[string]int{}
	)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Proto]++
		mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.WriteString(w, "\x00\x00\x00\x00\x01a\x00\x00\x00\x00\x01b\x80\x00\x00\x00\x10grpc-status: 0\r\n")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	for version, flags := range map[string]string{"HTTP/1.1": "", "HTTP/2.0": "--http2 --streams 4"} {
		clear(seen)
		args := append([]string{"grpc", "-n", "100", "-c", "2", "--json", "-", "--web", "binary", "--kind", "server_stream"}, strings.Fields(flags)...)
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), append(args, s.URL, "a.B/C"), strings.NewReader(""), &stdout, &stderr)
		var run rundir.Run
		if err := json.Unmarshal(stdout.Bytes(), &run); err != nil {
			t.Fatalf("%s: exit code %d, %v\n%s", version, code, err, stderr.String())
		}
		v := run.Variants[0]
		if v.Counts.ByStatus["OK"] != 100 || seen[version] != 100 || v.Known("first_message.max") == nil || v.Known("message_gap.max") == nil {
			t.Errorf("%s: exit code %d, %+v, %+v, %+v; the server saw %v", version, code, v.Counts, v.Figures["first_message.max"], v.Figures["message_gap.max"], seen)
		}
	}
}

// Without a method, services are listed; a service or a message is described.
func TestGRPCLists(t *testing.T) {
	address := serveHealth(t)
	for _, c := range []struct {
		name string
		code int
		want string
	}{
		{"", exit.Done, "grpc.health.v1.Health\n  grpc.health.v1.Health/Check  "},
		{"grpc.health.v1.Health", exit.Done, "HealthCheckRequest"},
		{"grpc.health.v1.Helth", exit.Usage, `grpc.health.v1.Health`},
	} {
		var stdout, stderr bytes.Buffer
		args := slices.DeleteFunc([]string{"grpc", address, c.name}, func(a string) bool { return a == "" })
		if code := Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.want) {
			t.Errorf("%s: exit code %d\n%s%s", c.name, code, stdout.String(), stderr.String())
		}
	}
}
