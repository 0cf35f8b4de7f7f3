package conditions

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/internal/fields"
	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		link   Link
		faults int
	}{
		"good":                      {Link{Delay: 50 * time.Millisecond, Jitter: 50 * time.Millisecond, Bandwidth: 1 << 20, Burst: 1 << 16}, 0},
		"out of bounds":             {Link{Delay: 2 * time.Hour, Distribution: "pareto", Buffer: -1}, 3},
		"more jitter than delay":    {Link{Delay: time.Millisecond, Jitter: 2 * time.Millisecond}, 1},
		"burst without bandwidth":   {Link{Burst: 1}, 1},
		"stalls without duration":   {Link{StallChance: 1}, 1},
		"duration without stalls":   {Link{StallFor: time.Second}, 1},
		"stalls that never end":     {Link{StallEvery: time.Second, StallFor: time.Second}, 1},
		"normal jitter of any size": {Link{Jitter: time.Second, Distribution: Normal}, 0},
	} {
		err := (&Profile{ToClient: c.link}).Validate()
		var faults *fields.Faults
		if errors.As(err, &faults) != (c.faults > 0) || faults != nil && len(faults.Faults) != c.faults {
			t.Errorf("%s: %v, want %d faults", name, err, c.faults)
		}
	}
}

func TestOf(t *testing.T) {
	p, err := Of("delay=20ms, bandwidth=8kbit/s", "reset_chance=1%,reset_after=64KiB", "delay=1", 7)
	want := Profile{Seed: 7,
		ToServer: Link{Delay: 20 * time.Millisecond, Bandwidth: 1000, ResetChance: 0.01, ResetAfter: 64 << 10},
		ToClient: Link{Delay: time.Second, Bandwidth: 1000},
	}
	if err != nil || *p != want {
		t.Errorf("%+v, %v, want %+v", p, err, want)
	}
	for _, text := range []string{"delay", "latency=1s", "delay=soon", "bandwidth=fast", "stall_chance=2", "distribution=other"} {
		if err := new(Text).SetText(text, ""); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at gives chunks to the shaper and returns when, after start, each leaves.
func at(s *Shaper, chunks ...[2]int) (out []time.Duration) { // size, ms of arrival
	for _, c := range chunks {
		out = append(out, s.Chunk(c[0], start.Add(time.Duration(c[1])*time.Millisecond)).At.Sub(start))
	}
	return out
}

func TestShaperTimes(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		link   Link
		chunks [][2]int
		want   []time.Duration
	}{
		"nothing": {Link{}, [][2]int{{10, 0}, {10, 5}}, []time.Duration{0, 5 * ms}},
		"delay keeps chunks in flight": {Link{Delay: 100 * ms}, [][2]int{{10, 0}, {10, 1}, {0, 2}},
			[]time.Duration{100 * ms, 101 * ms, 102 * ms}},
		"bandwidth serializes": {Link{Bandwidth: 1000}, [][2]int{{100, 0}, {50, 10}, {10, 500}},
			[]time.Duration{100 * ms, 150 * ms, 510 * ms}},
		"bandwidth and delay add": {Link{Bandwidth: 1000, Delay: 20 * ms}, [][2]int{{100, 0}, {0, 1}},
			[]time.Duration{120 * ms, 120 * ms}},
		"burst passes, then the rate": {Link{Bandwidth: 1000, Burst: 100}, [][2]int{{100, 0}, {100, 0}, {100, 1000}},
			[]time.Duration{0, 100 * ms, 1000 * ms}},
		"stall every": {Link{StallEvery: 100 * ms, StallFor: 30 * ms}, [][2]int{{1, 5}, {1, 99}, {1, 100}, {1, 129}, {1, 130}, {1, 215}},
			[]time.Duration{5 * ms, 99 * ms, 130 * ms, 130 * ms, 130 * ms, 230 * ms}},
		"stall in each segment": {Link{StallChance: 1, StallFor: 10 * ms, Segment: 100}, [][2]int{{1, 0}, {98, 0}, {2, 0}, {200, 50}},
			[]time.Duration{10 * ms, 10 * ms, 20 * ms, 70 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			got := at(NewShaper(&Profile{ToServer: c.link}, ToServer, 1, start), c.chunks...)
			for i := range got {
				if got[i] != c.want[i] {
					t.Fatalf("released at %v, want %v", got, c.want)
				}
			}
		})
	}
}

func links(t *rapid.T) Link {
	ms := func(name string, hi int) time.Duration {
		return time.Duration(rapid.IntRange(0, hi).Draw(t, name)) * time.Millisecond
	}
	l := Link{
		Delay:        ms("delay", 100),
		Bandwidth:    Rate(rapid.SampledFrom([]int{0, 1, 1000, 1 << 20, 1 << 40}).Draw(t, "bandwidth")),
		Distribution: rapid.SampledFrom([]string{"", Uniform, Normal}).Draw(t, "distribution"),
		StallChance:  rapid.SampledFrom([]float64{0, 0.01, 1}).Draw(t, "stall chance"),
		ResetChance:  rapid.SampledFrom([]float64{0, 1e-4, 0.1}).Draw(t, "reset chance"),
		ResetAfter:   rapid.SampledFrom([]int64{0, 1, 5000}).Draw(t, "reset after"),
		Segment:      rapid.SampledFrom([]int64{0, 1, 100}).Draw(t, "segment"),
		StallEvery:   rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond}).Draw(t, "stall every"),
	}
	l.Jitter = min(ms("jitter", 100), l.Delay)
	if l.Bandwidth > 0 {
		l.Burst = rapid.Int64Range(0, 10000).Draw(t, "burst")
	}
	if l.StallChance > 0 || l.StallEvery > 0 {
		l.StallFor = 7 * time.Millisecond
	}
	return l
}

// A release is at or after its arrival plus the least delay, after earlier ones, and outside of stalls. The rate is
// within the token bucket.
func TestShaperRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Profile{Seed: rapid.Uint64().Draw(t, "seed"), ToServer: links(t)}
		if err := p.Validate(); err != nil {
			t.Fatalf("generated an invalid profile: %v", err)
		}
		l := p.ToServer
		a, b := NewShaper(&p, ToServer, 3, start), NewShaper(&p, ToServer, 3, start)
		now, last := start, start
		var sent int64
		for range rapid.IntRange(1, 60).Draw(t, "chunks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3e7).Draw(t, "gap")))
			n := rapid.IntRange(1, 3000).Draw(t, "size")
			r := a.Chunk(n, now)
			if again := b.Chunk(n, now); again != r {
				t.Fatalf("the same chunk fared differently: %v, %v", r, again)
			}
			least := l.Delay - l.Jitter
			if l.Distribution == Normal {
				least = max(0, l.Delay-10*l.Jitter)
			}
			if r.At.Before(now.Add(least)) || r.At.Before(last) {
				t.Fatalf("released %v after its arrival, %v after the one before", r.At.Sub(now), r.At.Sub(last))
			}
			if since := r.At.Sub(start); l.StallEvery > 0 && since >= l.StallEvery && since%l.StallEvery < l.StallFor {
				t.Fatalf("released inside a stall, at %v", since)
			}
			sent += int64(r.N)
			if l.Bandwidth > 0 {
				allowed := float64(l.Burst) + float64(l.Bandwidth)*(r.At.Sub(start)-least).Seconds()
				if float64(sent) > allowed*(1+1e-9)+1e-3 {
					t.Fatalf("%d bytes released by %v, the bucket allows %.1f", sent, r.At.Sub(start), allowed)
				}
			}
			if r.N > n || r.Reset != (sent == a.resetAt) {
				t.Fatalf("%d of %d bytes, reset %v at %d", r.N, n, r.Reset, sent)
			}
			if r.Reset {
				break
			}
			last = r.At
		}
	})
}

// However a stream is cut into reads, it is reset after the same byte, and has stalled
// equally often.
func TestEventsDependOnPositionsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Profile{Seed: rapid.Uint64().Draw(t, "seed"), ToServer: links(t)}
		run := func(label string) (delivered, stalls int64) {
			s := NewShaper(&p, ToServer, 9, start)
			for left := 20000; left > 0; {
				n := min(left, rapid.IntRange(1, 9000).Draw(t, label))
				r := s.Chunk(n, start)
				delivered += int64(r.N)
				if left -= n; r.Reset {
					break
				}
			}
			return delivered, int64(s.stalls)
		}
		d1, s1 := run("first")
		d2, s2 := run("second")
		if d1 != d2 || s1 != s2 {
			t.Fatalf("%d bytes and %d stalls, then %d and %d", d1, s1, d2, s2)
		}
	})
}

// Connections, directions and seeds differ, and chances are what they say.
func TestDrawsAreSpreadAndFair(t *testing.T) {
	const n, chance = 20000, 0.01
	seen := map[int64]int{}
	var sum float64
	for i := range uint64(n) {
		p := Profile{Seed: i % 7, ToServer: Link{ResetChance: chance, Segment: 1}, ToClient: Link{ResetChance: chance, Segment: 1}}
		s := NewShaper(&p, Direction(i%2), i/14, start)
		seen[s.resetAt]++
		sum += float64(s.resetAt)
	}
	// Geometric: mean (1-p)/p = 99, standard deviation about 99.5.
	if mean := sum / n; math.Abs(mean-99) > 5*99.5/math.Sqrt(n) {
		t.Errorf("mean distance to a reset %.1f, want 99", mean)
	}
	if len(seen) < 300 {
		t.Errorf("only %d different distances", len(seen))
	}
	p := Profile{Seed: 5, ToServer: Link{Delay: time.Second, Jitter: 100 * time.Millisecond, Distribution: Normal}}
	s := NewShaper(&p, ToServer, 1, start)
	var m, sq float64
	for range n {
		d := s.travel().Seconds() - 1
		m, sq, s.pos = m+d, sq+d*d, s.pos+1
	}
	if mean, sd := m/n, math.Sqrt(sq/n); math.Abs(mean) > 0.1*5/math.Sqrt(n) || math.Abs(sd-0.1) > 0.005 {
		t.Errorf("normal jitter has mean %.4f and deviation %.4f, want 0 and 0.1", mean, sd)
	}
}
