package cli

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"dyno/lab/plan"
)

// A pilot is in proportion to what it is for: it lasts ten windows within its bounds, waits briefly, and measures no control.
func TestPilotIsInProportion(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond:  time.Second,
		200 * time.Millisecond: 2 * time.Second,
		3 * time.Second:        2500 * time.Millisecond,
	} {
		e := plan.New(plan.HTTP, "compare")
		e.Base, e.Design.QuietWait, e.Design.Rounds = "a", 30*time.Second, 24
		v := e.Variants[0]
		v.Load.Window, e.Variants = window, nil
		for _, name := range []string{"a", "b", "a.control"} {
			v.Name, v.AliasOf = name, map[string]string{"a.control": "a"}[name]
			e.Variants = append(e.Variants, v)
		}
		p := pilotOf(e, false)
		if l := &p.Variants[0].Load; l.Window != want || l.Warmup != 0 || len(p.Variants) != 2 || p.Design.QuietWait != briefQuiet || p.Design.Rounds != 1 {
			t.Errorf("window %v: a pilot of %v after %v, %d variants, %d rounds, waits %v", window, l.Window, l.Warmup, len(p.Variants), p.Design.Rounds, p.Design.QuietWait)
		}
	}
}

// While dyno asks a server that does not answer, it says so.
func TestPilotIsAnnounced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for command, want := range map[string]string{
		"grpc " + l.Addr().String():                                   "asking " + l.Addr().String() + " for its methods\n",
		"llm http://" + l.Addr().String() + "/v1":                     "asking http://" + l.Addr().String() + "/v1 for its models\n",
		"capacity --slo p99<1s --from 10 http://" + l.Addr().String(): "trying whether the server answers\n",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			Main(ctx, strings.Fields(command), nil, io.Discard, w)
			_ = w.Close()
		}()
		said := bufio.NewReader(r)
		if got, err := said.ReadString('\n'); got != want {
			t.Errorf("%s: %q, %v, want %q", command, got, err, want)
		}
		cancel()
		_, _ = io.Copy(io.Discard, said)
		<-done
	}
}
