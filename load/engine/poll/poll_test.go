package poll

import (
	"testing"
	"time"
)

// A wake-up ends one wait, and a second one before that changes nothing.
func TestWake(t *testing.T) {
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	go p.Wake()
	awaitWake := func() {
		t.Helper()
		for {
			if events := p.Wait(0, int64(time.Minute)); len(events) > 0 { // signals end waits
				if len(events) != 1 || events[0].Fd != WakeToken {
					t.Errorf("events %v, want the wake-up", events)
				}
				return
			}
		}
	}
	awaitWake()
	if events := p.Poll(); len(events) > 0 {
		t.Errorf("events %v after the wake-up", events)
	}
	p.Wake()
	p.Wake()
	awaitWake()
}
