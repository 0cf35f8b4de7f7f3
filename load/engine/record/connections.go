package record

import (
	"cmp"
	"slices"
	"time"

	"dyno/internal/sums"
	"dyno/load/wire/tlslayer"
)

// Connections counts connections from the beginning to the end, warm-up included.
type Connections struct {
	Requested int // as configured
	Unopened  int // of a closed loop: those that were not open when the load began
	Streams   int `sum:"max"` // exchanges that each carries at once at most, as configured
	// Allowed is the smallest last limit of exchanges at once that a peer set on a connection; 0 where
	// it set no limit.
	Allowed    int           `sum:"min"`
	Opened     uint64        // were established
	Failed     uint64        // were not
	Generator  uint64        // of Failed: for want of descriptors, ports or memory of the generator's own
	Served     int           // places for a connection with a good response to a request of the window or carried into it
	Unanswered int           // places with such requests and no answer, good or bad
	Hung       int           // places whose last such request had waited for an answer for hangTime or more when the measurement ended
	HungFor    time.Duration // how long those had waited, summed
	// Omitted is how long users of a closed loop waited in vain within the window, summed: on a place
	// that hung, or for a target that had stopped answering. The requests that they would have sent are
	// in no count.
	Omitted     time.Duration
	PeerClosed  uint64 // were closed by the peer while no exchange was under way
	Unsolicited uint64 // were closed here because of unrequested bytes
	Pushed      uint64 // messages of peers that no exchange awaited
	Multiplexed uint64 // of Opened: speak a protocol that carries many exchanges at once
	Peak        int    // the most that were open at once, summed over the workers
	// Unqueued are good responses of an open loop before all connections were in use. Their requests
	// were written before the first one had to wait. UnqueuedTime is the sum of their service times.
	Unqueued     uint64
	UnqueuedTime time.Duration
	Reused       uint64 // exchanges on a connection that had carried one before
	Exchanges    uint64 // all exchanges that were begun

	// The same of the requests of the window. A request that is sent again counts again; one without a
	// connection does not count.
	WindowReused, WindowExchanges uint64

	// Counts for protocols whose connections carry many exchanges at once. An exchange is refused that
	// the peer says it has not processed: because its connection takes no more, or for reasons of its
	// own.
	GoAways uint64 // connections on which the peer said that it takes no more exchanges
	Refused uint64 // exchanges that were refused
	Resent  uint64 // of those, the ones whose requests were sent once more; the others failed

	Pings           uint64 // keepalive: pings that were sent
	PingsUnanswered uint64 // keepalive: connections that were given up because a ping was not answered
}

// Allow notes how many exchanges at once the peer allows on a connection; 0 is no limit.
func (c *Connections) Allow(n int) {
	if n > 0 && (c.Allowed == 0 || n < c.Allowed) {
		c.Allowed = n
	}
}

// An Address is what an address of the target was loaded with. Connections are those from the beginning
// to the end, subscriptions included; requests are the window's, and those carried into it.
type Address struct {
	Name   string // host:port, with the number of the host, or the path
	Opened uint64 // connections
	Failed uint64 // connections that were not opened
	OK     uint64 // requests
	Bad    uint64 // requests that failed
	Why    string // it accepted no connection, so that no other went to it: why; "" where it did, or was not tried
}

// AddAddresses adds what another worker or engine did to the same target's addresses.
func (r *Result) AddAddresses(of []Address) {
	for _, o := range of {
		i := slices.IndexFunc(r.Addresses, func(a Address) bool { return a.Name == o.Name })
		if i < 0 {
			r.Addresses = append(r.Addresses, o)
			continue
		}
		sums.Add(&r.Addresses[i], &o)
	}
}

// Handshakes counts TLS handshakes from the beginning to the end, warm-up included.
type Handshakes struct {
	Completed uint64
	Resumed   uint64      // of Completed: they resumed a session
	Retried   uint64      // of Completed: the server asked for another group first, which takes a round trip
	Failed    uint64      // ended by an error, or by the server's closing the connection
	Agreed    []Agreement `sum:"-"`
}

// An Agreement is what a number of handshakes agreed on.
type Agreement struct {
	Version     string // such as "TLS 1.3"
	CipherSuite string // IANA's name
	Group       string // of the key exchange; "" if it was RSA's
	ALPN        string // the protocol that the server chose; "" if it chose none
	Handshakes  uint64
}

// Note counts a handshake.
func (h *Handshakes) Note(i tlslayer.Info) {
	h.Completed++
	if i.Resumed {
		h.Resumed++
	}
	if i.Retried {
		h.Retried++
	}
	h.agree(Agreement{Version: i.Version, CipherSuite: i.CipherSuite, Group: i.Group, ALPN: i.ALPN, Handshakes: 1})
}

// agree adds an agreement to those there are. They are few: a server's settings rarely
// change while it is measured.
func (h *Handshakes) agree(o Agreement) {
	for k := range h.Agreed {
		a := &h.Agreed[k]
		if a.Version == o.Version && a.CipherSuite == o.CipherSuite && a.Group == o.Group && a.ALPN == o.ALPN {
			a.Handshakes += o.Handshakes
			return
		}
	}
	h.Agreed = append(h.Agreed, o)
}

// Add adds the handshakes of another worker or engine. The most frequent agreement is the
// first.
func (h *Handshakes) Add(o *Handshakes) {
	sums.Add(h, o)
	for _, a := range o.Agreed {
		h.agree(a)
	}
	slices.SortStableFunc(h.Agreed, func(a, b Agreement) int { return cmp.Compare(b.Handshakes, a.Handshakes) })
}
