package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// hang is how long anything may take before a test calls it hung.
const hang = time.Minute

var models = []Model{Goroutine, Pool, Epoll, Pinned}

// A bed holds what a test of one model needs.
type bed struct {
	*testing.T
	model Model
}

// relay starts a relay to an upstream and stops it when the test ends.
func (b bed) relay(to string, change func(*Config)) *Server {
	b.Helper()
	s, stop := b.stoppable(to, change)
	b.Cleanup(stop)
	return s
}

// stoppable starts a relay; stop drains it and checks how it ended.
func (b bed) stoppable(to string, change func(*Config)) (s *Server, stop func()) {
	b.Helper()
	return b.start(to, change, func(*Server) {})
}

// start is stoppable with a change of the relay before it listens.
func (b bed) start(to string, change func(*Config), prepare func(*Server)) (s *Server, stop func()) {
	b.Helper()
	cfg := Defaults()
	cfg.Listen, cfg.To, cfg.Model = "127.0.0.1:0", to, b.model
	cfg.Loops = 2
	cfg.DrainTimeout = 0
	cfg.Logger = slog.New(slog.DiscardHandler)
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	prepare(s)
	if err := s.Listen(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	return s, func() {
		b.Helper()
		cancel()
		select {
		case err := <-served:
			if err != nil {
				b.Errorf("Serve: %v", err)
			}
		case <-time.After(hang):
			b.Fatal("Serve did not return")
		}
		st := s.Stats()
		if st.Open != 0 || st.Buffered != 0 {
			b.Errorf("after the end %d connections are open and %d bytes buffered", st.Open, st.Buffered)
		}
		ends := uint64(0)
		for _, n := range st.Ends {
			ends += n
		}
		if ends != st.Accepted {
			b.Errorf("accepted %d connections, ended %d: %v", st.Accepted, ends, st.Ends)
		}
	}
}

// upstream listens and runs handle for each connection; handle closes it.
func (b bed) upstream(network, address string, handle func(net.Conn)) (to string) {
	b.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if errors.Is(err, syscall.EMFILE) {
				time.Sleep(time.Millisecond)
				continue
			}
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(hang))
			go func() {
				defer func() { _ = c.Close() }()
				handle(c)
			}()
		}
	}()
	b.Cleanup(func() { _ = l.Close(); <-done })
	if network == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}

// echo is an upstream that answers what it gets.
func (b bed) echo() string {
	return b.upstream("tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(c, c) })
}

// socket is a path for a Unix socket.
func (b bed) socket() string {
	dir, err := os.MkdirTemp("", "r") // t.TempDir's paths can be too long
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// duplex is what TCP and Unix connections have in common.
type duplex interface {
	net.Conn
	CloseWrite() error
}

func (b bed) dial(s *Server) duplex {
	b.Helper()
	c, err := net.Dial(s.Addr().Network(), s.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(hang))
	b.Cleanup(func() { _ = c.Close() })
	return c.(duplex)
}

// ping sends text and expects it back.
func (b bed) ping(c net.Conn, text string) { b.Helper(); b.pingAfter(c, "", text) }

// pingAfter sends a header and text in one write and expects the text back.
func (b bed) pingAfter(c net.Conn, header, text string) {
	b.Helper()
	if _, err := io.WriteString(c, header+text); err != nil {
		b.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		b.Fatalf("sent %q after %q, got %q, %v", text, header, got, err)
	}
}

// wantReset expects c to have been reset.
func (b bed) wantReset(c net.Conn) {
	b.Helper()
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		b.Errorf("got %v, want a reset", err)
	}
}

// wantTurnedAway expects a new connection to be reset, which dialling may notice
// already.
func (b bed) wantTurnedAway(s *Server) {
	b.Helper()
	c, err := net.Dial(s.Addr().Network(), s.Addr().String())
	if err != nil {
		if !errors.Is(err, syscall.ECONNRESET) {
			b.Errorf("got %v, want a reset", err)
		}
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(hang))
	b.wantReset(c)
}

// wantEnd expects c to end in order after what.
func (b bed) wantEnd(c net.Conn, what string) {
	b.Helper()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != what {
		b.Errorf("got %q, %v, want %q and the end", got, err, what)
	}
}

// eventually waits for what another goroutine will make true.
func (b bed) eventually(what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(hang); !ok(); {
		if time.Now().After(deadline) {
			b.Fatalf("not reached: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// wantCount waits until a reason has been counted n times.
func (b bed) wantCount(s *Server, why outcome, n uint64) {
	b.Helper()
	b.eventually(why.String(), func() bool { return s.Stats().Ends[why.String()] == n })
}

// exchange sends size random bytes in pieces, ends its side, and checks that they return in order.
func exchange(c duplex, seed uint64, size int) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	sent := make(chan error, 1)
	go func() {
		for rest := data; len(rest) > 0; {
			n := min(1+rng.IntN(1<<rng.IntN(18)), len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				sent <- err
				return
			}
			rest = rest[n:]
		}
		sent <- c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if sha256.Sum256(got) != sha256.Sum256(data) {
		i := 0
		for i < min(len(got), size) && got[i] == data[i] {
			i++
		}
		return fmt.Errorf("sent %d bytes, got %d, which differ from byte %d", size, len(got), i)
	}
	return nil
}

// descriptors counts this process's.
func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}
