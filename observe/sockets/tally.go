//go:build linux

package sockets

import (
	"math"

	"dyno/host/sockdiag"
	"dyno/observe"
)

// A tally sums up one side's sockets, dump by dump. Levels belong to the newest dump. Counters of a
// socket that is gone stay counted, up to the last dump that saw it; what it added after that was never
// seen.
type tally struct {
	accounts map[uint64]account // by cookie
	round    uint32             // of dumps
	grown    growth             // since the sockets seen first were made

	// Figures of the current dump, or of the last one.
	connections           int
	receive, send         uint64 // bytes
	unsent, unacked       uint64
	minRTT                uint32 // microseconds
	rtt, window, delivery mean
	maxRTT                float64
	shortest              int // of the kernel's tcp_info structures
}

// An account is the last that was heard of a socket.
type account struct {
	growth
	round uint32
}

// A growth is what only grows with a socket's life. Times are in microseconds.
type growth struct {
	retransmits              uint64
	busy, window, sendBuffer uint64
}

func (g *growth) add(now, last growth) {
	g.retransmits += now.retransmits - last.retransmits
	g.busy += now.busy - last.busy
	g.window += now.window - last.window
	g.sendBuffer += now.sendBuffer - last.sendBuffer
}

// atLeast returns the larger of each: a kernel that took something back must not
// make a sum wrap around.
func (g growth) atLeast(o growth) growth {
	return growth{max(g.retransmits, o.retransmits), max(g.busy, o.busy), max(g.window, o.window), max(g.sendBuffer, o.sendBuffer)}
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum += v; m.n++ }

func (m mean) value() float64 {
	if m.n == 0 {
		return math.NaN()
	}
	return m.sum / float64(m.n)
}

// begin starts a dump.
func (t *tally) begin() {
	if t.accounts == nil {
		t.accounts = make(map[uint64]account)
	}
	*t = tally{accounts: t.accounts, round: t.round + 1, grown: t.grown, minRTT: math.MaxUint32, maxRTT: math.NaN(), shortest: math.MaxInt}
}

// add counts a socket.
func (t *tally) add(s *sockdiag.Socket) {
	info := s.Info
	t.shortest = min(t.shortest, len(info))
	last := t.accounts[s.Cookie]
	now := growth{
		retransmits: uint64(u32(info, infoRetransmits)),
		busy:        u64(info, infoBusy),
		window:      u64(info, infoWindow),
		sendBuffer:  u64(info, infoSendBuffer),
	}.atLeast(last.growth)
	t.grown.add(now, last.growth)
	t.accounts[s.Cookie] = account{now, t.round}

	t.receive += uint64(s.ReceiveQueue)
	t.send += uint64(s.SendQueue)
	t.unsent += uint64(u32(info, infoUnsent))
	t.unacked += uint64(u32(info, infoUnacked))
	if s.State != sockdiag.Established {
		return // its peer, or its owner, is done with it
	}
	t.connections++
	t.window.add(float64(u32(info, infoCongestion)))
	if rtt := u32(info, infoRTT); rtt > 0 { // none before the first acknowledgement
		seconds := float64(rtt) / 1e6
		t.rtt.add(seconds)
		if !(seconds <= t.maxRTT) {
			t.maxRTT = seconds
		}
	}
	if has32(len(info), infoMinRTT) {
		t.minRTT = min(t.minRTT, u32(info, infoMinRTT))
	}
	if rate := u64(info, infoDelivery); rate > 0 { // none before data were acknowledged
		t.delivery.add(float64(rate))
	}
}

// end forgets the sockets that a complete dump has not seen.
func (t *tally) end() {
	for cookie, a := range t.accounts {
		if a.round != t.round {
			delete(t.accounts, cookie)
		}
	}
}

// sideColumns are one side's columns, in the order of fill.
func sideColumns(prefix, of string) []observe.Column {
	of = ", " + of
	return []observe.Column{
		{Name: prefix + "connections", Kind: observe.Gauge, Help: "established connections" + of},
		{Name: prefix + "rtt_mean_seconds", Kind: observe.Gauge, Help: "smoothed round-trip time, mean over connections" + of},
		{Name: prefix + "rtt_max_seconds", Kind: observe.Gauge, Help: "smoothed round-trip time, of the slowest connection" + of},
		{Name: prefix + "rtt_min_seconds", Kind: observe.Gauge, Help: "least round-trip time that the kernel remembers of any connection" + of},
		{Name: prefix + "retransmits_total", Kind: observe.Counter, Help: "segments sent again, up to the last reading of each connection" + of},
		{Name: prefix + "unsent_bytes", Kind: observe.Gauge, Help: "written by the application and not sent yet" + of},
		{Name: prefix + "unacked_segments", Kind: observe.Gauge, Help: "sent and not acknowledged yet" + of},
		{Name: prefix + "receive_queue_bytes", Kind: observe.Gauge, Help: "received and not read by the application yet" + of},
		{Name: prefix + "send_queue_bytes", Kind: observe.Gauge, Help: "written by the application and not acknowledged yet" + of},
		{Name: prefix + "congestion_window_segments", Kind: observe.Gauge, Help: "congestion window, mean over connections" + of},
		{Name: prefix + "delivery_rate_bytes_per_second", Kind: observe.Gauge, Help: "latest rate of delivery, mean over connections that have one" + of},
		{Name: prefix + "busy_seconds", Kind: observe.Counter, Help: "time with data to send, added over connections" + of},
		{Name: prefix + "receive_window_limited_seconds", Kind: observe.Counter, Help: "of the busy time, waiting for the peer's receive window" + of},
		{Name: prefix + "send_buffer_limited_seconds", Kind: observe.Counter, Help: "of the busy time, waiting for room in the own send buffer" + of},
	}
}

// fill writes the side's values. Where one socket's tcp_info lacks a field, the
// whole value is not known.
func (t *tally) fill(row []float64) {
	const micro = 1e6
	minRTT := math.NaN()
	if t.minRTT != math.MaxUint32 {
		minRTT = float64(t.minRTT) / micro
	}
	for i, v := range []struct {
		known bool
		value float64
	}{
		{true, float64(t.connections)},
		{has32(t.shortest, infoRTT), t.rtt.value()},
		{has32(t.shortest, infoRTT), t.maxRTT},
		{has32(t.shortest, infoMinRTT), minRTT},
		{has32(t.shortest, infoRetransmits), float64(t.grown.retransmits)},
		{has32(t.shortest, infoUnsent), float64(t.unsent)},
		{has32(t.shortest, infoUnacked), float64(t.unacked)},
		{true, float64(t.receive)},
		{true, float64(t.send)},
		{has32(t.shortest, infoCongestion), t.window.value()},
		{has64(t.shortest, infoDelivery), t.delivery.value()},
		{has64(t.shortest, infoBusy), float64(t.grown.busy) / micro},
		{has64(t.shortest, infoWindow), float64(t.grown.window) / micro},
		{has64(t.shortest, infoSendBuffer), float64(t.grown.sendBuffer) / micro},
	} {
		row[i] = math.NaN()
		if v.known {
			row[i] = v.value
		}
	}
}
