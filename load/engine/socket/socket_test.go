package socket

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"dyno/load/engine/poll"
	"dyno/load/wire"
)

// A connected pair is a socket of a thread and its peer.
type connected struct {
	*Socket
	thread *Thread
	peer   *net.TCPConn
}

func newThread(t *testing.T, address string) *Thread {
	t.Helper()
	to, err := Resolve(t.Context(), "tcp", address, false)
	if err != nil {
		t.Fatal(err)
	}
	thread, err := NewThread(to.Used, 0, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(thread.Poller.Close)
	return thread
}

// next waits for the next event of the thread's only socket.
func next(t *testing.T, thread *Thread) uint32 {
	t.Helper()
	for range 100 { // signals end waits
		if events := thread.Poller.Wait(0, int64(100*time.Second)); len(events) > 0 {
			if events[0].Fd == poll.WakeToken {
				t.Fatal("no event in time")
			}
			return events[0].Events
		}
	}
	t.Fatal("no event")
	return 0
}

// silent checks that there is no event: a worker would go round and round.
func silent(t *testing.T, thread *Thread, when string) {
	t.Helper()
	if events := thread.Poller.Poll(); len(events) > 0 {
		t.Errorf("%s: events %+v, want none", when, events)
	}
}

func connectedPair(t *testing.T) connected {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	thread := newThread(t, l.Addr().String())
	s := thread.New()
	if err := s.Open(thread, 7, 0); err != nil {
		t.Fatal(err)
	}
	if events := next(t, thread); events&poll.Out == 0 {
		t.Fatalf("events %#x of a socket that connects, want that it can be written to", events)
	}
	if err := poll.ConnectResult(s.FD); err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	return connected{&s, thread, peer.(*net.TCPConn)}
}

// Bytes that a socket does not take at once go when there is room. One event says so.
func TestWriteWaitsForRoom(t *testing.T) {
	s := connectedPair(t)
	silent(t, s.thread, "a socket that was connected")
	const size = 16 << 20
	s.Put(make([]byte, size))
	if err := s.Flush(s.thread, wire.Reset); err != nil {
		t.Fatal(err)
	}
	if !s.Pending() {
		t.Fatalf("the socket takes %d bytes", size)
	}
	received := make(chan int64)
	go func() {
		n, _ := io.CopyN(io.Discard, s.peer, size) // a shorter one is seen below
		received <- n
	}()
	for s.Pending() {
		if events := next(t, s.thread); events&poll.Out != 0 {
			if err := s.Flush(s.thread, wire.Reset); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := <-received; n != size {
		t.Errorf("%d bytes arrived of %d", n, size)
	}
}

// Arrivals make events until a reader has its own pace.
func TestReadAndEnd(t *testing.T) {
	s := connectedPair(t)
	if _, err := s.peer.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if events := next(t, s.thread); events&poll.In == 0 {
		t.Errorf("events %#x, want that something arrived", events)
	}
	n, _, errno := s.Read(s.thread, s.thread.Buffer, 0)
	if n != 3 || errno != 0 {
		t.Errorf("%d bytes, %v", n, errno)
	}
	silent(t, s.thread, "a socket that was read")
	if _, _, errno := s.Read(s.thread, s.thread.Buffer, 0); errno != syscall.EAGAIN {
		t.Errorf("%v of an empty socket, want EAGAIN", errno)
	}
	if _, err := s.peer.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	next(t, s.thread)
	s.IgnoreIn(s.thread)
	silent(t, s.thread, "a socket of a slow reader")
	if err := s.peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if poll.PeerEnded != 0 { // elsewhere a slow reader finds the end when it reads
		if events := next(t, s.thread); events&poll.PeerEnded == 0 {
			t.Errorf("events %#x, want that the peer ended", events)
		}
	}
	s.Close(s.thread)
	silent(t, s.thread, "a closed socket")
}

// An error has the same name on all systems.
func TestErrors(t *testing.T) {
	s := connectedPair(t)
	s.Put([]byte("ab"))
	if err := s.Flush(s.thread, wire.Reset); err != nil {
		t.Fatal(err)
	}
	// A peer that leaves something unread resets the connection.
	if _, err := io.ReadFull(s.peer, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.peer.Close(); err != nil {
		t.Fatal(err)
	}
	next(t, s.thread)
	if n, _, errno := s.Read(s.thread, s.thread.Buffer, 0); errno != syscall.ECONNRESET {
		t.Errorf("%d bytes, %v; want ECONNRESET", n, errno)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	thread := newThread(t, l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	refused := thread.New()
	err = refused.Open(thread, 7, 0)
	if err == nil {
		if events := next(t, thread); events&(poll.Out|poll.Failure|poll.HangUp) == 0 {
			t.Errorf("events %#x of a refused connection", events)
		}
		err = poll.ConnectResult(refused.FD)
	}
	if err != syscall.ECONNREFUSED { //nolint:errorlint // it is that very error
		t.Errorf("%v, want ECONNREFUSED", err)
	}
}
