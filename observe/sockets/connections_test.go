package sockets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/observe"
)

var (
	_ observe.Observer = (*Connections)(nil)
	_ observe.CPUUser  = (*Connections)(nil)
	_ observe.Observer = (*Counters)(nil)
)

// Both sides of connections are counted, whatever the family of the sockets that
// hold them, and no others.
func TestConnections(t *testing.T) {
	for _, c := range []struct{ network, listen, dial string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1"},
		{"tcp", "[::]:0", "127.0.0.1"}, // IPv4 in IPv6 sockets
		{"tcp6", "[::1]:0", "::1"},
		{"tcp", "[::]:0", "::1"},
		{"tcp4", "127.0.0.1:0", "localhost"},
	} {
		t.Run(c.listen+" as "+c.dial, func(t *testing.T) {
			l := listen(t, c.network, c.listen)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			address := net.JoinHostPort(c.dial, port)
			other := listen(t, "tcp4", "127.0.0.1:0")
			connect(t, other, other.Addr().String(), 2)

			o := newConnections(t, Config{Address: address})
			if len(o.Missing()) > 0 {
				t.Errorf("missing: %v", o.Missing())
			}
			if v := values(t, o); v["target_connections"] != 0 || v["generator_connections"] != 0 || !math.IsNaN(v["target_rtt_mean_seconds"]) {
				t.Errorf("without connections: %v", v)
			}
			pairs := connect(t, l, address, 7)
			const text = "0123456789"
			for i, p := range pairs {
				if i < 3 {
					if _, err := io.WriteString(p.client, text); err != nil {
						t.Fatal(err)
					}
				}
			}
			v := values(t, o)
			for column, want := range map[string]float64{
				"target_connections": 7, "generator_connections": 7,
				"target_receive_queue_bytes": 3 * float64(len(text)), "generator_receive_queue_bytes": 0,
				"target_unsent_bytes": 0, "generator_unsent_bytes": 0, "target_send_queue_bytes": 0,
				"accept_queue": 0,
			} {
				if v[column] != want {
					t.Errorf("%s is %v, want %v", column, v[column], want)
				}
			}
			for _, side := range []string{"target_", "generator_"} {
				if !(v[side+"rtt_min_seconds"] >= 0) || !(v[side+"rtt_min_seconds"] <= v[side+"rtt_max_seconds"]) ||
					!(v[side+"rtt_mean_seconds"] <= v[side+"rtt_max_seconds"]) || !(v[side+"congestion_window_segments"] > 0) {
					t.Errorf("%s: round trips of %v to %v, mean %v; window of %v", side, v[side+"rtt_min_seconds"],
						v[side+"rtt_max_seconds"], v[side+"rtt_mean_seconds"], v[side+"congestion_window_segments"])
				}
			}
			if !(v["accept_queue_limit"] > 0) || !(v["read_at_seconds"] > 0) || !(o.CPUSeconds() > 0) {
				t.Errorf("limit %v, read at %v, cost %v", v["accept_queue_limit"], v["read_at_seconds"], o.CPUSeconds())
			}
			for _, p := range pairs[:4] {
				p.client.Close()
				p.server.Close()
			}
			if v := values(t, o); v["target_connections"] != 3 || v["generator_connections"] != 3 {
				t.Errorf("after closing 4 of 7: %v and %v", v["target_connections"], v["generator_connections"])
			}
		})
	}
}

// A server that does not read shows where the bytes pile up: in its receive queue,
// and then in the client's send queue, limited by the window.
func TestStuckServer(t *testing.T) {
	l := listen(t, "tcp4", "127.0.0.1:0")
	o := newConnections(t, Config{Address: l.Addr().String()})
	p := connect(t, l, l.Addr().String(), 1)[0]
	var written float64
	chunk := make([]byte, 64<<10)
	if err := p.client.SetWriteDeadline(time.Now().Add(hangGuard)); err != nil {
		t.Fatal(err)
	}
	// Without waiting: more than fits is refused.
	control(t, p.client, func(fd int) error {
		for {
			n, err := unix.Write(fd, chunk)
			if errors.Is(err, unix.EAGAIN) {
				return nil
			}
			if err != nil {
				return err
			}
			written += float64(n)
		}
	})
	v := values(t, o)
	got, queued := v["target_receive_queue_bytes"], v["generator_send_queue_bytes"]
	if !(got > 0) || !(queued > 0) || !(v["generator_unsent_bytes"] > 0) || v["generator_unsent_bytes"] > queued || got+queued < written {
		t.Errorf("of %v bytes, %v are not read, %v not acknowledged and %v not sent", written, got, queued, v["generator_unsent_bytes"])
	}
	end := time.Now().Add(hangGuard)
	for !(v["generator_receive_window_limited_seconds"] > 0) && time.Now().Before(end) {
		v = values(t, o)
	}
	if limited, busy := v["generator_receive_window_limited_seconds"], v["generator_busy_seconds"]; !(limited > 0) || limited > busy {
		t.Errorf("%v s limited by the window, of %v s busy", limited, busy)
	}
}

// Segments sent again are counted, and stay counted when the connection is gone.
func TestRetransmits(t *testing.T) {
	l := listen(t, "tcp4", "127.0.0.1:0")
	o := newConnections(t, Config{Address: l.Addr().String()})
	kernel, err := NewCounters("", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	before := counted(t, kernel)
	p := connect(t, l, l.Addr().String(), 1)[0]
	// A filter that keeps nothing drops what arrives before TCP sees it.
	dropAll := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	control(t, p.server, func(fd int) error {
		err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &dropAll[0]})
		if errors.Is(err, unix.EPERM) {
			t.Skip("needs the right to attach a filter to a socket, which this user has not")
		}
		return err
	})
	if _, err := io.WriteString(p.client, "lost"); err != nil {
		t.Fatal(err)
	}
	v := values(t, o)
	for end := time.Now().Add(hangGuard); v["generator_retransmits_total"] < 2 && time.Now().Before(end); {
		v = values(t, o)
	}
	seen := v["generator_retransmits_total"]
	if seen < 2 || v["target_retransmits_total"] != 0 || v["generator_unacked_segments"] != 1 || v["generator_send_queue_bytes"] != 4 {
		t.Errorf("%v", v)
	}
	if now := counted(t, kernel)["segments_retransmitted_total"]; now-before["segments_retransmitted_total"] < seen {
		t.Errorf("the kernel counted from %v to %v", before["segments_retransmitted_total"], now)
	}
	if err := p.client.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	p.client.Close()
	p.server.Close()
	if v := values(t, o); v["generator_connections"] != 0 || v["generator_retransmits_total"] < seen {
		t.Errorf("when it is gone: %v of %v", v["generator_retransmits_total"], seen)
	}
}

func counted(t *testing.T, c *Counters) map[string]float64 {
	t.Helper()
	row := make([]float64, len(c.Columns()))
	if err := c.Observe(row); err != nil {
		t.Fatal(err)
	}
	m := make(map[string]float64)
	for i, column := range c.Columns() {
		m[column.Name] = row[i]
	}
	return m
}

// A full accept queue, in a network namespace in which nothing else happens: the
// queue, its limit, its peak, and every connection that the kernel dropped.
func TestAcceptQueue(t *testing.T) {
	inNamespace(t, func(t *testing.T, tid int) {
		fd, at, err := rawListener(1)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		// The observers are made elsewhere and find the namespace by the thread.
		run := func(f func()) {
			done := make(chan struct{})
			go func() { defer close(done); f() }()
			<-done
		}
		var o *Connections
		var kernel *Counters
		run(func() {
			if o, err = NewConnections(context.Background(), Config{Address: at.String(), PID: tid, Every: time.Hour}); err == nil {
				kernel, err = NewCounters("stack", tid)
			}
		})
		if err != nil {
			t.Error(err)
			return
		}
		defer kernel.Close()
		defer o.Close()
		before := counted(t, kernel)
		for range 6 {
			c, err := rawConnect(at)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(c)
		}
		var v map[string]float64
		run(func() { v = values(t, o) })
		// The kernel lets one more in than the backlog says.
		if v["accept_queue"] != 2 || v["accept_queue_limit"] != 1 || v["accept_queue_peak"] != 2 {
			t.Errorf("%v wait of %v, at most %v", v["accept_queue"], v["accept_queue_limit"], v["accept_queue_peak"])
		}
		// Both are established before anybody accepts them. This side's namespace has none.
		if v["target_connections"] != 2 || v["generator_connections"] != 0 {
			t.Errorf("%v connections on the target's side, %v on ours", v["target_connections"], v["generator_connections"])
		}
		now := counted(t, kernel)
		delta := func(column string) float64 { return now[column] - before[column] }
		// Six SYNs; two fit. Those that were dropped may have been sent again.
		if delta("listen_overflows_total") < 4 || delta("listen_drops_total") < delta("listen_overflows_total") || delta("accepted_total") != 2 || delta("opened_total") != 6 {
			t.Errorf("overflows %v, drops %v, accepted %v, opened %v", delta("listen_overflows_total"), delta("listen_drops_total"), delta("accepted_total"), delta("opened_total"))
		}
		for range 2 {
			if c, _, err := unix.Accept(fd); err != nil {
				t.Error(err)
			} else {
				defer unix.Close(c)
			}
		}
		run(func() { v = values(t, o) })
		if v["accept_queue"] > 1 || v["accept_queue_peak"] > 1 {
			t.Errorf("%v wait after two were accepted, at most %v since the reading before", v["accept_queue"], v["accept_queue_peak"])
		}
	})
}

// Where the target is elsewhere, its side is left out and said so.
func TestGeneratorOnly(t *testing.T) {
	l := listen(t, "tcp4", "127.0.0.1:0")
	pairs := connect(t, l, l.Addr().String(), 2)
	l.Close()
	o := newConnections(t, Config{Name: "net", Address: l.Addr().String()})
	if m := o.Missing(); len(m) != 1 || !strings.Contains(m[0].Error(), "nothing listens on") {
		t.Errorf("missing: %v", m)
	}
	v := values(t, o)
	if _, ok := v["target_connections"]; ok || v["generator_connections"] != 2 || len(v) != sideWidth+1 || o.Name() != "net" {
		t.Errorf("%v of %v", v, pairs)
	}
	if len(o.Columns()) != sideWidth+1 {
		t.Errorf("%d columns", len(o.Columns()))
	}
}

// More sockets than allowed: nothing is known, and the next reading is a new one.
func TestMaxSockets(t *testing.T) {
	l := listen(t, "tcp4", "127.0.0.1:0")
	o := newConnections(t, Config{Address: l.Addr().String(), MaxSockets: 5})
	pairs := connect(t, l, l.Addr().String(), 3)
	row := make([]float64, len(o.Columns()))
	if err := o.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 5 sockets") {
		t.Errorf("6 sockets: %v", err)
	}
	if err := o.Observe(row); err == nil || !math.IsNaN(row[0]) {
		t.Errorf("%v, %v", row, err)
	}
	pairs[0].client.Close()
	pairs[0].server.Close()
	if v := values(t, o); v["target_connections"] != 2 {
		t.Errorf("then %v", v["target_connections"])
	}
}

func TestUnavailable(t *testing.T) {
	var u *observe.Unavailable
	if _, err := NewConnections(t.Context(), Config{Address: "unix:/run/x"}); !errors.As(err, &u) || u.Reason.String() != "a unix socket has no TCP_INFO" || u.Observer != DefaultName {
		t.Errorf("unix socket: %v", err)
	}
	if _, err := NewConnections(t.Context(), Config{Address: "no.such.host.invalid:80"}); !errors.As(err, &u) {
		t.Errorf("no such host: %v", err)
	}
	if _, err := NewCounters("", math.MaxInt32); !errors.As(err, &u) || u.Observer != DefaultCountersName {
		t.Errorf("no such process: %v", err)
	}
	for err, want := range map[error]string{
		fmt.Errorf("x: %w", unix.ENOENT): "help.diag", fmt.Errorf("x: %w", unix.EPERM): "help.netlink", io.ErrUnexpectedEOF: "",
	} {
		if got := remedy(err).Kind; got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	err := Config{Address: "x", PID: -1, Every: 1, MaxSockets: -1}.Validate()
	for _, want := range []string{`address: "x"`, "pid: -1", "every: 1ns", "max_sockets: -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:http", "127.0.0.1:65536"} {
		if (Config{Address: bad}).Validate() == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
	if err := (Config{Address: "[::1]:80"}).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := NewConnections(t.Context(), Config{}); err == nil {
		t.Error("an empty config was accepted")
	}
}
