package oracle

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// oneByte sends a byte and waits for it to come back, as long as the limit.
func oneByte(c net.Conn, limit time.Duration) error {
	if _, err := c.Write([]byte{7}); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// Each server is healthy until it breaks. Then it breaks as it says, on existing connections and on new
// ones.
func TestBreaking(t *testing.T) {
	for _, c := range []struct {
		is        Break
		old, next outcome // of the exchange on a connection there was, and on a new one
	}{
		{Hangs, late, late},
		{Crashes, fine, fine}, // as Crash does nothing here
		{HalfHang, fine, late},
		{NeverReads, late, late},
		{Refuses, ended, refused},
		{Resets, ended, wasReset},
		{Slows, late, late},
	} {
		t.Run(c.is.String(), func(t *testing.T) {
			origin, err := StartNull(t.Context(), Config{Protocol: TCP})
			if err != nil {
				t.Fatal(err)
			}
			defer origin.Close()
			crashed := make(chan struct{})
			// Long enough that the first exchange is over, and too long for the test to wait: it
			// breaks the server itself.
			b, err := StartBreaking(t.Context(), BreakingConfig{
				Addr: "127.0.0.1:0", To: origin.Addr().String(), Break: c.is, After: time.Hour, Delay: time.Second, Crash: func() { close(crashed) },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			old, err := net.Dial("tcp", b.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			if err := oneByte(old, fine.within); err != nil {
				t.Fatalf("before: %v", err)
			}
			b.breakNow()
			if c.is == Crashes {
				<-crashed
			}
			if err := oneByte(old, c.old.within); !c.old.is(err) {
				t.Errorf("on a connection there was: %v", err)
			}
			fresh, err := net.Dial("tcp", b.Addr().String())
			if err == nil {
				defer fresh.Close()
				err = oneByte(fresh, c.next.within)
			}
			if !c.next.is(err) {
				t.Errorf("on a new connection: %v", err)
			}
		})
	}
}

// An outcome is what becomes of an exchange, and how long to wait for it: long enough for a busy
// machine where an answer or an end is to come.
type outcome struct {
	is     func(error) bool
	within time.Duration
}

func isLate(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

var (
	fine     = outcome{func(err error) bool { return err == nil }, hang}
	late     = outcome{isLate, 50 * time.Millisecond}
	refused  = outcome{func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }, hang}
	wasReset = outcome{func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }, hang}
	ended    = outcome{func(err error) bool { return err != nil && !isLate(err) }, hang}
)

func TestBreakingIsBrokenFromTheStart(t *testing.T) {
	b, err := StartBreaking(t.Context(), BreakingConfig{Addr: "127.0.0.1:1", Break: Refuses})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", b.Addr().String()); !refused.is(err) {
		t.Errorf("%v, want that nobody is there", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range []BreakingConfig{
		{Addr: "127.0.0.1:0", Break: Breaks},
		{Addr: "127.0.0.1:0", Break: Crashes},
		{Addr: "0.0.0.0:0"},
		{Addr: "127.0.0.1:0", After: -1},
	} {
		if _, err := StartBreaking(t.Context(), c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

func TestBreakNames(t *testing.T) {
	for is := range Breaks {
		if got, err := ParseBreak(is.String()); err != nil || got != is {
			t.Errorf("%v: %v, %v", is, got, err)
		}
	}
	if _, err := ParseBreak("sulks"); err == nil {
		t.Error("no error")
	}
}
