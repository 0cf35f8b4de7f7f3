package tcp

import (
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

type outcome wiretest.Outcome

// answers holds a client to the outcome of an answer, however it is cut: not at all, at any one
// place, or at all of them.
func answers(t *testing.T, c wire.Client, answer func(request []byte) []byte, want outcome) {
	t.Helper()
	try := func(cuts ...int) {
		c.Reset()
		if got := outcome(wiretest.Respond(t, c, answer(c.Request()), cuts...)); got != want {
			t.Fatalf("cut at %v:\n got %+v\nwant %+v", cuts, got, want)
		}
	}
	try()
	c.Reset()
	var all []int
	for i := range len(answer(c.Request())) {
		try(i)
		all = append(all, i)
	}
	try(all...)
}

// asked is an answer to one request.
func asked(t *testing.T, want, answer string) func([]byte) []byte {
	return func(request []byte) []byte {
		if string(request) != want {
			t.Fatalf("request %q; want %q", request, want)
		}
		return []byte(answer)
	}
}
