package engine

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
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

// newSealedSubscriber returns a worker whose first subscriber has a stream over TLS, and what
// seals data as its server does.
func newSealedSubscriber(t *testing.T, version string) (*worker, func(data []byte) []byte) {
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
	context, err := tlslayer.NewContext(tlslayer.Config{Insecure: true, ServerName: "h", MaxVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	to := &recorder{Conn: far}
	server := tls.Server(to, &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12,
		SessionTicketsDisabled: true,
	})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	c := context.Conn()
	out, err := c.Start(nil)
	p := make([]byte, 16<<10)
	for err == nil {
		if len(out) > 0 {
			if _, err = near.Write(out); err != nil {
				break
			}
		}
		if c.State() != tlslayer.Handshaking {
			break
		}
		var n int
		if n, err = near.Read(p); err == nil {
			_, err = c.Open(p[:n])
			out = c.Flush(nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	w := newSubscriberWorker(t, 1)
	w.subscribers.all[0].tls = c
	return w, func(data []byte) []byte {
		to.kept = &bytes.Buffer{}
		if _, err := server.Write(data); err != nil {
			t.Fatal(err)
		}
		return to.kept.Bytes()
	}
}

// An event that arrives over TLS costs what crypto/tls allocates for a record, its reader, and
// nothing else.
func TestUnsealEventsAllocates(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for _, version := range []string{"1.2", "1.3"} {
		w, seal := newSealedSubscriber(t, version)
		s := &w.subscribers.all[0]
		var records [300][]byte
		for n := range records {
			records[n] = bytes.Clone(seal(eventBytes(1, uint64(n+1))))
		}
		n := 0
		take := func() {
			w.unsealEvents(0, s, records[n], clock.At(1))
			n++
		}
		for range 20 { // crypto/tls's memory grows to what it needs
			take()
		}
		if allocs := testing.AllocsPerRun(100, take); allocs > 1 {
			t.Errorf("TLS %s: %v allocations per event, want at most 1", version, allocs)
		}
		if got := w.subscribers.streams; got.AllDelivered != uint64(n) || got.Lost > 0 || s.state != subStreaming {
			t.Errorf("TLS %s: %+v", version, got)
		}
	}
}

// An event over TLS has arrived with the segment that completed its record. If the reading went
// on with a part of the next record, the stamp may be of that.
func TestSealedEventTimes(t *testing.T) {
	w, seal := newSealedSubscriber(t, "1.3")
	w.rec.Window.Start, w.rec.Window.End = 0, never
	s := &w.subscribers.all[0]
	s.written = 1
	one, two := bytes.Clone(seal(eventBytes(1, 1))), bytes.Clone(seal(eventBytes(1, 2)))
	at := func(p []byte, arrived int64) {
		w.unsealEvents(0, s, p, clock.Reading{Read: arrived + 5, Arrived: arrived, Stamp: clock.Stamped})
	}
	at(one[:30], 100)
	if w.subscribers.streams.Delivered != 0 {
		t.Fatal("an event was delivered before its record was complete")
	}
	at(append(bytes.Clone(one[30:]), two[:3]...), 200) // less than a record's header
	if w.rec.Ends().ByArrival != 1 || w.rec.Ends().Shared != 1 || s.latest != 200 {
		t.Errorf("%+v, the latest at %d", w.rec.Ends(), s.latest)
	}
	at(two[3:len(two)-1], 300)
	at(two[len(two)-1:], 400)
	if w.rec.Ends().ByArrival != 2 || w.rec.Ends().Shared != 1 || s.latest != 400 {
		t.Errorf("%+v, the latest at %d", w.rec.Ends(), s.latest)
	}
}
