// Package planetest gives tests of protocols a plane on a store of its own, and principals.
package planetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"dyno/services/control/access"
	"dyno/services/control/plane"
	"dyno/services/control/store"
)

// Anybody is a caller with all permissions.
var Anybody = plane.Caller{Principal: access.Anonymous()}

// Open opens a plane on a store of its own. Both are closed at the end of the test, which may close the store before.
func Open(t testing.TB, cfg plane.Config, change ...func(*store.Config)) (*plane.Plane, *store.Store) {
	t.Helper()
	sc := store.Defaults()
	sc.Dir, sc.NoSync = t.TempDir(), true
	for _, one := range change {
		one(&sc)
	}
	s, err := store.Open(t.Context(), sc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := plane.Open(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, s
}

// Gate returns a gate with a principal for each role in a namespace. It also has root, an admin of all namespaces,
// and other, an admin of namespace x. Each principal's token is its name.
func Gate(t testing.TB, namespace string) *plane.Gate {
	t.Helper()
	var text strings.Builder
	text.WriteString("principals:\n")
	for _, p := range []struct{ name, namespace, role string }{
		{"reader", namespace, "reader"}, {"registrar", namespace, "registrar"}, {"editor", namespace, "editor"}, {"admin", namespace, "admin"}, {"root", "*", "admin"}, {"other", "x", "admin"},
	} {
		sum := sha256.Sum256([]byte(p.name))
		fmt.Fprintf(&text, "  - {name: %s, token_sha256: %s, grants: [{namespace: %q, role: %s}]}\n", p.name, hex.EncodeToString(sum[:]), p.namespace, p.role)
	}
	book, err := access.ParseBook([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return plane.NewGate(book, 0, 0)
}
