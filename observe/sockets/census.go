package sockets

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// A Census counts this machine's connections to many addresses at a time, by groups that its
// caller has for them, by the kernel's own account. It is used by one goroutine at a time.
type Census struct {
	diag   *diag
	most   int
	groups map[string]*tally
}

// A Standing is how a group's connections are, of the side that has connected. What the kernel
// does not tell is NaN.
type Standing struct {
	Connections int     // established
	MeanRTT     float64 // smoothed round-trip time in seconds, mean over connections; NaN before the first acknowledgement
	MaxRTT      float64 // of the slowest connection

	// Segments that were sent again and time with data to send, since the connections that were
	// there first were made, up to the last count of each connection.
	Retransmits float64
	Busy        float64 // seconds, added over connections

	Unsent       int64 // bytes written and not sent yet
	Unacked      int64 // segments sent and not acknowledged yet
	ReceiveQueue int64 // bytes received and not read yet
}

// NewCensus begins one, of no more sockets than most at a time.
func NewCensus(most int) (*Census, error) {
	d, err := newDiag(0, dumpTimeout)
	if err != nil {
		return nil, fmt.Errorf("sockets: %w", err)
	}
	return &Census{diag: d, most: most, groups: map[string]*tally{}}, nil
}

// Close ends the census.
func (c *Census) Close() { c.diag.close() }

// Count counts anew. The function says to which group a connection to an address belongs, if to
// any. A group stays, with what its connections have added up to, when it has none any more.
func (c *Census) Count(ctx context.Context, groupOf func(remote netip.AddrPort) (group string, ok bool)) (map[string]Standing, error) {
	for _, t := range c.groups {
		t.begin()
	}
	n := 0
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		// Addresses are too many for a filter: its program is short.
		err := c.diag.dump(ctx, request{family: family, states: statesOpen, info: true}, func(s *socket) error {
			if n++; n > c.most {
				return fmt.Errorf("more than %d sockets", c.most)
			}
			group, ok := groupOf(s.remote)
			if !ok {
				return nil
			}
			t := c.groups[group]
			if t == nil {
				t = &tally{}
				t.begin()
				c.groups[group] = t
			}
			t.add(s)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("sockets: %w", err)
		}
	}
	all := make(map[string]Standing, len(c.groups))
	for group, t := range c.groups {
		t.end()
		all[group] = t.standing()
	}
	return all, nil
}

// standing is a tally's result.
func (t *tally) standing() Standing {
	s := Standing{
		Connections: t.connections, MeanRTT: t.rtt.value(), MaxRTT: t.maxRTT,
		Retransmits: math.NaN(), Busy: math.NaN(),
		Unsent: int64(t.unsent), Unacked: int64(t.unacked), ReceiveQueue: int64(t.receive), //nolint:gosec // sums of what memory holds
	}
	if has32(t.shortest, infoRetransmits) {
		s.Retransmits = float64(t.grown.retransmits)
	}
	if has64(t.shortest, infoBusy) {
		s.Busy = (time.Duration(t.grown.busy) * time.Microsecond).Seconds() //nolint:gosec // centuries
	}
	return s
}
