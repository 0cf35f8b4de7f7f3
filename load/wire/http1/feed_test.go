package http1

import (
	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

const getRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

func testConfig() Config {
	return Config{Request: []byte(getRequest)}
}

func newTemplate(tb wiretest.TB, c Config) *Template {
	tb.Helper()
	t, err := NewTemplate(c)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// An outcome is all that the engine can see of an exchange.
type outcome struct {
	wiretest.Outcome
	status  int
	body    int64
	departs wire.Deviations
}

// feed sends a request and carries input, cut at the given places.
func feed(tb wiretest.TB, c wire.Client, input []byte, cuts ...int) (o outcome) {
	tb.Helper()
	c.Request()
	o.Outcome = wiretest.Respond(tb, c, input, cuts...)
	if c, ok := c.(*Client); ok {
		o.status, o.body, o.departs = c.Status(), c.BodyBytes(), c.Deviations()
		o.Err, o.After = withoutText(c, o.Err), withoutText(c, o.After)
		if c.part != nil || c.t.contents[c] != nil {
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
