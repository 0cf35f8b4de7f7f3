package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"strings"
	"testing"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fake is a server that accepts and ends what it accepts.
type fake struct {
	ended chan struct{}
	err   error
	count chan int // of its listeners
}

func (f *fake) Serve(listeners []net.Listener) error {
	f.count <- len(listeners)
	if f.err == nil {
		<-f.ended
	}
	for _, l := range listeners {
		_ = l.Close()
	}
	return f.err
}

func (f *fake) Drain(context.Context) { close(f.ended) }

func TestRun(t *testing.T) {
	for _, n := range []string{"1", "3"} {
		f := &fake{ended: make(chan struct{}), count: make(chan int, 1)}
		var got Options
		p := Program{Name: "x", Open: func(o Options) (Server, error) { got = o; return f, nil }}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r, w := io.Pipe()
		code := make(chan int, 1)
		go func() {
			code <- p.Run(ctx, []string{"--listen", "127.0.0.1:0", "--reuse-port", n, "--middleware", "2"}, w, io.Discard)
		}()
		line, err := bufio.NewReader(r).ReadString('\n')
		if address, ok := strings.CutPrefix(line, "listening on 127.0.0.1:"); err != nil || !ok || address == "0\n" {
			t.Errorf("%q, %v", line, err)
		}
		if count := <-f.count; count != int(n[0]-'0') || got.Middleware != 2 || got.MaxMessage != maxMessage {
			t.Errorf("%d listeners, %+v", count, got)
		}
		stop()
		if c := <-code; c != 0 {
			t.Errorf("exit code %d, want 0", c)
		}
	}
}

func TestExitCodes(t *testing.T) {
	own := 0
	for _, c := range []struct {
		args   []string
		open   error
		serve  error
		code   int
		stderr string
	}{
		{args: []string{"--help"}, code: 0, stderr: "--middleware"},
		{args: []string{"--nothing"}, code: 2, stderr: "nothing"},
		{args: []string{"word"}, code: 2, stderr: "word"},
		{args: []string{"--own", "x"}, code: 2, stderr: "own"},
		{args: []string{"--middleware", "-1", "--listen", "x", "--gogc", "-2", "--reuse-port", "0"}, code: 2, stderr: "--middleware: -1"},
		{args: []string{"--keepalive-time", "-1s"}, code: 2, stderr: "--keepalive-time"},
		{open: errors.New("no such thing"), code: 2, stderr: "no such thing"},
		{args: []string{"--listen", "127.0.0.1:0"}, serve: errors.New("broken"), code: 1, stderr: "broken"},
		{args: []string{"--listen", "host.invalid:0"}, code: 1, stderr: "host.invalid"},
	} {
		p := Program{
			Name:  "x",
			Flags: func(f *flag.FlagSet) { f.IntVar(&own, "own", 0, "a number") },
			Open: func(Options) (Server, error) {
				return &fake{err: c.serve, count: make(chan int, 1)}, c.open
			},
		}
		var stderr bytes.Buffer
		code := p.Run(t.Context(), c.args, io.Discard, &stderr)
		said := strings.ReplaceAll(stderr.String(), "  -", "  --")
		if code != c.code || !strings.Contains(said, c.stderr) {
			t.Errorf("%v: exit code %d, %q; want %d and %q in it", c.args, code, said, c.code, c.stderr)
		}
	}
}
