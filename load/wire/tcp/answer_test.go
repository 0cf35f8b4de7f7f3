package tcp

import (
	"fmt"

	"dyno/load/wire"
)

// fatalTB is what a testing.TB and a rapid.T have in common, as far as needed.
type fatalTB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// An outcome is all that the engine can see of an exchange.
type outcome struct {
	used     int // bytes up to the end of the response, or to its fault
	done     bool
	err      error
	reusable bool
	after    error // what bytes after the response met, or what the end met
}

func (o outcome) String() string {
	return fmt.Sprintf("used %d, done %v, err %v, reusable %v, after %v", o.used, o.done, o.err, o.reusable, o.after)
}

// answer carries input, cut at the given places, as the engine does once a request
// is out, and ends the connection when the response has neither ended nor failed.
func answer(tb fatalTB, c wire.Client, input []byte, cuts ...int) (o outcome) {
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
		o.used += n
		if o.done, o.err = done, err; done || err != nil {
			break
		}
	}
	switch {
	case o.done && o.used < len(input):
		n, done, err := c.Response(input[o.used:])
		if n != 0 || done {
			tb.Fatalf("took %d bytes of no request, done %v", n, done)
		}
		o.after = err
	case !o.done && o.err == nil:
		o.after = c.End()
	}
	o.reusable = c.Reusable()
	return o
}

// everyCut calls f with no cut, a cut at every place, and all cuts at once.
func everyCut(n int, f func(cuts ...int)) {
	f()
	all := make([]int, n)
	for i := range n {
		all[i] = i
		f(i)
	}
	f(all...)
}
