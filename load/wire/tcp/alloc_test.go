package tcp

import (
	"bytes"
	"testing"
)

func TestNoAllocation(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for _, tt := range clientTests(t) {
		name := tt.name
		if n := testing.AllocsPerRun(100, func() { exchangeOnce(t, tt.client, tt.answer) }); n != 0 {
			t.Errorf("%s: %v allocations per exchange; want none", name, n)
		}
	}
}

func TestMessagesDoNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for _, f := range []Framing{Same, Lines, Length} {
		c := newMessages(t, f, Message{Varies: true})
		parts := [][]byte{[]byte("hello")}
		answer := bytes.Clone(c.Compose(0, parts))
		if n := testing.AllocsPerRun(100, func() {
			c.Compose(0, parts)
			if _, done, err := c.Response(answer); !done || err != nil {
				t.Errorf("%v, %v", done, err)
			}
		}); n != 0 {
			t.Errorf("framing %d: %v allocations", f, n)
		}
	}
}
