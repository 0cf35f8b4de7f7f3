package cli

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/internal/exit"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// healthd serves gRPC's health service, with reflection, at an address until it is killed.
func healthd() {
	l, err := net.Listen("tcp", os.Args[1])
	if err == nil {
		s := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(s, health.NewServer())
		reflection.Register(s)
		err = s.Serve(l)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Messages come from standard input as grpcurl and ghz take them there: one, or several, one
// after another or in an array. It is read once, though the plan is made twice.
func TestMessagesFromStandardInput(t *testing.T) {
	address := serveHealth(t)
	for name, c := range map[string]struct {
		input, data string
		ok, unknown int64 // calls, of 12
	}{
		"one":           {`{"service": "x"}`, "@", 0, 12},
		"several":       {"{\"service\": \"x\"}\n{}\n\n{\"service\": \"y\"}", "@", 4, 8},
		"on one line":   {`{"service":"x"}{}`, "@", 6, 6},
		"an array":      {`[{"service": "x"}, {}, {}]`, "@", 8, 4},
		"another name":  {`{"service": "x"}`, "@-", 0, 12},
		"braces":        {`{"service": "{{ base64('') }}"}`, "@", 0, 12}, // a template would say nothing
		"not read":      {`{"service": "x"}`, "{}", 12, 0},
		"blanks, and {": {" \n\t{}\n", "@", 12, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := load(t, c.input, "grpc", "-q", "-n", "12", "-c", "1", "-d", c.data, address, "grpc.health.v1.Health/Check")
			if by := l.trial.Counts.ByStatus; by["OK"] != c.ok || by["NOT_FOUND"] != c.unknown {
				t.Errorf("%v, want %d OK and %d NOT_FOUND", by, c.ok, c.unknown)
			}
		})
	}
}

// Faults of standard input are reported with their place in it.
func TestFaultsOfStandardInput(t *testing.T) {
	address := serveHealth(t)
	for _, c := range []struct{ input, want string }{
		{"", "--data: standard input is empty"},
		{`{"service": "x"`, "--data: line 1, column 16"},
		{"{}\n{\"srevice\": 1}", "line 2"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), []string{"grpc", "-q", "-n", "1", "-c", "1", "-d", "@", address, "grpc.health.v1.Health/Check"}, strings.NewReader(c.input), &stdout, &stderr)
		if code == exit.Done || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: exit code %d, %s, want %q", c.input, code, stderr.String(), c.want)
		}
	}
}

// Metadata comes from files as it does from flags.
func TestMetadataFromFiles(t *testing.T) {
	good := filepath.Join(t.TempDir(), "metadata.json")
	if err := os.WriteFile(good, []byte(`{"grpc-timeout": "1S"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	address := serveHealth(t)
	for _, c := range []struct{ file, want string }{
		{good, "the protocol sets this one itself"},
		{good + ".none", "--metadata-file: open "},
		{"testdata/grpc/interop.proto", "--metadata-file: "},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), []string{"grpc", "-q", "-n", "1", "-c", "1", "-M", c.file, address, "grpc.health.v1.Health/Check"}, strings.NewReader(""), &stdout, &stderr)
		if code == exit.Done || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit code %d, %s, want %q", c.file, code, stderr.String(), c.want)
		}
	}
}
