package tlslayer

import "crypto/tls"

// maxTickets bounds the session tickets that a context keeps.
const maxTickets = 64

// tickets are the session tickets of one context, all for the same server, whatever their key. The
// newest is used first, and once only as long as there are others: a ticket that is used twice lets an
// observer link connections (RFC 8446, appendix C.4). A server that keeps sessions instead of
// encrypting them may also refuse it. When there are more than maxTickets, the oldest is forgotten.
type tickets struct{ states []*tls.ClientSessionState }

var _ tls.ClientSessionCache = (*tickets)(nil)

// Get returns the newest ticket.
func (t *tickets) Get(string) (*tls.ClientSessionState, bool) {
	last := len(t.states) - 1
	if last < 0 {
		return nil, false
	}
	newest := t.states[last]
	if last > 0 {
		t.states[last] = nil
		t.states = t.states[:last]
	}
	return newest, true
}

// Put keeps a ticket. With nil, all are forgotten: crypto/tls met one that failed or
// expired, and those that remain are older.
func (t *tickets) Put(_ string, state *tls.ClientSessionState) {
	switch {
	case state == nil:
		clear(t.states)
		t.states = t.states[:0]
	case len(t.states) == maxTickets:
		copy(t.states, t.states[1:])
		t.states[maxTickets-1] = state
	default:
		t.states = append(t.states, state)
	}
}
