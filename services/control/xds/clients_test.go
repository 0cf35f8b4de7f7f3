package xds

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A caller is a client of gRPC. It makes calls with a timeout, and fields name=value of the header, until one fails. It
// returns the last one's status.
type caller func(within time.Duration, calls int, header ...string) error

// callers are gRPC's three implementations: they share no code.
var callers = map[string]func(b *bed, target string) caller{
	"go": func(b *bed, target string) caller {
		c := b.dial(target)
		return func(within time.Duration, calls int, header ...string) (err error) {
			fields := metadata.MD{}
			for _, one := range header {
				name, value, _ := strings.Cut(one, "=")
				fields.Set(name, value)
			}
			for ; calls > 0 && err == nil; calls-- {
				ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(b.ctx, fields), within)
				_, err = c.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
				cancel()
			}
			return err
		}
	},
	"python": func(b *bed, target string) caller {
		return b.program(target, "python/grpc/__init__.py", "PYTHONPATH=python", "python3", "client.py")
	},
	"java": func(b *bed, target string) caller {
		return b.program(target, "java/target/lib", "", "java", "-cp", "java/target/classes:java/target/lib/*", "Calls")
	},
}

// program starts a client of gRPC in the folder testdata/clients, which ends with the test.
func (b *bed) program(target, needs, environment, name string, args ...string) caller {
	b.t.Helper()
	const folder = "testdata/clients"
	if _, err := os.Stat(folder + "/" + needs); err != nil {
		b.t.Skipf("no %s: scripts/clients.sh installs it", needs)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		b.t.Skipf("no %s: scripts/setup.sh installs it", name)
	}
	cmd := exec.CommandContext(context.WithoutCancel(b.ctx), path, append(args, "xds:///"+target)...) //nolint:gosec // a program of that folder
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	cmd.Env = append(os.Environ(), environment, "GRPC_XDS_BOOTSTRAP_CONFIG="+string(bootstrap(b.address)))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	b.t.Cleanup(func() {
		if err := in.Close(); err != nil {
			b.t.Error(err)
		}
		if answers.Scan() {
			b.t.Errorf("%q", answers.Text())
		}
		if err := cmd.Wait(); err != nil {
			b.t.Error(err)
		}
	})
	return func(within time.Duration, calls int, header ...string) error {
		b.t.Helper()
		if _, err := fmt.Fprintln(in, within.Seconds(), calls, strings.Join(header, " ")); err != nil {
			b.t.Fatal(err)
		}
		if !answers.Scan() {
			b.t.Fatalf("no answer: %v", answers.Err())
		}
		name, details, _ := strings.Cut(answers.Text(), " ")
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(strconv.Quote(name))); err != nil {
			b.t.Fatalf("%q: %v", answers.Text(), err)
		}
		return status.Error(code, details)
	}
}

// TestOtherClients: clients that share no code with grpc-go find a service, divide calls by weight and follow its instances.
func TestOtherClients(t *testing.T) {
	for _, language := range []string{"python", "java"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, nil)
			one, two, three := newBackend(t, "other", "1", 100), newBackend(t, "other", "2", 300), newBackend(t, "other", "3", 100)
			b.put(one.instance)
			b.put(two.instance)
			again := callers[language](b, "other.default")
			call := func(calls int) {
				t.Helper()
				if err := again(hangGuard, calls); err != nil {
					t.Fatal(err)
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
		})
	}
}
