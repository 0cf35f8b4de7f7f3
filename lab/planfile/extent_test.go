package planfile

import (
	"testing"
	"time"
)

func TestLoadTime(t *testing.T) {
	const target = "name: x\ntarget: {protocol: tcp, start: [serve, '{{port}}']}\n"
	for _, c := range []struct {
		name, plan string
		want       time.Duration
	}{
		{"three variants, one of them the control", "load: {closed: {connections: 4}, warmup: 1s, window: 2s}\ndesign: {rounds: 4}\ncompare: {base: a, variants: {a: {}, b: {}}}", 4 * 3 * 3 * time.Second},
		{"profiled", "load: {closed: {connections: 4}, warmup: 1s, window: 2s}\ndesign: {rounds: 4, control: false}\nprofile: {rounds: 2, window: 5s}\ncompare: {base: a, variants: {a: {}, b: {}}}", (4*2*3 + 2*2*6) * time.Second},
		{"profiled as long", "load: {closed: {connections: 4}, warmup: 1s, window: 2s}\ndesign: {rounds: 4, control: false}\nprofile: {}\ncompare: {base: a, variants: {a: {}, b: {}}}", 2 * 4 * 2 * 3 * time.Second},
		{"duet", "load: {closed: {connections: 4}, warmup: 1s, window: 2s}\ndesign: {rounds: 4, duet: true}\ncompare: {base: a, variants: {a: {}, b: {}}}", (4*2 + 2) * 3 * time.Second},
		{"pilot", "load: {closed: {connections: 4}, warmup: auto, window: 2s}\ndesign: {rounds: 4}\ncompare: {base: a, variants: {a: {}, b: {}}}", 0},
	} {
		e, err := Parse("x.yaml", []byte(target+c.plan+"\n"), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := e.LoadTime(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
