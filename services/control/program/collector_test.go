package program

import (
	"runtime/debug"
	"strings"
	"testing"

	"dyno/internal/fields"
)

func TestCollector(t *testing.T) {
	for _, c := range []struct {
		collector
		want string // of the fault; "" is none
	}{
		{collector{}, ""},
		{collector{50, 0}, ""},
		{collector{-1, 1 << 30}, ""},
		{collector{-1, 0}, "needs a memory limit"},
		{collector{-2, 1 << 30}, "is too little"},
		{collector{0, 1}, "at least"},
	} {
		err := fields.Validate(c.collector, c.check)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.collector, err, c.want)
		}
	}
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	t.Setenv("GOGC", "100")
	collector{}.set()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("nothing was asked for, and GOGC is %d", got)
	}
	collector{Percent: 250, Limit: 1 << 30}.set()
	if got := debug.SetGCPercent(100); got != 250 {
		t.Errorf("GOGC is %d, want 250", got)
	}
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Errorf("the limit is %d, want %d", got, 1<<30)
	}
}
