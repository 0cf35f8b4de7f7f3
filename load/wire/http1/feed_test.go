package http1

import (
	"fmt"

	"dyno/load/wire"
)

// fatalTB is what a testing.TB and a rapid.T have in common, as far as needed.
type fatalTB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

const getRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

func testConfig() Config {
	return Config{Request: []byte(getRequest), Limits: DefaultLimits()}
}

func newTemplate(tb fatalTB, c Config) *Template {
	tb.Helper()
	t, err := NewTemplate(c)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// An outcome is all that the engine can see of an exchange.
type outcome struct {
	used     int // bytes up to the end of the response, or to its fault
	done     bool
	err      error
	status   int
	body     int64
	reusable bool
	after    error // what bytes after the response met, or what the end met
	departs  wire.Deviations
}

func (o outcome) String() string {
	return fmt.Sprintf("used %d, done %v, err %v, status %d, body %d, reusable %v, after %v, deviations %b",
		o.used, o.done, o.err, o.status, o.body, o.reusable, o.after, o.departs)
}

// feed carries input, cut at the given places, as the engine does, and ends the
// connection when the response has neither ended nor failed.
func feed(tb fatalTB, c wire.Client, input []byte, cuts ...int) (o outcome) {
	tb.Helper()
	c.Request()
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
	if c, ok := c.(*Client); ok {
		o.status, o.body, o.departs = c.Status(), c.BodyBytes(), c.Deviations()
		o.err, o.after = withoutText(c, o.err), withoutText(c, o.after)
		if c.part != nil || c.t.said[c] != nil {
			tb.Fatal("an exchange that has ended holds a buffer")
		}
	}
	return o
}

// withoutText returns the error of a status without what the content says about it.
func withoutText(c *Client, err error) error {
	if wire.KindOf(err) == wire.Status {
		return wire.StatusError(c.Status())
	}
	return err
}
