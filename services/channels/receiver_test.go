package channels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/internal/freeport"
)

func framedSource(address string) Source {
	return Source{Kind: TCP, Address: address, Framing: Framed, MaxRecordBytes: 1 << 10}
}

// From a channel to a channel, whose process ends and is started again on the same port: with
// orderly ends each record is in the file exactly once, in order.
func TestChannelToChannel(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	sink := Sink{Kind: File, Format: Framed, Path: out, Sync: SyncNever}
	address := freeport.Address(t)
	second := start(t, Config{Channels: []Channel{{Name: "b", Source: framedSource(address), Sink: quick(sink)}}}, nil, nil)
	first := start(t, Config{Channels: []Channel{{Name: "a", Source: tcpSource(), Buffer: Buffer{Records: 64},
		Sink: quick(Sink{Kind: TCP, Format: Framed, Address: address})}}}, nil, nil)

	const bursts, each = 10, 200
	var received, missing uint64
	for burst := range bursts {
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			produce(t, first.Addr("a"), burst+1, each, rand.New(rand.NewPCG(uint64(burst), 1)))
		}()
		second.until("some have arrived", func(st Stats) bool { return st.Received > 0 })
		if err := second.stop(); err != nil {
			t.Fatal(err)
		}
		st := second.Stats()[0]
		received, missing = received+st.Received, missing+st.Missing
		second = start(t, Config{Channels: []Channel{{Name: "b", Source: framedSource(address), Sink: quick(sink)}}}, nil, nil)
		<-sent
		// The next burst begins with nothing on the way, so that each process gets some.
		first.until("all delivered", func(st Stats) bool { return st.Delivered == uint64(each*(burst+1)) })
	}
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	if err := second.stop(); err != nil {
		t.Error(err)
	}
	st := second.Stats()[0]
	received += st.Received
	if received != bursts*each {
		t.Errorf("%d records received in all, %d sent", received, bursts*each)
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := NewReader(file, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range bursts * each {
		r, err := records.Next()
		if err != nil {
			t.Fatalf("record %d: %v", i+1, err)
		}
		if want := fmt.Sprintf("%d %d ", i/each+1, i%each+1); !strings.HasPrefix(string(r.Payload), want) {
			t.Fatalf("record %d begins with %.12q: want %q", i+1, r.Payload, want)
		}
	}
	if _, err := records.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last record: %v", err)
	}
	if missing += st.Missing; missing != 0 {
		t.Errorf("%d numbers are missing, and nothing was dropped", missing)
	}
	if connects := first.Stats()[0].Connects; connects < bursts { // the last one may not have been reached
		t.Errorf("%d connections: the second channel was hardly ever away", connects)
	}
}

// peer speaks to a framed source by hand.
type peer struct {
	net.Conn
	t *testing.T
}

func connect(t *testing.T, s *serving, id StreamID) (p peer, last uint64) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr("c").String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hang))
	p = peer{conn, t}
	send(t, conn, headerMagic+string(id[:]))
	return p, p.acknowledged()
}

func (p peer) acknowledged() uint64 {
	p.t.Helper()
	var ack [ackSize]byte
	if _, err := io.ReadFull(p, ack[:]); err != nil {
		p.t.Fatal(err)
	}
	return binary.BigEndian.Uint64(ack[:])
}

func frame(seq uint64, payload string) string {
	r := Record{Payload: []byte(payload)}
	r.seal(seq, castagnoli(0, r.Payload))
	return string(r.AppendFrame(nil))
}

func TestFramedSource(t *testing.T) {
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: framedSource("127.0.0.1:0"), Sink: Sink{Kind: Stdout, Format: Framed}}}}, nil, io.Discard)
	stream := StreamID{1}
	p, last := connect(t, s, stream)
	if last != 0 {
		t.Errorf("a new stream has record %d already", last)
	}
	send(t, p, frame(1, "one")+frame(2, "two"))
	for last < 2 {
		last = p.acknowledged()
	}
	// The other end takes the connection for lost, and sends the last record again.
	again, last := connect(t, s, stream)
	if last != 2 {
		t.Errorf("after two records the source has %d", last)
	}
	send(t, again, frame(2, "two")+frame(5, "five"))
	for last != 5 {
		last = again.acknowledged()
	}
	// Another stream has numbers of its own.
	other, last := connect(t, s, StreamID{2})
	if last != 0 {
		t.Errorf("another stream has record %d already", last)
	}
	// A record that is too long, and one whose checksum is wrong, end their connections.
	send(t, other, frame(1, strings.Repeat("x", 2<<10)))
	broken := []byte(frame(6, "six"))
	broken[len(broken)-1]++
	send(t, again, string(broken))
	for _, p := range []peer{other, again} {
		if n, err := p.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection goes on with %d bytes", n)
		}
	}
	s.until("both are counted", func(st Stats) bool { return st.Rejected == 2 })
	p.Close()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	st := s.Stats()[0]
	if st.Received != 3 || st.Delivered != 3 || st.Repeated != 1 || st.Missing != 2 || st.Torn != 0 {
		t.Errorf("%+v", st)
	}
}

// Who connects and says nothing holds its place for the idle time only.
func TestFramedSourceIdle(t *testing.T) {
	source := framedSource("127.0.0.1:0")
	source.IdleTimeout = 10 * time.Millisecond
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: source, Sink: Sink{Kind: Stdout, Format: Framed}}}}, nil, io.Discard)
	for _, said := range []string{"", headerMagic + strings.Repeat("s", 16)} {
		conn, err := net.Dial("tcp", s.Addr("c").String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(hang))
		send(t, conn, said)
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("after %q: %v: want the end of the connection", said, err)
		}
		conn.Close()
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// Streams are remembered up to a number, and those that are connected always.
func TestReceiverForgets(t *testing.T) {
	id := func(n int) (id StreamID) {
		binary.BigEndian.PutUint32(id[:], uint32(n))
		return id
	}
	r := newReceiver(1, 0, &counters{})
	var connected *received
	for n := range maxStreams {
		s, err := r.enter(id(n))
		if err != nil {
			t.Fatal(err)
		}
		s.last = uint64(n + 1)
		if n == 0 {
			connected = s
		} else {
			r.leave(s)
		}
	}
	if _, err := r.enter(id(maxStreams)); err != nil {
		t.Fatal(err)
	}
	if len(r.streams) != maxStreams || r.streams[id(0)] != connected || r.streams[id(1)] != nil || r.streams[id(2)] == nil {
		t.Errorf("%d streams; the connected one is there: %v; the oldest is gone: %v", len(r.streams), r.streams[id(0)] == connected, r.streams[id(1)] == nil)
	}
	for n := range maxStreams {
		if _, err := r.enter(id(n + 2*maxStreams)); err != nil && n != maxStreams-2 && n != maxStreams-1 {
			t.Fatal(n, err)
		} else if err == nil && n >= maxStreams-2 {
			t.Fatalf("%d streams are connected, and another came", maxStreams)
		}
	}
}
