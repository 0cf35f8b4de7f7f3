package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mostTrials is how many trials a search may need, with a hint or without: the rates
// that it may try, times the trials of each, and as many again that may be disturbed. Where a rate turns out to be bad
// whose first trials were good, the rates below it are halved again: at worst, at each rate.
func mostTrials(g Goal) int {
	span, width := math.Log(g.To/g.From), math.Log1p(g.Resolution)
	// Without a hint: the range is doubled through, and what one doubling covers is
	// halved. With a hint: steps that double cover the range, and one is halved.
	// Rounding shifts a rate by a twentieth of the resolution at most.
	doubling := math.Log(2 * (1 - g.Resolution/20))
	halvings := func(of float64) float64 { return math.Ceil(max(0, math.Log2(of/width))) + 2 }
	rates := max(
		math.Ceil(span/doubling)+2+halvings(math.Ln2),
		math.Ceil(math.Log2(span/(firstBracket*width)+1))+3+halvings(max(span, firstBracket*width)),
	)
	return int(rates) * int(rates) * g.Trials
}

// search tries what Next says until it is done.
func search(t interface{ Fatalf(string, ...any) }, g Goal, hint float64, try func(rate float64) bool) (State, []Trial) {
	var done []Trial
	for {
		s, err := g.Next(done, hint)
		switch {
		case err != nil:
			t.Fatalf("%+v after %v: %v", g, done, err)
		case s.Done:
			return s, done
		case len(done) >= mostTrials(g):
			t.Fatalf("%+v, hint %v: not done after %d trials: %+v", g, hint, len(done), done)
		}
		done = append(done, Trial{Rate: s.Next, Good: try(s.Next)})
	}
}

func rates(done []Trial) (list []float64) {
	for _, t := range done {
		list = append(list, t.Rate)
	}
	return list
}

func drawGoal(t *rapid.T) Goal {
	from := math.Exp(rapid.Float64Range(math.Log(1e-3), math.Log(1e6)).Draw(t, "log from"))
	return Goal{
		From:       from,
		To:         from * math.Exp(rapid.Float64Range(1e-3, 12).Draw(t, "log span")),
		Resolution: math.Exp(rapid.Float64Range(math.Log(LeastResolution), 0).Draw(t, "log resolution")),
		Trials:     rapid.IntRange(1, 7).Draw(t, "trials"),
		Tolerate:   rapid.SampledFrom([]float64{0, 0.1, 0.2, 0.34, 0.5, 0.9}).Draw(t, "tolerate"),
	}
}

// drawHint draws none, or one that may be anywhere.
func drawHint(t *rapid.T, g Goal) float64 {
	if rapid.Bool().Draw(t, "no hint") {
		return 0
	}
	return g.From * math.Exp(rapid.Float64Range(-1, 13).Draw(t, "log hint"))
}

// A server with a sharp edge: the bracket holds it and is as narrow as asked for,
// or the edge is outside the range. No rate is tried oftener than need be.
func TestSharpEdge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGoal(t)
		hint := drawHint(t, g)
		edge := g.From * math.Exp(rapid.Float64Range(-1, 13).Draw(t, "log edge"))
		s, done := search(t, g, hint, func(rate float64) bool { return rate <= edge })
		switch {
		case edge < g.From:
			if s.Low != 0 || s.High != g.From {
				t.Fatalf("edge %v below %+v: %+v", edge, g, s)
			}
		case edge >= g.To:
			if s.Low != g.To || !math.IsInf(s.High, 1) {
				t.Fatalf("edge %v above %+v: %+v", edge, g, s)
			}
		default:
			if !(s.Low <= edge && edge < s.High) || s.High/s.Low-1 > g.Resolution*(1+1e-9) {
				t.Fatalf("edge %v within %+v: %+v", edge, g, s)
			}
		}
		tolerated := int(g.Tolerate*float64(g.Trials) + 1e-9)
		for _, trial := range done {
			same, want := 0, 1 // once, but at the ends
			for _, o := range done {
				if o == trial {
					same++
				}
			}
			switch trial.Rate {
			case s.Low:
				want = g.Trials - tolerated
			case s.High:
				want = tolerated + 1
			}
			if same != want {
				t.Fatalf("%+v: %v was tried %d times, want %d", g, trial.Rate, same, want)
			}
		}
	})
}

// A server that does what it likes: the search ends with bounds that the trials confirm. It continues
// alike from any point of it.
func TestAnyServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGoal(t)
		hint := drawHint(t, g)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		share := rng.Float64()
		s, done := search(t, g, hint, func(float64) bool { return rng.Float64() < share })
		if s.Low >= s.High {
			t.Fatalf("%+v: %+v", g, s)
		}
		shuffled := slices.Clone(done)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, err := g.Next(shuffled, hint)
		if err != nil || again != s {
			t.Fatalf("in another order %+v, %v, want %+v", again, err, s)
		}
		cut := rng.IntN(len(done))
		resumed, err := g.Next(done[:cut], hint)
		if err != nil || resumed.Done || resumed.Next != done[cut].Rate {
			t.Fatalf("after %d trials %+v, %v, want %v next", cut, resumed, err, done[cut].Rate)
		}
	})
}

func TestOrderOfRates(t *testing.T) {
	g := Goal{From: 100, To: 10_000, Resolution: 0.05, Trials: 1}
	for _, c := range []struct {
		name  string
		hint  float64
		edge  float64
		rates []float64
		state State
	}{
		{"no hint", 0, 1234, []float64{100, 200, 400, 800, 1600, 1130, 1345, 1235, 1180}, State{Done: true, Low: 1180, High: 1235}},
		{"a good hint", 1234, 1234, []float64{1040, 1465, 1235, 1135, 1185}, State{Done: true, Low: 1185, High: 1235}},
		{"a hint too low", 500, 1234, []float64{422, 594, 1180, 4640, 2340, 1660, 1400, 1285, 1230}, State{Done: true, Low: 1230, High: 1285}},
		{"a hint too high", 1500, 1234, []float64{1265, 640, 900, 1065, 1160, 1210}, State{Done: true, Low: 1210, High: 1265}},
		{"a hint above the range", 1e9, 20_000, []float64{8440, 10_000}, State{Done: true, Low: 10_000, High: math.Inf(1)}},
		{"a hint below the range", 1, 50, []float64{100}, State{Done: true, High: 100}},
		{"nothing is good", 0, 0, []float64{100}, State{Done: true, High: 100}},
		{"everything is", 0, 1e9, []float64{100, 200, 400, 800, 1600, 3200, 6400, 10_000}, State{Done: true, Low: 10_000, High: math.Inf(1)}},
	} {
		s, done := search(t, g, c.hint, func(rate float64) bool { return rate <= c.edge })
		if s != c.state || !slices.Equal(rates(done), c.rates) {
			t.Errorf("%s: %+v after %v\nwant %+v after %v", c.name, s, rates(done), c.state, c.rates)
		}
	}
}

// A simulated server answers at most edge requests a second, and at most connections times
// perConnection. It may answer on some connections only. A generator has limits of its own. The search
// finds the server's edge, or says that the generator was the limit below it, for any limits.
func TestLimitsOfTheGenerator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decades := func(name string, low, high float64) float64 {
			return math.Pow(10, rapid.Float64Range(low, high).Draw(t, name))
		}
		g := Goal{
			From: 10, To: 1e7, Resolution: 0.05, Trials: 3, Tolerate: 0.5, First: decades("first", 1, 4),
			MostConnections: int(decades("connections", 0, 4.3)),
		}
		g.Connections = rapid.SampledFrom([]int{min(500, g.MostConnections), g.MostConnections}).Draw(t, "first connections")
		edge, perConnection, cpu := decades("edge", 2, 6), decades("per connection", 0.3, 4), decades("cpu", 3, 6)
		serves := int(decades("serves", 0, 5))
		edge = min(edge, perConnection*float64(serves))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var done []Trial
		var s State
		for {
			var err error
			if s, err = g.Next(done, 0); err != nil {
				t.Fatal(err)
			}
			if s.Done {
				break
			}
			if len(done) > mostTrials(g) || s.Connections < 1 || s.Connections > g.MostConnections {
				t.Fatalf("%+v: %+v after %+v", g, s, done)
			}
			used := min(s.Connections, int(math.Ceil(s.Next/perConnection)))
			able := min(edge, perConnection*float64(s.Connections))
			try := Trial{Rate: s.Next, Good: s.Next <= min(able, cpu), Connections: s.Connections, Reached: min(s.Next, able, cpu) * (0.98 + 0.04*rng.Float64())}
			try.Own = !try.Good && s.Next > cpu && cpu < able
			if used > serves {
				try.Good, try.Own, try.Served = false, false, serves
			}
			try.Waited = !try.Good && !try.Own && try.Served == 0
			done = append(done, try)
		}
		own := min(cpu, perConnection*float64(g.MostConnections))
		found := math.Sqrt(max(s.Low, g.From) * s.High)
		switch {
		case math.Abs(found/min(own, max(edge, g.From))-1) > 0.06 && s.Low > 0:
			t.Fatalf("%+v: %+v, want %v or %v, after %+v", g, s, edge, own, done)
		case !s.Own && edge > 1.1*own:
			t.Fatalf("%+v: %+v blames a server of %v for the generator's %v: %+v", g, s, edge, own, done)
		case s.Own && edge < 0.9*min(cpu, perConnection*float64(g.MostConnections*2/3)):
			t.Fatalf("%+v: %+v blames a generator of %v for the server's %v: %+v", g, s, own, edge, done)
		}
	})
}

// Whatever comes out of the trials, no rate is repeated without end, and a search ends.
func TestAnyOutcomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGoal(t)
		g.MostConnections = int(math.Exp(rapid.Float64Range(0, 12).Draw(t, "log connections")))
		g.Connections = rapid.IntRange(0, g.MostConnections).Draw(t, "first connections")
		most := 2*g.Trials + g.mostUnclear()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		share := func() float64 { return rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.9, 1}).Draw(t, "share") }
		good, disturbed, own, waited, some, faster := share(), share(), share(), share(), share(), share()
		var done []Trial
		times := map[float64]int{}
		for {
			s, err := g.Next(done, 0)
			if err != nil {
				t.Fatalf("%+v: %v", g, err)
			}
			if s.Done {
				return
			}
			if times[s.Next]++; times[s.Next] > most || len(done) > most*mostTrials(g) {
				t.Fatalf("%+v: %v a %dth time, after %d trials: %+v", g, s.Next, times[s.Next], len(done), done)
			}
			is := func(share float64) bool { return rng.Float64() < share }
			x := Trial{Rate: s.Next, Connections: max(1, s.Connections), Good: is(good), Disturbed: is(disturbed)}
			x.Own, x.Waited, x.Reached = !x.Good && is(own), !x.Good && is(waited), s.Next*rng.Float64()
			if is(faster) {
				x.Reached *= float64(x.Connections)
			}
			if !x.Good && is(some) {
				x.Served = rng.IntN(x.Connections)
			}
			done = append(done, x)
		}
	})
}

// A disturbed trial says nothing, unless there are too many of them at a rate: then the
// rate cannot be had here.
func TestDisturbedTrials(t *testing.T) {
	g := Goal{From: 100, To: 1000, Resolution: 0.1, Trials: 3, Tolerate: 0.34}
	trials := func(rate float64, disturbed, good int) (done []Trial) {
		for i := range disturbed + good {
			done = append(done, Trial{Rate: rate, Good: i >= disturbed, Disturbed: i < disturbed})
		}
		return done
	}
	for _, c := range []struct {
		done []Trial
		want State
	}{
		{trials(100, 3, 0), State{Next: 100, High: math.Inf(1)}},
		{trials(100, 3, 2), State{Next: 200, Low: 100, High: math.Inf(1)}},
		{trials(100, 4, 0), State{Next: 100, High: math.Inf(1)}},
		{trials(100, 5, 0), State{Done: true, High: 100}},
	} {
		if got, err := g.Next(c.done, 0); err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v; want %+v", c.done, got, err, c.want)
		}
	}
}

// A good rate above a bad one is no lower bound that counts.
func TestInversion(t *testing.T) {
	g := Goal{From: 100, To: 1000, Resolution: 0.1, Trials: 1}
	s, err := g.Next([]Trial{{Rate: 200, Good: true}, {Rate: 400, Good: false}, {Rate: 500, Good: true}, {Rate: 800, Good: false}}, 0)
	if err != nil || s.Low != 200 || s.High != 400 || s.Done || s.Next != 282 {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = g.Next([]Trial{{Rate: 400, Good: false}, {Rate: 500, Good: true}}, 0)
	if err != nil || s.Low != 0 || s.High != 400 || s.Next != 200 {
		t.Errorf("%+v, %v", s, err)
	}
	// Undecided rates outside the bracket no longer matter.
	g.Trials = 2
	s, err = g.Next([]Trial{{Rate: 200, Good: true}, {Rate: 200, Good: true}, {Rate: 210, Good: false}, {Rate: 500, Good: true}}, 0)
	if err != nil || s != (State{Done: true, Low: 200, High: 210}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// How accurate a search is where the edge is not sharp: a trial at a rate r is good with probability
// 1/(1 + exp((r/e − 1)/s)). From nine good of ten to one is a step of 4.4·s of the edge e. A search
// looks for the rate at which one half of the attempts make a lower bound. The figures come from 4,000
// simulated experiments of eight rounds. Each round is a search with the one before as its hint. s is 2
// %, the resolution 2 %, and a rate has three trials:
//
//	one bad trial of three tolerated: mean error −0.05 %, spread of one search 1.9 %,
//	  and Student's interval over the rounds holds the rate in 95 %, with 14 trials
//	  a search;
//	none tolerated: −0.4 %, 2.4 %, 94 % and 15 trials. A search that stops at the first
//	  bad trial errs to the low side.
func TestSoftEdge(t *testing.T) {
	const (
		experiments = 400
		rounds      = 8
		softness    = 0.02
		t975        = 2.3646242515927844 // of Student's t with seven degrees of freedom
	)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		tolerate float64
		half     float64 // the share of good trials at which half of the rates are lower bounds
	}{
		{0.34, 0.5}, {0, math.Cbrt(0.5)},
	} {
		g := Goal{From: 10, To: 100_000, Resolution: 0.02, Trials: 3, Tolerate: c.tolerate}
		held, sum, squares, trials := 0, 0.0, 0.0, 0
		for range experiments {
			edge := 1000 * math.Exp(2*rng.Float64())
			sought := edge * (1 + softness*math.Log(1/c.half-1))
			hint, mean, square := 0.0, 0.0, 0.0
			for range rounds {
				s, done := search(t, g, hint, func(rate float64) bool {
					return rng.Float64() < 1/(1+math.Exp((rate/edge-1)/softness))
				})
				hint = math.Sqrt(s.Low * s.High)
				off := math.Log(hint / sought)
				mean += off / rounds
				square += off * off
				trials += len(done)
			}
			spread := math.Sqrt((square - rounds*mean*mean) / (rounds - 1))
			if math.Abs(mean) <= t975*spread/math.Sqrt(rounds) {
				held++
			}
			sum += mean
			squares += spread * spread
		}
		bias, spread, share := sum/experiments, math.Sqrt(squares/experiments), float64(held)/experiments
		perSearch := float64(trials) / experiments / rounds
		if math.Abs(bias) > 0.006 || spread > 0.028 || math.Abs(share-0.945) > 0.04 || perSearch > 17 {
			t.Errorf("tolerate %v: bias %v, spread %v, held in %v, %v trials a search", c.tolerate, bias, spread, share, perSearch)
		}
	}
}

func TestFaults(t *testing.T) {
	good := Goal{From: 1, To: 10, Resolution: 0.1, Trials: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	nan := math.NaN()
	more := good
	more.First, more.Connections = 11, 1
	for _, c := range []struct {
		goal Goal
		done []Trial
		hint float64
		says []string
	}{
		{Goal{From: 0, To: 0, Resolution: 0, Trials: 0, Tolerate: 1}, nil, 0, []string{"from 0", "to 0", "resolution 0", "trials 0", "tolerate 1"}},
		{Goal{From: nan, To: nan, Resolution: nan, Trials: 1001, Tolerate: nan}, nil, 0, []string{"from NaN", "to NaN", "resolution NaN", "trials 1001", "tolerate NaN"}},
		{more, nil, 0, []string{"first 11: want 1 to 10", "connections 1: want 0 to 0"}},
		{good, []Trial{{Rate: 2}, {Rate: 11}}, 0, []string{"trial 1 has rate 11: want 1 to 10"}},
		{good, []Trial{{Rate: nan}}, 0, []string{"trial 0 has rate NaN"}},
		{good, nil, -1, []string{"hint -1"}},
		{good, nil, math.Inf(1), []string{"hint +Inf"}},
	} {
		s, err := c.goal.Next(c.done, c.hint)
		if err == nil || s != (State{}) {
			t.Errorf("%+v, %v, %v: %+v, %v", c.goal, c.done, c.hint, s, err)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v: want %q", err, says)
			}
		}
	}
}
