package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/experiments/disturb"
	"dyno/judge/verdict/checks"
	"dyno/lab/plan"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// Noises are the disturbances during a measurement, and the CPUs that they are on. Stalls
// take a CPU at real-time priority for 1 to 20 ms, now and then; busy keeps one 30 % busy
// at ordinary priority.
const (
	Undisturbed     = "none"
	StallsGenerator = "stalls-generator"
	StallsTarget    = "stalls-target"
	StallsBoth      = "stalls-both"
	BusyGenerator   = "busy-generator"
	BusyTarget      = "busy-target"
	BusyBoth        = "busy-both"
)

// Noises lists all but none.
func Noises() []string {
	return []string{StallsGenerator, StallsTarget, StallsBoth, BusyGenerator, BusyTarget, BusyBoth}
}

const (
	shortestStall = time.Millisecond
	longestStall  = 20 * time.Millisecond
	busyShare     = 0.3
)

// disturbance is the configuration of a noise. Stalls come at the rate, on each CPU.
func (k *calibrator) disturbance(noise string, rate float64, seed uint64) disturb.Config {
	c := disturb.Config{Seed: seed}
	kind, where, _ := strings.Cut(noise, "-")
	switch where {
	case "generator":
		c.CPUs = k.load
	case "target":
		c.CPUs = k.server
	default:
		c.CPUs = slices.Compact(slices.Concat(k.server, k.load))
	}
	if kind == "busy" {
		c.Busy = busyShare
		return c
	}
	c.Shortest, c.Longest, c.PerSecond, c.RealTime = shortestStall, longestStall, rate, true
	return c
}

// withNoise makes a noise while do runs.
func (k *calibrator) withNoise(noise string, rate float64, seed uint64, do func() error) error {
	if noise == Undisturbed {
		return do()
	}
	p, err := disturb.Start(k.disturbance(noise, rate, seed))
	if err != nil {
		return fmt.Errorf("noise %s: %w", noise, err)
	}
	err = do()
	_, failed := p.Stop()
	return errors.Join(err, failed)
}

// A publishedFigure is a figure that a server publishes, and its tolerance: the larger of a
// value and of a share of the truth. A disturbance that moves the figure by less needs no mark.
type publishedFigure struct {
	figure string
	floor  float64 // in the figure's own unit
	share  float64
}

func (s publishedFigure) slack(truly float64) float64 { return max(s.floor, s.share*truly) }

// A knownServer has the same figures in each undisturbed run: its times are planned, and
// each run offers it the same arrivals.
type knownServer struct {
	name    string
	args    []string
	rate    float64 // of arrivals; 0: a closed loop
	poisson bool
	users   int // of a closed loop
	figures []publishedFigure
	// capacity is the throughput in theory; 0: that of undisturbed runs is the truth.
	capacity float64
}

// knownServers lists the servers of the noise table. Work has a fixed number of iterations:
// how long they take is the truth, which must not be measured again for each run.
func knownServers(iterations int64) []knownServer {
	figures := func(latency string, more ...publishedFigure) []publishedFigure {
		return append([]publishedFigure{
			{compared, 0, 0.05},
			{latency + ".p50", 50e-6, 0.10},
			{latency + ".p99", 100e-6, 0.10},
		}, more...)
	}
	polls := spin.String()
	return []knownServer{
		{
			name: "fixed delay 2 ms, open, Poisson, 1,000/s", rate: 1000, poisson: true, figures: figures("response"),
			args: []string{"delay", "--delay", "2ms", "--spin", polls},
		},
		{
			name: "freezes of 100 ms a second, open, 2,000/s", rate: 2000, figures: figures("response"),
			args: []string{"freeze", "--hold", hold.String(), "--period", period.String(), "--spin", polls},
		},
		{
			name: "M/M/1, μ 1,000/s, open, Poisson, 600/s", rate: 600, poisson: true, figures: figures("response"),
			args: []string{"queue", "--workers", "1", "--service", "1ms", "--exponential", "--seed", "1", "--spin", polls},
		},
		{
			name: "4 workers of 1 ms, closed, 16 users", users: 16, figures: figures("service"), capacity: oracle.Capacity(4, time.Millisecond),
			args: []string{"queue", "--workers", "4", "--service", "1ms", "--spin", polls},
		},
		{
			name: "fixed delay 2 ms, closed, 4 users", users: 4, figures: figures("service"),
			args: []string{"delay", "--delay", "2ms", "--spin", polls},
		},
		{
			// For this server the CPU is the limit, and its CPU time is known.
			name: "200 µs of work, closed, 8 users", users: 8, figures: figures("service", publishedFigure{cpuPerRequest, 0, 0.05}),
			args: []string{"work", "--iterations", strconv.FormatInt(iterations, 10)},
		},
	}
}

// noisyWork is the CPU time of a request to the server that works.
const noisyWork = 200 * time.Microsecond

const cpuPerRequest = "target.cpu_per_request"

// A Noisy is the statement of one run with a noise about one figure.
type Noisy struct {
	Run       int
	Server    string
	Noise     string
	PerSecond float64 // stalls, of each CPU
	Figure    string
	State     string // see rundir's State constants
	Estimate  *float64
	Low, High *float64 // of a bounded figure, or one that is not identified
	Disturbed *float64 // share of the window
	Foreign   *float64 // share of all CPUs' time that others used, the noise included
	Causes    []string
}

func (n *Noisy) row() []string {
	return []string{
		strconv.Itoa(n.Run), n.Server, n.Noise, number(&n.PerSecond), n.Figure, n.State,
		number(n.Estimate), number(n.Low), number(n.High), number(n.Disturbed), number(n.Foreign), strings.Join(n.Causes, " "),
	}
}

// noisyColumns are the columns of row.
var noisyColumns = []string{"run", "server", "noise", "stalls_per_second", "figure", "state", "estimate", "low", "high", "disturbed_share", "foreign_share", "causes"}

// noise measures servers with a known answer with each kind of noise, and without. A
// turn holds all of them in a random order, so that other disturbances affect all alike.
func (k *calibrator) noise(ctx context.Context) (err error) {
	s, err := k.sheet("noise.csv", noisyColumns...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	type cell struct {
		server knownServer
		noise  string
	}
	var cells []cell
	for _, server := range knownServers(oracle.WorkIterations(noisyWork)) {
		// Runs without noise come twice: the truth must be known better than the figures
		// that are compared with it.
		for _, noise := range append([]string{Undisturbed, Undisturbed}, Noises()...) {
			cells = append(cells, cell{server, noise})
		}
	}
	random := rand.New(rand.NewPCG(k.Seed, 0x401)) //nolint:gosec // an order, not a secret
	began, runs := time.Now(), 0
	var turn []cell
	for noisy := 0; noisy < k.NoiseRuns; {
		if len(turn) == 0 {
			turn = slices.Clone(cells)
			random.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
		}
		c := turn[0]
		turn = turn[1:]
		runs++
		if c.noise != Undisturbed {
			noisy++
		}
		rate := k.NoiseRates[random.IntN(len(k.NoiseRates))]
		found, err := k.noisy(ctx, runs, c.server, c.noise, rate)
		if err != nil {
			return err
		}
		for _, n := range found {
			k.result.Noisy = append(k.result.Noisy, n)
			if err := s.write(n.row()...); err != nil {
				return err
			}
		}
		passed := time.Since(began)
		k.step("noise: run %d, %d of %d disturbed ones: %s, %s; %v to go", runs, noisy, k.NoiseRuns, c.server.name, c.noise,
			(passed / time.Duration(noisy+1) * time.Duration(k.NoiseRuns-noisy)).Round(time.Second))
	}
	return nil
}

// noisy makes one run with a noise.
func (k *calibrator) noisy(ctx context.Context, run int, server knownServer, noise string, rate float64) (found []Noisy, err error) {
	seed := k.Seed<<20 + uint64(run) //nolint:gosec // runs are few
	err = k.withNoise(noise, rate, seed, func() error {
		return k.measure(ctx, k.noisyExperiment(server), func(f *rundir.Folder) error {
			found = readNoisy(&f.Run, run, server, noise, rate)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("noise %s, %s: %w", noise, server.name, err)
	}
	return found, nil
}

// noisyExperiment is a quick load: one trial.
func (k *calibrator) noisyExperiment(s knownServer) *plan.Experiment {
	v := plan.DefaultVariant(plan.HTTP)
	v.Target.Start = append([]string{k.Program, oracle.Command}, s.args...)
	v.Target.Start = append(v.Target.Start, "--listen", "127.0.0.1:{{port}}")
	v.Target.CPUs, v.Load.CPUs = k.server, k.load
	v.Target.Complete()
	if s.rate > 0 {
		v.Load.Open = plan.DefaultOpen()
		v.Load.Open.Rate = s.rate
		if s.poisson {
			v.Load.Open.Arrivals = plan.ArrivalsPoisson
		}
	} else {
		v.Load.Closed = &plan.Closed{Connections: s.users}
	}
	v.Load.Warmup, v.Load.Window = 200*time.Millisecond, k.NoiseWindow
	e := &plan.Experiment{
		Name: "noise", Awake: k.Awake, Variants: []plan.Variant{v},
		// The arrivals are the same in each run, because they decide the times of a
		// queue.
		Design: plan.Design{Rounds: 1, Seed: 1, Stop: plan.StopFixed, KeepDisturbed: true},
	}
	e.Complete()
	return e
}

// readNoisy reads a run's statements about the figures that the server makes known.
func readNoisy(run *rundir.Run, number int, server knownServer, noise string, rate float64) (found []Noisy) {
	if strings.HasPrefix(noise, "busy") || noise == Undisturbed {
		rate = 0
	}
	var disturbed, foreign *float64
	for _, t := range run.Trials {
		if t.Purpose != "" {
			continue
		}
		disturbed = t.DisturbedShare
		for _, c := range t.Checks {
			if c.Kind == checks.FlagForeignCPU {
				foreign = c.Measured
			}
		}
	}
	for _, want := range server.figures {
		for _, v := range run.Validity {
			if v.Figure != want.figure || v.Base != "" {
				continue
			}
			n := Noisy{
				Run: number, Server: server.name, Noise: noise, PerSecond: rate, Figure: want.figure,
				State: v.State, Low: v.Low, High: v.High, Disturbed: disturbed, Foreign: foreign, Causes: v.Causes,
			}
			for _, x := range run.Variants {
				if x.Name == v.Variant {
					n.Estimate = x.Figures[want.figure].Estimate
				}
			}
			found = append(found, n)
		}
	}
	return found
}

// A NoiseShare sums up the statements about one figure with one noise, of all servers.
// Latencies are response times of open loops and service times of closed ones.
type NoiseShare struct {
	Figure, Noise string
	States        map[string]int // runs by state
	// Holds is how often a printed figure is right. A figure printed as it is must be
	// within the tolerance. Bounds must hold the truth, with the same tolerance.
	Holds Proportion
	Of    map[string]Proportion // Holds, by state
	// Width is the median of a bounded figure's high over low, less 1; NaN of none.
	Width float64
	// Off is how far the truth was outside the printed figure and its tolerance, as a share of the truth.
	Off float64
}

// A figureOf is one figure of one server.
type figureOf struct{ server, figure string }

// A standard is the truth of a figure, and how far its runs are from it: it is
// known no better than that.
type standard struct{ truth, within float64 }

// truths returns the truth of each figure of each server: the value of theory, or else
// the median of the calmest third of the undisturbed runs. Other programs on a shared
// machine disturb those, too. The machine's own signs tell which of them are calm, not
// the figures.
func truths(all []Noisy) map[figureOf]standard {
	runs := map[figureOf][]Noisy{}
	for _, n := range all {
		if n.Noise == Undisturbed && n.Estimate != nil {
			at := figureOf{n.Server, n.Figure}
			runs[at] = append(runs[at], n)
		}
	}
	found := map[figureOf]standard{}
	for at, list := range runs {
		slices.SortStableFunc(list, func(a, b Noisy) int { return cmp.Compare(a.unrest(), b.unrest()) })
		var values []float64
		for _, n := range list[:(len(list)+2)/3] {
			values = append(values, *n.Estimate)
		}
		middle := medianOf(values)
		found[at] = standard{middle, max(slices.Max(values)-middle, middle-slices.Min(values))}
	}
	for _, s := range knownServers(0) {
		if at := (figureOf{s.name, compared}); s.capacity > 0 && found[at].truth > 0 {
			found[at] = standard{truth: s.capacity}
		}
	}
	return found
}

// unrest sums up the machine's signs: the disturbed share of the window, and the share of
// the CPUs that others used. An unknown share counts as 1.
func (n *Noisy) unrest() float64 {
	sum := 0.0
	for _, share := range []*float64{n.Disturbed, n.Foreign} {
		if share == nil {
			sum++
		} else {
			sum += max(0, *share)
		}
	}
	return sum
}

// NoiseShares sums the runs up, by figure and noise. For each figure, all noises together
// come first, with an empty noise.
func (r *Result) NoiseShares() []NoiseShare {
	slacks := map[figureOf]publishedFigure{}
	for _, s := range knownServers(0) {
		for _, f := range s.figures {
			slacks[figureOf{s.name, f.figure}] = f
		}
	}
	truly := truths(r.Noisy)
	var sums []NoiseShare
	for _, figure := range []string{compared, "p50", "p99", cpuPerRequest} {
		for _, noise := range append([]string{"", Undisturbed}, Noises()...) {
			sum := NoiseShare{Figure: figure, Noise: noise, States: map[string]int{}, Of: map[string]Proportion{}}
			var widths []float64
			for i := range r.Noisy {
				n := &r.Noisy[i]
				if n.Figure != figure && !strings.HasSuffix(n.Figure, "."+figure) {
					continue
				}
				if n.Noise != noise && (noise != "" || n.Noise == Undisturbed) {
					continue
				}
				at := figureOf{n.Server, n.Figure}
				sum.States[n.State]++
				beyond, judged := n.beyond(truly[at], slacks[at])
				if !judged {
					continue
				}
				share := sum.Of[n.State]
				share.count(beyond == 0)
				sum.Of[n.State] = share
				sum.Holds.count(beyond == 0)
				sum.Off = max(sum.Off, beyond/truly[at].truth)
				if n.State == rundir.StateBounded && *n.Low > 0 {
					widths = append(widths, *n.High / *n.Low - 1)
				}
			}
			if len(sum.States) == 0 {
				continue
			}
			sum.Width = medianOf(widths)
			sums = append(sums, sum)
		}
	}
	return sums
}

// beyond is how far the truth lies outside of the printed figure with its tolerance; 0 if
// it holds. A figure that was not printed, or whose truth is not known, is not judged.
func (n *Noisy) beyond(known standard, s publishedFigure) (beyond float64, judged bool) {
	truly := known.truth
	slack := max(s.slack(truly), known.within)
	switch {
	case !(truly > 0) || math.IsNaN(truly):
		return 0, false
	case n.State == rundir.StateOK && n.Estimate != nil:
		return max(0, math.Abs(*n.Estimate-truly)-slack), true
	case n.State == rundir.StateBounded && n.Low != nil && n.High != nil:
		return max(0, *n.Low-slack-truly, truly-*n.High-slack), true
	}
	return 0, false
}

// Outcome compares all noises together with the requirement: 95 % right.
func (n *NoiseShare) Outcome() Outcome {
	if n.Noise != "" || n.Holds.Of == 0 {
		return Unlimited
	}
	return n.Holds.within(0.95, 1)
}
