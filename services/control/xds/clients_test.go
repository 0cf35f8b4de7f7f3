package xds

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPython: gRPC's client on its C++ core finds a service, divides calls by weight and follows its instances. It
// shares no code with grpc-go.
func TestPython(t *testing.T) {
	const folder = "testdata/clients"
	if _, err := os.Stat(filepath.Join(folder, "python/grpc/__init__.py")); err != nil {
		t.Skip("no package grpcio for Python: scripts/clients.sh installs it")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: scripts/setup.sh installs it")
	}
	t.Parallel()
	b := newBed(t, nil)
	one, two, three := newBackend(t, "python", "1", 100), newBackend(t, "python", "2", 300), newBackend(t, "python", "3", 100)
	b.put(one.instance)
	b.put(two.instance)
	cmd := exec.CommandContext(b.ctx, python, "client.py", "xds:///python.default") //nolint:gosec // a program of that folder
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	cmd.Env = append(os.Environ(), "PYTHONPATH=python", "GRPC_XDS_BOOTSTRAP_CONFIG="+string(bootstrap(b.address)))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	call := func(n int) {
		t.Helper()
		if _, err := fmt.Fprintln(in, n); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() || answers.Text() != "ok" {
			t.Fatalf("%q, %v", answers.Text(), answers.Err())
		}
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			if b.ctx.Err() != nil {
				t.Fatal(what)
			}
			call(1)
		}
	}
	until("both are found", func() bool { return one.calls.Load() > 0 && two.calls.Load() > 0 })
	one.calls.Store(0)
	two.calls.Store(0)
	call(400)
	share(t, one, two, 400)
	b.put(three.instance)
	until("a new one is found", func() bool { return three.calls.Load() > 0 })
	b.remove(one.instance)
	b.remove(two.instance)
	until("those that left are left alone", func() bool {
		before := one.calls.Load() + two.calls.Load()
		call(20)
		return one.calls.Load()+two.calls.Load() == before
	})
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if answers.Scan() {
		t.Errorf("%q", answers.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
