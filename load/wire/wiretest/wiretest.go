// Package wiretest carries bytes between codecs and tests, as the engine does between
// codecs and sockets. Only tests import it.
package wiretest

import (
	"dyno/load/wire"
)

// TB is what a testing.TB and a rapid.T have in common, as far as codecs' tests need it.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// An Outcome is all that the engine can see of an exchange.
type Outcome struct {
	Used     int // bytes up to the end of the response, or to its fault
	Done     bool
	Err      error
	Reusable bool
	After    error // what bytes after the response met, or what the end met
}

// Respond gives a client whose request is out a response, cut at the given places. It ends
// the connection when the response has neither ended nor failed.
func Respond(tb TB, c wire.Client, input []byte, cuts ...int) (o Outcome) {
	tb.Helper()
	from := 0
	for _, to := range append(cuts, len(input)) {
		piece := input[from:to]
		from = to
		n, done, err := c.Response(piece)
		if n < 0 || n > len(piece) {
			tb.Fatalf("used %d of %d bytes", n, len(piece))
		}
		if n < len(piece) && !done && err == nil {
			tb.Fatalf("used %d of %d bytes without an outcome", n, len(piece))
		}
		o.Used += n
		if o.Done, o.Err = done, err; done || err != nil {
			break
		}
	}
	switch {
	case o.Done && o.Used < len(input):
		n, done, err := c.Response(input[o.Used:])
		if n != 0 || done {
			tb.Fatalf("took %d bytes of no request, done %v", n, done)
		}
		o.After = err
	case !o.Done && o.Err == nil:
		o.After = c.End()
	}
	o.Reusable = c.Reusable()
	return o
}

// Take returns all that a mux has to send, as written.
func Take(c wire.Mux) (all []byte) {
	for p := c.Output(); len(p) > 0; p = c.Output() {
		all = append(all, p...)
		c.Wrote(len(p))
	}
	return all
}
