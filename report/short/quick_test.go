package short

import (
	"slices"
	"testing"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

func TestTryRate(t *testing.T) {
	for throughput, want := range map[float64]int{0: 1, 1: 1, 2: 1, 10: 7, 41230: 30000, 160000: 100000, 133: 90} {
		if got := tryRate(&throughput); got != want {
			t.Errorf("three quarters of %v: %d, want %d", throughput, got, want)
		}
	}
	if got := tryRate(nil); got != 1 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestNeedLinux(t *testing.T) {
	missing := func(observer, why string) texts.Message {
		return texts.New("unavailable.observer", "observer", observer).With("why", texts.New(why))
	}
	trial := &rundir.Trial{Unavailable: []rundir.Message{missing("machine", "unavailable.system"), missing("tcp", "unavailable.unix"), texts.New("unavailable.stamps", "error", "none"), missing("wakeup", "unavailable.system")}}
	if got := needLinux(trial); !slices.Equal(got, []string{"machine", "wakeup"}) {
		t.Errorf("%q", got)
	}
	if got := needLinux(nil); got != nil {
		t.Errorf("of no trial: %q", got)
	}
}
