package clock

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const second = int64(1e9)

// A drifting clock has an offset at an instant of ours, a rate until then and one after it.
type drifting struct {
	from          int64 // by our clock
	offset        int64
	before, after float64 // ns per ns
}

// read returns their time at an instant of ours. Clocks tick, so it is rounded down.
func (d drifting) read(ours int64) int64 {
	rate := d.after
	if ours < d.from {
		rate = d.before
	}
	return ours + d.offset + int64(math.Floor(rate*float64(ours-d.from)))
}

// exchange makes a sample: the question, their program and the answer take these times of our clock.
func (d drifting) exchange(sent, there, answering, back int64) Sample {
	received := sent + there
	answered := received + answering
	return Sample{sent, d.read(received), d.read(answered), answered + back}
}

// exchanges draws a measurement's samples, with any delays, from an instant on.
func (d drifting) exchanges(t *rapid.T, from int64) (samples []Sample) {
	delay := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 50e6), rapid.Int64Range(0, second))
	for range rapid.IntRange(1, 20).Draw(t, "samples") {
		s := d.exchange(from, delay.Draw(t, "there"), delay.Draw(t, "answering"), delay.Draw(t, "back"))
		samples = append(samples, s)
		from = s.Arrived + delay.Draw(t, "pause")
	}
	return samples
}

// anyDrifting draws a clock whose rate may change at an instant within a range, by Wander at most.
func anyDrifting(t *rapid.T, from, to int64) drifting {
	before := rapid.Float64Range(-Tolerance, Tolerance).Draw(t, "rate")
	return drifting{
		from:   rapid.Int64Range(from, to).Draw(t, "changes"),
		offset: rapid.Int64Range(-900*second, 1e18).Draw(t, "offset"),
		before: before,
		after:  min(Tolerance, max(-Tolerance, before+rapid.Float64Range(-Wander, Wander).Draw(t, "wander"))),
	}
}

// TestMeasureHoldsTheOffset: for all delays and drifts, the true offset lies within the error. The error is at most
// half of the shortest round trip, and the drift within it.
func TestMeasureHoldsTheOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(1000*second, 1e18).Draw(t, "start")
		theirs := anyDrifting(t, start, start+100*second)
		samples := theirs.exchanges(t, start)
		m, err := Measure(samples)
		if err != nil {
			t.Fatal(err)
		}
		if off := theirs.read(m.At) - m.At - m.Offset; max(off, -off) > m.Error {
			t.Fatalf("the offset is %d ns off, and the error is %d ns", off, m.Error)
		}
		trip := func(s Sample) int64 { return s.Arrived - s.Sent - (s.Answered - s.Received) }
		best := slices.MinFunc(samples, func(a, b Sample) int { return cmp.Compare(trip(a), trip(b)) })
		if most := trip(best)/2 + drifted(Tolerance, best.Arrived-best.Sent) + 1; m.Error > most {
			t.Fatalf("the error is %d ns, and a round trip of %d ns bounds it by %d", m.Error, trip(best), most)
		}
	})
}

// TestClockHoldsTheOffset: before, between and after two measurements, as long as the rate wanders no
// further than assumed.
func TestClockHoldsTheOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(1000*second, 1e18).Draw(t, "start")
		pause := rapid.OneOf(rapid.Int64Range(1, second), rapid.Int64Range(second, 3600*second)).Draw(t, "pause")
		theirs := anyDrifting(t, start, start+100*second+pause)
		first := theirs.exchanges(t, start)
		c, err := add(Clock{}, first)
		if err != nil {
			t.Fatal(err)
		}
		check := func(when string, at int64) {
			got, within := c.At(at)
			if off := theirs.read(at) - got; max(off, -off) > within {
				t.Fatalf("%s, %d ns after the last measurement: %d ns off, and the error is %d ns", when, at-c.last.At, off, within)
			}
		}
		later := rapid.Int64Range(-second, 3600*second)
		check("measured once", c.last.At+later.Draw(t, "later"))
		last := first[len(first)-1].Arrived
		if c, err = add(c, theirs.exchanges(t, last+pause)); err != nil {
			t.Fatal(err)
		}
		mean := float64((theirs.read(c.last.At)-c.last.At)-(theirs.read(c.previous.At)-c.previous.At)) / float64(c.last.At-c.previous.At)
		if ppm, within := c.Rate(); math.Abs(ppm-mean*1e6) > within+1e6/float64(c.last.At-c.previous.At) {
			t.Fatalf("%v ppm ± %v, and the rate was %v", ppm, within, mean*1e6)
		}
		check("between", rapid.Int64Range(c.previous.At, c.last.At).Draw(t, "between"))
		check("measured twice", c.last.At+later.Draw(t, "after"))
		check("before", max(0, c.previous.At-rapid.Int64Range(0, second).Draw(t, "before")))
	})
}

// TestApart: whatever the offset is at an instant of a stretch, it is no further from a given one than said.
func TestApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(1000*second, 1e18).Draw(t, "start")
		length := rapid.OneOf(rapid.Int64Range(1, second), rapid.Int64Range(second, 3600*second)).Draw(t, "length")
		theirs := anyDrifting(t, start, start+100*second+length)
		before := theirs.exchanges(t, start)
		c, err := add(Clock{}, before)
		if err == nil {
			c, err = add(c, theirs.exchanges(t, before[len(before)-1].Arrived+length))
		}
		if err != nil {
			t.Fatal(err)
		}
		near := rapid.Int64Range(-second, second)
		from := c.previous.At + near.Draw(t, "from")
		to := from + rapid.Int64Range(0, c.last.At-c.previous.At).Draw(t, "to")
		offset := c.previous.Offset + near.Draw(t, "offset")
		bound := c.Apart(offset, from, to)
		for range 5 {
			at := rapid.Int64Range(from, to).Draw(t, "at")
			if off := theirs.read(at) - at - offset; max(off, -off) > bound {
				t.Fatalf("%d ns off at %d, and at most %d from %d to %d", off, at, bound, from, to)
			}
		}
	})
}

// TestClockIsSet: where the rate wandered further than assumed, no less is said than Tolerance allows.
func TestClockIsSet(t *testing.T) {
	var c Clock
	// Theirs runs like ours for 200 s. It is then corrected at 400 ppm for 50 s, and back for 25 s.
	for _, m := range []Measurement{{100 * second, 0, 1000}, {200 * second, 0, 1000}, {275 * second, 10_000_000, 1000}} {
		next, err := c.With(m)
		if err != nil {
			t.Fatal(err)
		}
		c = next
	}
	theirs, within := c.At(250 * second)
	if off := theirs - 250*second - 20_000_000; max(off, -off) > within {
		t.Errorf("%d ns off, and the error is %d", off, within)
	}
	if apart := c.Apart(0, 200*second, 275*second); apart < 20_000_000 || apart > 25_000_000 {
		t.Errorf("apart by %d ns", apart)
	}
}

// TestApartIsTight: of a clock that keeps its rate, nothing is added but the errors and what the rate may wander.
func TestApartIsTight(t *testing.T) {
	if got := (Clock{}).Apart(0, 0, second); got != math.MaxInt64 {
		t.Errorf("not measured: %d", got)
	}
	c, err := Clock{}.With(Measurement{second, 5, 20_000})
	if err == nil {
		c, err = c.With(Measurement{11 * second, 5 + 1_000_000, 20_000}) // 100 ppm
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Apart(5, second, 11*second); got < 1_000_000+20_000 || got > 1_150_000 {
		t.Errorf("%d ns apart", got)
	}
}

func add(c Clock, samples []Sample) (Clock, error) {
	m, err := Measure(samples)
	if err != nil {
		return Clock{}, err
	}
	return c.With(m)
}

func TestMeasure(t *testing.T) {
	for name, tt := range map[string]struct {
		samples []Sample
		want    Measurement
	}{
		"equal ways":        {[]Sample{{1000, 51_000, 51_100, 2100}}, Measurement{1550, 49_500, 502}},
		"all of it there":   {[]Sample{{1000, 52_000, 52_100, 2100}}, Measurement{1550, 50_500, 502}},
		"all of it back":    {[]Sample{{1000, 51_000, 51_100, 3100}}, Measurement{2050, 49_000, 1002}},
		"theirs is behind":  {[]Sample{{51_000, 1000, 1000, 51_000}}, Measurement{51_000, -50_000, 1}},
		"no way at all":     {[]Sample{{5, 5, 5, 5}}, Measurement{5, 0, 1}},
		"the shortest":      {[]Sample{{0, 9000, 9000, 9000}, {10_000, 15_100, 15_100, 10_200}, {20_000, 29_000, 29_000, 25_000}}, Measurement{10_100, 5000, 102}},
		"better than one":   {[]Sample{{0, 5900, 5900, 1000}, {10_000, 15_100, 15_100, 11_000}}, Measurement{500, 5002, 105}},
		"largest numbers":   {[]Sample{{latest, 0, 0, latest}}, Measurement{latest, -latest, 1}},
		"largest the other": {[]Sample{{0, latest, latest, 0}}, Measurement{0, latest, 1}},
	} {
		if got, err := Measure(tt.samples); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		samples []Sample
		want    string
	}{
		"none":                {nil, "0 samples"},
		"too many":            {make([]Sample, MaxSamples+1), "1001 samples"},
		"ours runs backwards": {[]Sample{{5, 5, 5, 5}, {10, 12, 13, 9}}, "sample 2: the answer arrived 1 ns before the question was sent"},
		"theirs backwards":    {[]Sample{{10, 13, 12, 14}}, "sample 1: the answer was sent 1 ns before the question was received"},
		"negative":            {[]Sample{{-1, 2, 3, 4}}, "a time of -1 ns"},
		"least":               {[]Sample{{0, math.MinInt64, 3, 4}}, "a time of -9223372036854775808 ns"},
		"most":                {[]Sample{{0, 2, math.MaxInt64, 4}}, "a time of 9223372036854775807 ns"},
		"too long":            {[]Sample{{0, 2, 3, MaxRoundTrip + 1}}, "a round trip of 60000000001 ns"},
		"longer there":        {[]Sample{{0, 0, 1_000_000, 1000}}, "contradict"},
		"jumped between":      {[]Sample{{0, 100, 100, 200}, {1000, 5100, 5100, 1200}}, "contradict"},
	} {
		if _, err := Measure(tt.samples); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestAnySample: whatever a machine sends, it is refused or gives an error bound that is none below zero.
func TestAnySample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, latest), rapid.Int64Range(0, 1000))
		var c Clock
		for range 2 {
			s := make([]Sample, rapid.IntRange(1, 3).Draw(t, "samples"))
			for i := range s {
				s[i] = Sample{at.Draw(t, "sent"), at.Draw(t, "received"), at.Draw(t, "answered"), at.Draw(t, "arrived")}
			}
			if next, err := add(c, s); err == nil {
				c = next
			}
		}
		ours := at.Draw(t, "ours")
		if theirs, within := c.At(ours); within <= 0 || c.measured > 0 && within < math.MaxInt64 && theirs < -2*latest {
			t.Fatalf("%d ± %d", theirs, within)
		}
	})
}

func TestClock(t *testing.T) {
	var c Clock
	if theirs, within := c.At(5); theirs != 5 || within != math.MaxInt64 {
		t.Errorf("not measured: %d ± %d", theirs, within)
	}
	// Theirs gains 100 ppm, and is measured within 20 µs, every 300 s.
	for n := range int64(3) {
		at := n * 300 * second
		next, err := c.With(Measurement{at, second + at/10_000, 20_000})
		if err != nil {
			t.Fatal(err)
		}
		c = next
		if n == 0 {
			if theirs, within := c.At(second); theirs != 2*second || within != 520_003 {
				t.Errorf("measured once, a second later: %d ± %d", theirs, within)
			}
		}
	}
	if ppm, within := c.Rate(); math.Abs(ppm-100) > 1e-9 || math.Abs(within-15.13334) > 1e-4 {
		t.Errorf("%v ± %v ppm", ppm, within)
	}
	for seconds, want := range map[int64]struct{ offset, within int64 }{
		// A second after the last measurement, and 300; half between the last two; at the one before.
		601: {1_060_100_000, 35_137}, 900: {1_090_000_000, 4_560_005}, 450: {1_045_000_000, 2_290_004}, 300: {1_030_000_000, 20_003},
	} {
		theirs, within := c.At(seconds * second)
		if offset := theirs - seconds*second; offset != want.offset || within-want.within > 1 || want.within-within > 1 { // processors round fractions differently
			t.Errorf("at %d s: %d ± %d, want %d ± %d", seconds, offset, within, want.offset, want.within)
		}
	}
	for _, at := range []int64{-1, latest + 1} {
		if _, within := c.At(at); within != math.MaxInt64 {
			t.Errorf("at %d: ± %d", at, within)
		}
	}
}

func TestClockRefuses(t *testing.T) {
	c, err := Clock{}.With(Measurement{second, 0, 100})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		m    Measurement
		want string
	}{
		"earlier":       {Measurement{second - 1, 0, 100}, "not after"},
		"at once":       {Measurement{second, 0, 100}, "not after"},
		"jumped":        {Measurement{2 * second, 501_000, 100}, "changed by 501000 ns within 1000000000 ns"},
		"jumped back":   {Measurement{2 * second, -501_000, 100}, "changed by -501000 ns"},
		"barely normal": {Measurement{2 * second, 500_100, 100}, ""},
	} {
		if _, err := c.With(tt.m); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
