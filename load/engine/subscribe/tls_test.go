//go:build linux

package subscribe

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"dyno/load/wire"
	"golang.org/x/sys/unix"
	"math/big"
	"net"
	"os"
	"testing"

	"dyno/load/engine/clock"
	"dyno/load/wire/tlslayer"
)

// A recorder is a server's connection that keeps what is written, once that is switched on.
type recorder struct {
	net.Conn
	kept *bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.kept != nil {
		return r.kept.Write(p)
	}
	return r.Conn.Write(p)
}

// newSealedPool returns a pool whose first subscriber has a stream over TLS, and what
// seals data as its server does.
func newSealedPool(t *testing.T, version string) (*Pool, func(data []byte) []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := newPoolOver(t, 1, &tlslayer.Config{Insecure: true, ServerName: "h", MaxVersion: version})
	near, far := pair(t)
	to := &recorder{Conn: far}
	server := tls.Server(to, &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12,
		SessionTicketsDisabled: true,
	})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	s := &p.all[0].Socket
	s.FD = near
	_, err = s.StartTLS(p.sockets)
	for err == nil && s.TLS() == tlslayer.Handshaking {
		if _, err = unix.Poll([]unix.PollFd{{Fd: near, Events: unix.POLLIN}}, -1); err != nil {
			break
		}
		n, _, errno := s.Read(p.sockets, p.sockets.Buffer, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		if _, err = s.Unseal(p.sockets.Buffer[:n]); err == nil {
			err = s.FlushTLS(p.sockets, wire.TLS)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	return p, func(data []byte) []byte {
		to.kept = &bytes.Buffer{}
		if _, err := server.Write(data); err != nil {
			t.Fatal(err)
		}
		return to.kept.Bytes()
	}
}

// pair returns the two ends of a connection: a descriptor that does not block, and a connection.
func pair(t *testing.T) (near int32, far net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[1]), "far")
	defer file.Close()
	if far, err = net.FileConn(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = far.Close()
		_ = unix.Close(fds[0])
	})
	return int32(fds[0]), far
}

// An event that arrives over TLS costs what crypto/tls allocates for a record, its reader, and
// nothing else.
func TestUnsealEventsAllocates(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for _, version := range []string{"1.2", "1.3"} {
		p, seal := newSealedPool(t, version)
		s := &p.all[0]
		var records [300][]byte
		for n := range records {
			records[n] = bytes.Clone(seal(eventBytes(1, uint64(n+1))))
		}
		n := 0
		take := func() {
			p.unsealEvents(0, s, records[n], clock.At(1))
			n++
		}
		for range 20 { // crypto/tls's memory grows to what it needs
			take()
		}
		if allocs := testing.AllocsPerRun(100, take); allocs > 1 {
			t.Errorf("TLS %s: %v allocations per event, want at most 1", version, allocs)
		}
		if got := p.streams; got.AllDelivered != uint64(n) || got.Lost > 0 || s.state != subStreaming {
			t.Errorf("TLS %s: %+v", version, got)
		}
	}
}

// An event over TLS has arrived with the segment that completed its record. If the read contained a
// part of the next record, the stamp may belong to that.
func TestSealedEventTimes(t *testing.T) {
	p, seal := newSealedPool(t, "1.3")
	s := &p.all[0]
	s.written = 1
	one, two := bytes.Clone(seal(eventBytes(1, 1))), bytes.Clone(seal(eventBytes(1, 2)))
	at := func(b []byte, arrived int64) {
		p.unsealEvents(0, s, b, clock.Reading{Read: arrived + 5, Arrived: arrived, Stamp: clock.Stamped})
	}
	at(one[:30], 100)
	if p.streams.Delivered != 0 {
		t.Fatal("an event was delivered before its record was complete")
	}
	at(append(bytes.Clone(one[30:]), two[:3]...), 200) // less than a record's header
	if p.rec.Ends().ByArrival != 1 || p.rec.Ends().Shared != 1 || s.latest != 200 {
		t.Errorf("%+v, the latest at %d", p.rec.Ends(), s.latest)
	}
	at(two[3:len(two)-1], 300)
	at(two[len(two)-1:], 400)
	if p.rec.Ends().ByArrival != 2 || p.rec.Ends().Shared != 1 || s.latest != 400 {
		t.Errorf("%+v, the latest at %d", p.rec.Ends(), s.latest)
	}
}
