package llm

import (
	"strings"
	"testing"
)

// Once warm, an answer costs no allocation.
func TestAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	keeping := config("{}")
	keeping.Expects = []Expect{{Keep: 1 << 20}}
	template, err := NewTemplate(keeping)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Client{client(t), template.Client()} {
		allocations(t, c)
	}
}

func allocations(t *testing.T, c *Client) {
	t.Helper()
	pieces := [][]byte{[]byte(head)}
	for _, p := range strings.SplitAfter(chunked(role, token("a"), token("b"), stop, usage5, "[DONE]"), "\n\n\r\n") {
		pieces = append(pieces, []byte(p))
	}
	// A chunk's event in two pieces as well.
	pieces = append(pieces[:2], append([][]byte{pieces[2][:20], pieces[2][20:]}, pieces[3:]...)...)
	n := testing.AllocsPerRun(100, func() {
		c.Request()
		for i, p := range pieces {
			if _, done, err := c.Response(p); err != nil || done != (i == len(pieces)-1) {
				t.Fatalf("piece %d: %v, %v", i, done, err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
