package contract

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
)

// TestProgram holds a program to the contract: its calls, its start and its end.
func TestProgram(t *testing.T, command []string, quirks ...Quirk) {
	t.Run("calls", func(t *testing.T) {
		p := start(t, command, "--listen", "127.0.0.1:0")
		Test(t, p.address, quirks...)
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
		conn, err := Dial(p.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		client := echogrpc.NewEchoClient(conn)
		for _, c := range []struct {
			bytes int
			want  codes.Code
		}{{900, codes.OK}, {1100, codes.ResourceExhausted}} {
			ctx, stop := context.WithTimeout(t.Context(), caseTimeout)
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
	conn, err := Dial(p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := echogrpc.NewEchoClient(conn)
	ctx, stop := context.WithTimeout(t.Context(), caseTimeout)
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
	ctx, stop := context.WithTimeout(t.Context(), caseTimeout)
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

// Start runs a program until the test ends, and returns the address that it says.
func Start(t *testing.T, command []string, options ...string) (address string) {
	t.Helper()
	return start(t, command, options...).address
}

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
	defer func() { _ = r.Close() }()
	p.cmd.Stdout = w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for range p.ended {
		}
	})
	go func() {
		p.ended <- p.cmd.Wait()
		close(p.ended)
	}()
	if err := r.SetReadDeadline(time.Now().Add(caseTimeout)); err != nil {
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
	case <-time.After(caseTimeout):
		t.Errorf("it does not end within %v", caseTimeout)
	}
}
