package wire_test

import (
	"errors"
	"fmt"
	"testing"

	"dyno/load/wire"
)

// Each kind has a name of its own, and an error has its kind however it is wrapped.
func TestKinds(t *testing.T) {
	seen := map[string]bool{"unknown": true}
	for k := range wire.Kinds {
		if name := k.String(); name == "" || seen[name] {
			t.Errorf("kind %d is named %q", k, name)
		}
		seen[k.String()] = true
		err := &wire.Error{Kind: k, Text: "x"}
		if got := wire.KindOf(fmt.Errorf("wrapped: %w", err)); got != k {
			t.Errorf("kind %v wrapped is %v", k, got)
		}
	}
	if wire.Kinds.String() != "unknown" {
		t.Errorf("a kind that there is not is named %q", wire.Kinds)
	}
	if wire.KindOf(nil) != wire.None || wire.KindOf(errors.New("x")) != wire.Protocol {
		t.Error("no error, and one of another type, have the wrong kind")
	}
}

// The error of a status is one and the same each time.
func TestStatusError(t *testing.T) {
	for _, status := range []int{100, 404, 999} {
		err := wire.StatusError(status)
		if err != wire.StatusError(status) || err.Kind != wire.Status || err.Error() != fmt.Sprintf("status: status %d", status) {
			t.Errorf("status %d: %v", status, err)
		}
	}
}
