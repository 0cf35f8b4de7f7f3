package fanout

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dyno/hub/journal"
	"dyno/internal/leak"

	"golang.org/x/sys/unix"
)

const timeout = 60 * time.Second // until a test gives up; no measure of anything

func TestMain(m *testing.M) { leak.Main(m) }

// fatal is the common part of rapid's and testing's tests.
type fatal interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// newJournal returns an empty journal with room for some entries.
func newJournal(t fatal, events int) *journal.Journal {
	t.Helper()
	c := journal.Defaults()
	c.Events, c.Epoch = events, "e"
	j, err := journal.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// add appends entries with one topic; data is the sequence number and padding.
func add(t fatal, j *journal.Journal, topic string, size int) *journal.Entry {
	t.Helper()
	data := strconv.FormatUint(j.Head()+1, 10)
	if pad := size - len(data) - 1; pad > 0 {
		data += " " + strings.Repeat("x", pad)
	}
	e, err := j.Append(journal.Update{Topics: []string{topic}, Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// newLoop returns a loop that does not run.
func newLoop(t fatal, c Config, s Source) *Loop {
	t.Helper()
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// runs runs a loop until the test ends.
func runs(t *testing.T, c Config, s Source) *Loop {
	t.Helper()
	l := newLoop(t, c, s)
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return l
}

// settled waits until the loop has done everything that it was asked for and knew of.
func settled(t fatal, l *Loop) []Client {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	list, err := l.Clients(ctx, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// until waits for a condition on the loop's counts.
func until(t fatal, l *Loop, what string, ok func(Stats) bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !ok(l.Stats()); {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s: %+v", what, l.Stats())
		}
		settled(t, l)
	}
}

// A conn is the subscriber's end of a connection.
type conn interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// connect returns both ends of a connection, the server's as a descriptor. A tiny one
// takes only a few kilobytes, so that frames are cut. It is a Unix socket, because TCP
// with such buffers waits for delayed acknowledgements.
func connect(t fatal, tiny bool) (fd int, peer conn) {
	t.Helper()
	if tiny {
		return pair(t)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return detach(t, s.(*net.TCPConn)), c.(*net.TCPConn)
}

func pair(t fatal) (fd int, peer conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[1]), "pair")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], c.(*net.UnixConn)
}

func control(t fatal, c syscall.Conn, f func(fd int)) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// detach removes a connection from Go's poller.
func detach(t fatal, c conn) (fd int) {
	t.Helper()
	control(t, c, func(d int) {
		var err error
		if fd, err = unix.FcntlInt(uintptr(d), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
	})
	c.Close()
	return fd
}

// all matches everything.
func all(*journal.Entry) bool { return true }

// about matches a topic.
func about(topic string) func(*journal.Entry) bool {
	return func(e *journal.Entry) bool { return e.Topics[0] == topic }
}

// subscribe adds a subscriber and returns its end of the connection.
func subscribe(t fatal, l *Loop, s Subscriber, tiny bool) *stream {
	t.Helper()
	fd, peer := connect(t, tiny)
	if s.Match == nil {
		s.Match = all
	}
	if err := l.Add(context.Background(), fd, s); err != nil {
		t.Fatal(err)
	}
	return newStream(peer)
}

// A stream reads events.
type stream struct {
	conn   conn
	r      *bufio.Reader
	pulled []byte // read from the socket already
	beats  int
	closed error // how it ended
}

func newStream(c conn) *stream {
	_ = c.SetReadDeadline(time.Now().Add(timeout))
	s := &stream{conn: c}
	s.r = bufio.NewReader(s)
	return s
}

// Read reads what was pulled, and then from the socket.
func (s *stream) Read(b []byte) (int, error) {
	if len(s.pulled) > 0 {
		n := copy(b, s.pulled)
		s.pulled = s.pulled[n:]
		return n, nil
	}
	return s.conn.Read(b)
}

// An event is an event as a stream read it.
type event struct {
	seq uint64 // from its data; 0 for a gap
	id  string
	gap journal.Gap
}

// next reads an event. ok is false at the end of the stream; anything but whole frames
// before it is a fault.
func (s *stream) next(t fatal) (ev event, ok bool) {
	t.Helper()
	kind, data, lines := "", "", 0
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.closed = err
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatalf("nothing more came")
			}
			return ev, false
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			if lines == 0 {
				continue // after a comment
			}
			if kind == journal.GapType {
				var g struct {
					From, To uint64
					Missed   *int
				}
				if err := json.Unmarshal([]byte(data), &g); err != nil {
					t.Fatalf("gap %q: %v", data, err)
				}
				ev.gap = journal.Gap{From: g.From, To: g.To, Missed: -1}
				if g.Missed != nil {
					ev.gap.Missed = *g.Missed
				}
				return ev, true
			}
			number, _, _ := strings.Cut(data, " ")
			if ev.seq, err = strconv.ParseUint(number, 10, 64); err != nil {
				t.Fatalf("data %q: %v", data, err)
			}
			if want := fmt.Sprintf("dyno:e-%d", ev.seq); ev.id != want {
				t.Fatalf("id %q with data %d, want %q", ev.id, ev.seq, want)
			}
			return ev, true
		case line == ":":
			s.beats++
		case name == "id":
			ev.id = value
			lines++
		case name == "event":
			kind = value
			lines++
		case name == "data":
			data = value
			lines++
		default:
			t.Fatalf("line %q", line)
		}
	}
}

// expect reads events with these numbers.
func (s *stream) expect(t fatal, seqs ...uint64) {
	t.Helper()
	for _, want := range seqs {
		if ev, ok := s.next(t); !ok || ev.seq != want {
			t.Fatalf("got %+v (%v), want event %d", ev, s.closed, want)
		}
	}
}

// rest reads to the end of the stream.
func (s *stream) rest(t fatal) (events []event) {
	t.Helper()
	for {
		ev, ok := s.next(t)
		if !ok {
			return events
		}
		events = append(events, ev)
	}
}

// end expects the stream to be over.
func (s *stream) end(t fatal, reset bool) {
	t.Helper()
	if ev, ok := s.next(t); ok {
		t.Fatalf("got %+v, want the end", ev)
	}
	if clean := errors.Is(s.closed, io.EOF); clean == reset {
		t.Fatalf("ended with %v, want a reset: %v", s.closed, reset)
	}
	s.conn.Close()
}

func numbers(from, to uint64) (seqs []uint64) {
	for ; from <= to; from++ {
		seqs = append(seqs, from)
	}
	return seqs
}
