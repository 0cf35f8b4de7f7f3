// Package rpc tests the programs of the echo over gRPC.
package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dyno/services/echo/rpc/contract"
	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
)

var (
	address = flag.String("address", "", "test the server at `HOST:PORT` and no program")
	build   = flag.Bool("build", false, "build the programs in other languages that are not built yet")
)

// patience bounds what a program takes to start, or to end. The first start of some is slow.
const patience = 60 * time.Second

// atOnce is how many parallel tests run at once without the flag of go test. Those that wait
// for a program's calls to end are many, so that there are more of them than CPUs.
const atOnce = "3"

func TestMain(m *testing.M) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // it is below the folder for what is temporary
	}
	os.Exit(code)
}

// built is the folder of the Go programs, once they are.
var built string

// A process is a program that runs.
type process struct {
	address string
	cmd     *exec.Cmd
	ended   chan error // what Wait said
	stderr  bytes.Buffer
}

// start runs a program and waits until it is ready.
func start(t *testing.T, command []string, options ...string) *process {
	t.Helper()
	p := &process{ended: make(chan error, 1)}
	p.cmd = exec.Command(command[0], append(command[1:len(command):len(command)], options...)...)
	p.cmd.Stderr = &p.stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.cmd.Stdout = w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for range p.ended {
		}
	})
	go func() {
		p.ended <- p.cmd.Wait()
		close(p.ended)
	}()
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "listening on ")
	if err != nil || !ok {
		t.Fatalf("it says %q (%v), want listening on HOST:PORT", line, err)
	}
	p.address = address
	return p
}

// end waits for the end of a program that was asked to end.
func (p *process) end(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("it ended with %v, want exit code 0; it says %q", err, &p.stderr)
		}
	case <-time.After(patience):
		t.Errorf("it does not end within %v", patience)
	}
}

// buildGo builds the Go programs into a folder, unless it has. Tests that call it are not
// parallel.
func buildGo(t *testing.T) string {
	t.Helper()
	if built == "" {
		folder, err := os.MkdirTemp("", "echo")
		if err != nil {
			t.Fatal(err)
		}
		built = folder + string(filepath.Separator)
		args := []string{"build", "-ldflags=-s -w", "-o", built, "./go/...", "dyno/experiments/subjects/grpcloop"}
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return built
}

func TestContract(t *testing.T) {
	if *address != "" {
		contract.Test(t, *address)
		return
	}
	folder := buildGo(t)
	for _, c := range []struct {
		name    string
		command []string
	}{
		{"plain", []string{"plain"}},
		{"plain with options", []string{"plain", "--middleware", "5", "--reuse-port", "3", "--gogc", "400", "--keepalive-time", "30s", "--keepalive-timeout", "5s"}},
		{"plain by reflection", []string{"plain", "--serialization", "reflection"}},
		{"connect", []string{"connect"}},
		{"connect with options", []string{"connect", "--middleware", "5", "--reuse-port", "2", "--keepalive-time", "30s", "--keepalive-timeout", "5s"}},
		{"grpcloop", []string{"grpcloop"}},
		{"grpcloop with options", []string{"grpcloop", "--middleware", "5", "--loops", "3", "--reuse-port", "2", "--keepalive-time", "30s"}},
		{"tuned", []string{"tuned"}},
		{"tuned with options", []string{"tuned", "--middleware", "5", "--serialization", "generated", "--workers", "0", "--stream-window", "0"}},
	} {
		program := c.command[0]
		c.command[0] = folder + program
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && len(c.command) > 1 {
				t.Skip("-short: starts each program once")
			}
			t.Parallel()
			testProgram(t, c.command, quirks[program]...)
		})
	}
}

// quirks are those of programs, and of the libraries that they are written with; README.md names them.
var quirks = map[string][]contract.Quirk{
	"grpcloop": {contract.NoReflection},
	"node":     {contract.PlainAnswers, contract.ShortStrings},
	"rust":     {contract.ReflectionEnds},
}

// TestLanguages tests the programs that are not in Go. Each language is a folder whose
// build.sh takes a program's name, the folder's or one that begins with it, and prints the
// command that runs it. It exits with 3 when something is missing.
func TestLanguages(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds or runs programs in other languages")
	}
	if *address != "" {
		t.Skip("an address was given")
	}
	cache := os.Getenv("DYNO_CACHE")
	if cache == "" {
		cache = "../../../bin"
	}
	scripts, err := filepath.Glob("*/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		language := filepath.Dir(script)
		names := []string{language}
		variants, err := filepath.Glob(filepath.Join(cache, "rpc", language+"-*", "stamp"))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range variants {
			names = append(names, filepath.Base(filepath.Dir(v)))
		}
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				if _, err := os.Stat(filepath.Join(cache, "rpc", name, "stamp")); err != nil && !*build {
					t.Skipf("not built; services/echo/rpc/%s %s builds it", script, name)
				}
				testProgram(t, languageCommand(t, script, name), quirks[name]...)
			})
		}
	}
}

// languageCommand returns the command that runs a program, which it builds if it is not up
// to date.
func languageCommand(t *testing.T, script, name string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", script, name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 3 {
		t.Skipf("%s: %s", script, strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", script, name, err, &stderr)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	command := strings.Fields(lines[len(lines)-1])
	if len(command) == 0 {
		t.Fatalf("%s %s printed no command", script, name)
	}
	return command
}

// testProgram holds a program to the contract: its calls, its start and its end.
func testProgram(t *testing.T, command []string, quirks ...contract.Quirk) {
	t.Run("calls", func(t *testing.T) {
		p := start(t, command, "--listen", "127.0.0.1:0")
		contract.Test(t, p.address, quirks...)
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.end(t)
		if p.stderr.Len() > 0 {
			t.Errorf("standard error has %q, want nothing for calls", &p.stderr)
		}
	})
	for name, signal := range map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": os.Interrupt} {
		t.Run(name+" while calls run", func(t *testing.T) {
			t.Parallel() // it waits for three seconds, as the program gives its calls
			p := start(t, command, "--listen", "127.0.0.1:0")
			stopWhileCallsRun(t, p, signal)
		})
	}
	t.Run("wrong options", func(t *testing.T) {
		for _, options := range [][]string{{"--nothing"}, {"--middleware", "-1"}, {"--max-message", "x"}} {
			if code := exitCode(t, command, options...); code != 2 {
				t.Errorf("%v: exit code %d, want 2", options, code)
			}
		}
	})
	t.Run("address in use", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if code := exitCode(t, command, "--listen", l.Addr().String()); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
	})
	t.Run("max message", func(t *testing.T) {
		p := start(t, command, "--listen", "127.0.0.1:0", "--max-message", "1000")
		conn, err := contract.Dial(p.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		client := echogrpc.NewEchoClient(conn)
		for _, c := range []struct {
			bytes int
			want  codes.Code
		}{{900, codes.OK}, {1100, codes.ResourceExhausted}} {
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			if _, err := client.Echo(ctx, &echopb.EchoRequest{Payload: make([]byte, c.bytes)}); status.Code(err) != c.want {
				t.Errorf("%d bytes: %v, want %v", c.bytes, err, c.want)
			}
		}
	})
}

// stopWhileCallsRun sends a signal while one call takes a moment and another would never
// end. The program ends in time; the first call may end before it.
func stopWhileCallsRun(t *testing.T, p *process, signal os.Signal) {
	conn, err := contract.Dial(p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := echogrpc.NewEchoClient(conn)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	stream, err := client.Chat(ctx)
	if err == nil {
		err = stream.Send(&echopb.EchoRequest{Text: "x"})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	short := make(chan error, 1)
	go func() {
		_, err := client.Echo(ctx, &echopb.EchoRequest{DelayMs: 300})
		short <- err
	}()
	if err := stream.Send(&echopb.EchoRequest{DelayMs: 600_000}); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	p.end(t)
	if err := <-short; err != nil && status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("the short call: %v", err)
	}
	if _, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the call without end ended with %v", err)
	}
}

// exitCode runs a program that is not expected to start.
func exitCode(t *testing.T, command []string, options ...string) int {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], options...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if stderr.Len() == 0 {
		t.Errorf("%v: nothing on standard error", options)
	}
	return cmd.ProcessState.ExitCode()
}

// TestLinks: what is measured links the library that it is about. dyno has codecs of its own: it links
// connect for reflection alone, before a load.
func TestLinks(t *testing.T) {
	for _, c := range []struct {
		program string
		never   []string
	}{
		{"dyno/cmd/dyno", []string{"dyno/services/echo/rpc", "google.golang.org/grpc"}},
		{"dyno/services/echo/rpc/go/connect", []string{"google.golang.org/grpc", "github.com/prometheus"}},
		{"dyno/experiments/subjects/grpcloop", []string{"google.golang.org/", "connectrpc.com/", "net/http", "github.com/"}},
		{"dyno/services/echo/rpc/go/plain", []string{"connectrpc.com/", "github.com/prometheus"}},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", c.program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for dependency := range strings.Lines(string(out)) {
			for _, never := range c.never {
				if strings.HasPrefix(dependency, never) {
					t.Errorf("%s links %s", c.program, strings.TrimSpace(dependency))
				}
			}
		}
	}
}
