package registry

import (
	"testing"
	"time"
)

// An agent is forgotten when it was gone for long, and not when it came back meanwhile.
func TestNote(t *testing.T) {
	var d document
	now := time.Unix(1e9, 0)
	for i, step := range []struct {
		after time.Duration // since the step before
		lives bool
		want  bool
	}{
		{0, true, false},
		{time.Hour, false, false},
		{forgetAfter, false, false},
		{time.Second, true, false},
		{time.Second, false, false},
		{forgetAfter, false, false},
		{time.Second, false, true},
	} {
		now = now.Add(step.after)
		if over := d.note(step.lives, now); over != step.want || d.Gone.IsZero() != step.lives {
			t.Errorf("step %d: over %v, gone at %v", i, over, d.Gone)
		}
	}
}
