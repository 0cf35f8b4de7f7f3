package plane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"dyno/internal/rate"
	"dyno/services/control/access"
)

// TestGate: refusals of unknown callers are counted by address, and too many get another kind of problem. A principal
// behind that address is admitted, up to its own rate.
func TestGate(t *testing.T) {
	sum := sha256.Sum256([]byte("reader"))
	book, err := access.ParseBook(fmt.Appendf(nil, "principals: [{name: reader, token_sha256: %s, rate: 0.001, burst: 2, grants: [{namespace: shop, role: reader}]}]", hex.EncodeToString(sum[:])))
	if err != nil {
		t.Fatal(err)
	}
	g := NewGate(book, 0, 0)
	g.unauthenticated = rate.NewLimiter(0.001, 2, clients)
	for _, c := range []struct {
		address, field string
		want           ProblemKind
	}{
		{"192.0.2.1:1", "Bearer nobody", BadToken},
		{"192.0.2.1:2", "", BadToken},
		{"192.0.2.1:3", "Basic reader", RateExceeded},
		{"192.0.2.2:3", "Basic reader", BadToken},
		{"192.0.2.1:4", "bearer reader", ""},
		{"192.0.2.3:4", "Bearer reader", ""},
		{"192.0.2.4:4", "Bearer reader", RateExceeded},
	} {
		who, err := g.Admit(Credentials{Address: c.address, Authorization: c.field})
		switch {
		case c.want == "" && (err != nil || who.Name != "reader" || who.From != c.address[:len(c.address)-2] || who.ClientPrefix != "reader/"):
			t.Errorf("%+v: %+v, %v", c, who, err)
		case c.want != "" && (err == nil || ProblemOf(err).Kind != c.want):
			t.Errorf("%+v: %v", c, err)
		}
	}
	if who, err := NewGate(nil, 0, 0).Admit(Credentials{Address: "@", Authorization: "Bearer x"}); err != nil || who.From != "unix" || who.ClientPrefix != "" || !who.May(access.Administer, access.AllNamespaces) {
		t.Errorf("without a book: %+v, %v", who, err)
	}
}
