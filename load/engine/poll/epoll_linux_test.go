//go:build !portable

package poll

import (
	"testing"
	"time"
)

// A wait ends by itself: first by its own timer, then early by that of an earlier wait.
func TestWaitEnds(t *testing.T) {
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	start := time.Now()
	p.Wait(0, int64(2*time.Millisecond)) // its timer is left for the next one
	go p.Wake()
	for now := int64(0); now < int64(10*time.Millisecond); now = int64(time.Since(start)) {
		for _, event := range p.Wait(now, int64(10*time.Millisecond)) {
			if event.Fd != WakeToken {
				t.Errorf("event %v, want the timer's", event)
			}
		}
	}
}
