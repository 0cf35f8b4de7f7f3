package pace

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type arrival struct {
	index uint64
	at    time.Duration
}

// take returns at most n arrivals of a cursor.
func take(c *Cursor, n int) []arrival {
	var all []arrival
	for len(all) < n {
		i, at, ok := c.Next()
		if !ok {
			break
		}
		all = append(all, arrival{i, at})
	}
	return all
}

func mustNew(t interface{ Fatal(...any) }, stages []Stage, p Process, seed uint64) *Schedule {
	s, err := New(stages, p, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConstantStarts(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	tests := []struct {
		name   string
		stages []Stage
		want   []time.Duration
	}{
		{"one a second", Steady(1, 3*s), []time.Duration{0, s, 2 * s}},
		{"the end is not included", Steady(2, s), []time.Duration{0, 500 * ms}},
		{"rounds to nearest", Steady(3, s), []time.Duration{0, 333333333, 666666667}},
		{"a tenth that float64 holds too large", Steady(0.1, 10*s), []time.Duration{0}},
		{"a third that float64 holds too small", Steady(1./3, 9*s), []time.Duration{0, 3 * s, 6 * s}},
		{"ten an hour", Steady(10./3600, 30*time.Minute), []time.Duration{0, 360 * s, 720 * s, 1080 * s, 1440 * s}},
		{"ramp up from nothing", []Stage{{2 * s, 0, 2}}, []time.Duration{0, 1414213562}},
		{"ramp down to nothing", []Stage{{2 * s, 2, 0}}, []time.Duration{0, 585786438}},
		{"ramp up", []Stage{{s, 1, 3}}, []time.Duration{0, 618033989}},
		{"pause first", []Stage{{s, 0, 0}, {s, 2, 2}}, []time.Duration{s, 1500 * ms}},
		{"pause between", []Stage{{s, 2, 2}, {s, 0, 0}, {s, 2, 2}}, []time.Duration{0, 500 * ms, 2 * s, 2500 * ms}},
		{"the phase goes on into the next stage", []Stage{{1500 * ms, 1, 1}, {s, 2, 2}}, []time.Duration{0, s, 1750 * ms, 2250 * ms}},
		{"a boundary that rounding passes on", []Stage{{10 * s, 0.1, 0.1}, {s, 1, 1}}, []time.Duration{0, 10 * s}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []time.Duration
			for _, a := range take(mustNew(t, tt.stages, Constant, 0).Split(0, 1), 100) {
				got = append(got, a.at)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	_, err := New([]Stage{
		{Duration: -time.Second, From: 1, To: 1},
		{Duration: 0, From: 1, To: 1},
		{Duration: time.Second, From: -1, To: math.NaN()},
		{Duration: time.Second, From: 1e-12, To: math.Inf(1)},
		{Duration: math.MaxInt64, From: 1, To: 1},
		{Duration: 0, From: 1, To: 2},
	}, 7, 0)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"process 7: want Constant (0) or Poisson (1)",
		"stage 1: duration -1s, want more than 0",
		"stage 2: duration 0 means endless, which only the last stage can be",
		"stage 3: from: rate -1, want 0 or 1e-09 to 1e+09",
		"stage 3: to: rate NaN",
		"stage 4: from: rate 1e-12",
		"stage 4: to: rate +Inf",
		"stages: longer than 8784h0m0s",
		"stage 6: duration 0 means endless, which a ramp from 1 to 2 cannot be",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
	for _, tt := range []struct {
		stages []Stage
		want   string
	}{
		{nil, "none given"},
		{Steady(0, time.Second), "every rate is 0"},
		{Steady(0, 0), "want a rate above 0"},
		{make([]Stage, MaxStages+1), "at most 10000"},
	} {
		if err := Validate(tt.stages, Constant); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d stages: error %v, want %q", len(tt.stages), err, tt.want)
		}
	}
}

// expected returns Λ(until), the number of arrivals expected before until. With constant arrivals
// the actual number differs from it by less than one at every moment.
func expected(s *Schedule, until time.Duration) (sum float64) {
	for _, st := range s.stages {
		t := until - st.begin
		if t <= 0 {
			break
		}
		to := st.From
		if st.Duration != 0 {
			t = min(t, st.Duration)
			to += (st.To - st.From) * float64(t) / float64(st.Duration)
		}
		sum += (st.From + to) / 2 * t.Seconds()
	}
	return sum
}

// rates covers round numbers, fractions and the whole range.
func rates() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(1, 1_000_000_000), func(n int) float64 { return float64(n) }),
		rapid.Map(rapid.IntRange(1, 100_000), func(n int) float64 { return float64(n) / 3600 }),
		rapid.Map(rapid.Float64Range(-29.8, 29.8), math.Exp2),
	)
}

// TestConstantIsExact compares with fractions at any index within 60 days. It reaches the index
// directly, as one of many workers reaches its first.
func TestConstantIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rates().Draw(t, "rate")
		last := min(math.MaxInt, rate*60*86400)
		index := int(rapid.Float64Range(0, 1).Draw(t, "where") * last)
		c := mustNew(t, Steady(rate, 0), Constant, 0).Split(index, math.MaxInt)
		i, at, ok := c.Next()
		if !ok || i != uint64(index) {
			t.Fatalf("got arrival %d, %v; want %d", i, ok, index)
		}
		want := new(big.Rat).Quo(new(big.Rat).SetInt64(int64(index)), new(big.Rat).SetFloat64(rate))
		want.Mul(want, big.NewRat(1e9, 1)).Sub(want, new(big.Rat).SetInt64(int64(at)))
		if half := big.NewRat(1, 2); want.Cmp(half) > 0 || want.Neg(want).Cmp(half) > 0 {
			t.Fatalf("arrival %d at rate %v: %v is %v ns off", index, rate, at, want.FloatString(3))
		}
	})
}

func TestScaleIsExact(t *testing.T) {
	word := rapid.OneOf(rapid.Uint64(), rapid.Just(uint64(math.MaxUint64)), rapid.Uint64Max(1000))
	rapid.Check(t, func(t *rapid.T) {
		a := fixed{word.Draw(t, "a"), word.Draw(t, "fraction of a")}
		num := fixed{word.Draw(t, "num"), word.Draw(t, "low word of num")}
		den := max(1, word.Draw(t, "den"))
		big128 := func(f fixed) *big.Int {
			n := new(big.Int).Lsh(new(big.Int).SetUint64(f.hi), 64)
			return n.Or(n, new(big.Int).SetUint64(f.lo))
		}
		// floor((2·a·num + den)/(2·den)), with a's binary point in den.
		d := new(big.Int).Lsh(new(big.Int).SetUint64(den), 64)
		want := new(big.Int).Mul(big128(a), big128(num))
		want.Lsh(want, 1).Add(want, d).Quo(want, d.Lsh(d, 1))
		if got, ok := a.scale(num, den); ok != want.IsInt64() || ok && got != want.Int64() {
			t.Fatalf("got %d, %v; want %v", got, ok, want)
		}
	})
}

// TestRampIsExact checks that each start is within a nanosecond of where Λ, as a
// fraction, reaches the index.
func TestRampIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.OneOf(rapid.Just(0.), rapid.Float64Range(0.01, 1e6))
		st := Stage{
			Duration: time.Duration(rapid.Int64Range(1, 10*int64(24*time.Hour)).Draw(t, "duration")),
			From:     rate.Draw(t, "from"), To: rapid.Float64Range(0.01, 1e6).Draw(t, "to"),
		}
		if rapid.Bool().Draw(t, "falling") {
			st.From, st.To = st.To, st.From
		}
		s := mustNew(t, []Stage{st}, Constant, 0)
		index := int(rapid.Float64Range(0, 1).Draw(t, "where") * expected(s, st.Duration))
		_, at, ok := s.Split(index, math.MaxInt).Next()
		if !ok {
			return // rounds to the end
		}
		area := func(at time.Duration) *big.Rat {
			r := func(f float64) *big.Rat { return new(big.Rat).SetFloat64(f) }
			x := big.NewRat(int64(at), 1)
			slope := new(big.Rat).Sub(r(st.To), r(st.From))
			sum := slope.Mul(slope, x).Quo(slope, big.NewRat(2*int64(st.Duration), 1))
			sum.Add(sum, r(st.From)).Mul(sum, x)
			return sum.Quo(sum, big.NewRat(1e9, 1))
		}
		want := new(big.Rat).SetInt64(int64(index))
		if at > 0 && area(at-1).Cmp(want) > 0 || at+1 < st.Duration && area(at+1).Cmp(want) < 0 {
			t.Fatalf("%+v: arrival %d at %v, where Λ is %v", st, index, int64(at), area(at).FloatString(12))
		}
	})
}

func schedules() *rapid.Generator[*Schedule] {
	return rapid.Custom(func(t *rapid.T) *Schedule {
		rate := rapid.OneOf(rapid.Just(0.), rapid.Float64Range(0.5, 300))
		stages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Stage {
			st := Stage{Duration: time.Duration(rapid.Int64Range(1, 3e9).Draw(t, "duration")), From: rate.Draw(t, "from")}
			st.To = rapid.OneOf(rapid.Just(st.From), rate).Draw(t, "to")
			return st
		}), 1, 5).Draw(t, "stages")
		if last := &stages[len(stages)-1]; last.From == 0 && last.To == 0 {
			last.To = 10
		}
		p := rapid.SampledFrom([]Process{Constant, Poisson}).Draw(t, "process")
		return mustNew(t, stages, p, rapid.Uint64().Draw(t, "seed"))
	})
}

func TestSplitIsTheSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedules().Draw(t, "schedule")
		whole := take(s.Split(0, 1), 10_000)
		workers := rapid.IntRange(1, 9).Draw(t, "workers")
		union := make([]arrival, len(whole))
		var n int
		for w := range workers {
			for _, a := range take(s.Split(w, workers), 10_000) {
				if int(a.index)%workers != w || a.index >= uint64(len(whole)) {
					t.Fatalf("worker %d of %d got arrival %d of %d", w, workers, a.index, len(whole))
				}
				union[a.index] = a
				n++
			}
		}
		if n != len(whole) || !slices.Equal(union, whole) {
			t.Fatalf("%d workers: union of %d arrivals differs from the schedule of %d", workers, n, len(whole))
		}
	})
}

func TestStartsNeverDecreaseAndCountIsExpected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedules().Draw(t, "schedule")
		all := take(s.Split(0, 1), 10_000)
		last := s.stages[len(s.stages)-1]
		for i, a := range all {
			if a.index != uint64(i) || a.at < 0 || a.at >= last.begin+last.Duration || i > 0 && a.at < all[i-1].at {
				t.Fatalf("arrival %d at %v, after %v", a.index, a.at, all[max(0, i-1)].at)
			}
		}
		if s.process != Constant {
			return
		}
		var end time.Duration
		before := 0
		for _, st := range s.stages {
			end += st.Duration
			count := before
			for count < len(all) && all[count].at < end {
				count++
			}
			// A stage inherits at most one arrival and leaves at most one.
			in := expected(s, end) - expected(s, end-st.Duration)
			if got := float64(count - before); math.Abs(got-in) > 1+1e-6 {
				t.Fatalf("stage %+v has %v arrivals, want %v±1", st.Stage, got, in)
			}
			before = count
		}
	})
}

// TestDense has a million arrivals a second rise and fall, where ties and
// rounding are the rule.
func TestDense(t *testing.T) {
	const ms = time.Millisecond
	s := mustNew(t, []Stage{{ms, 0, 1e9}, {ms / 10, 1e9, 1e9}, {ms, 1e9, 0}}, Constant, 0)
	all := take(s.Split(0, 1), 2_000_000)
	if want := expected(s, time.Hour); math.Abs(float64(len(all))-want) > 2 {
		t.Errorf("%d arrivals, want %v", len(all), want)
	}
	for i := 1; i < len(all); i++ {
		if all[i].at < all[i-1].at {
			t.Fatalf("arrival %d at %d, before arrival %d at %d", i, all[i].at, i-1, all[i-1].at)
		}
	}
}

func TestEndlessEndsWithTime(t *testing.T) {
	c := mustNew(t, Steady(1, 0), Constant, 0).Split(9_223_372_036, 9_223_372_037)
	if i, at, ok := c.Next(); !ok || i != 9_223_372_036 || at != 9_223_372_036*time.Second {
		t.Errorf("got %d, %v, %v", i, at, ok)
	}
	for range 2 {
		if i, at, ok := c.Next(); ok {
			t.Errorf("got arrival %d at %v past the end of time", i, at)
		}
	}
}
