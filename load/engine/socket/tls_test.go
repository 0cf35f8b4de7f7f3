//go:build linux

package socket

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine/poll"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// While the socket takes nothing, TLS's own output waits in its layer, which bounds it. It goes when
// there is room again.
func TestTLSWaitsForRoom(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(pair[0]) }()
	defer func() { _ = unix.Close(pair[1]) }()
	thread, err := NewThread([]Endpoint{{}}, 0, &tlslayer.Config{Insecure: true, ServerName: "h"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer thread.Poller.Close()
	s := thread.New()
	s.FD = int32(pair[0])
	if _, err := s.StartTLS(thread); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteSealed(thread, make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	waiting := len(s.pending)
	if waiting == 0 {
		t.Fatal("the socket takes 4 MiB")
	}
	unknown := []byte{22, 3, 3, 0, 4, 99, 0, 0, 0} // a handshake message that there is not
	if _, err := s.Unseal(unknown); err == nil || !s.tls.Pending() {
		t.Fatalf("%v: want an error of which an alert tells", err)
	}
	if err := s.FlushTLS(thread, wire.Reset); err != nil || len(s.pending) != waiting {
		t.Errorf("%v; %d bytes wait outside of TLS, want %d", err, len(s.pending), waiting)
	}
	for buffer := make([]byte, 1<<20); s.Pending(); {
		if _, errno := poll.Read(int32(pair[1]), buffer); errno != 0 {
			t.Fatal(errno)
		}
		if err := s.Flush(thread, wire.Reset); err != nil {
			t.Fatal(err)
		}
	}
	if s.tls.Pending() {
		t.Error("the alert still waits")
	}
}
