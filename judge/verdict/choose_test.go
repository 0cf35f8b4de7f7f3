package verdict

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// A madePilot is what a pilot of a server measured.
type madePilot struct {
	loop      string
	rate      float64    // answers per second
	answer    float64    // seconds
	cpu       float64    // of the target, in CPUs
	wait      float64    // for them
	noise     [2]float64 // of the two that run at once: how much their CPU time rises every other half second
	cold      bool       // the first second costs twice
	disturbed bool
	dead      bool
	given     Design
}

// choose makes the pilot up: base and variant at once, each on a CPU with its generator. Starting and ending them took
// half a second.
func (p madePilot) choose() (Design, error) {
	const window = 2.5
	run := rundir.Run{StartedAt: time.Unix(1e9-60, 0), FinishedAt: new(time.Unix(1e9+3, 0))}
	run.Plan = rundir.Plan{Base: "a", Loop: p.loop, Duet: &rundir.PlanDuet{CPUSets: [2]rundir.CPUSet{{LoadCPUs: []int{0}, TargetCPUs: []int{0}}, {LoadCPUs: []int{1}, TargetCPUs: []int{1}}}}}
	var pilots []recording.Source
	for i, name := range []string{"a", "b"} {
		run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{Name: name, Loop: p.loop, Connections: 50})
		t := &rundir.Trial{Number: i + 1, Variant: name, Complete: true, StartedAt: time.Unix(1e9, 0), WindowSeconds: window, Throughput: &p.rate, Duet: &rundir.Duet{CPUSet: i, Shared: true}}
		t.Times = rundir.Times{rundir.TagService: {P50: &p.answer}, rundir.TagResponse: {P50: &p.answer}}
		t.Target.CPUSeconds, t.Target.CPUSecondsPerRequest = new(p.cpu*window), new(p.cpu/p.rate)
		t.Target.RunQueueWaitSecondsPerRequest = new(p.wait / p.rate)
		t.Generator = rundir.Generator{CPUShare: new(0.04), Workers: 1}
		if p.dead && i == 1 {
			t.Throughput = new(0.)
		}
		var times, counter []float64
		var log []hist.Interval
		used := 0.
		for tick := range 26 {
			times, counter = append(times, float64(tick)*pilotBin), append(counter, used)
			more := p.cpu * pilotBin * (1 + 0.02*float64((tick*(7+4*i))%3))
			if tick/5%2 == 1 {
				more *= 1 + p.noise[i]
			}
			if p.cold && tick < 10 {
				more *= 2
			}
			used += more
			h := hist.New()
			h.RecordN(int64(p.answer*1e9), max(1, int64(p.rate*pilotBin)))
			for _, tag := range []string{rundir.TagResponse, rundir.TagService} {
				log = append(log, hist.Interval{Start: time.Duration(tick) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Tag: tag, Hist: h})
			}
		}
		pilots = append(pilots, recording.Source{Trial: t,
			Log: func() ([]hist.Interval, error) { return log, nil },
			Series: func() (*series.Series, error) {
				return &series.Series{Columns: []string{series.TimeColumn, cpuColumn}, Values: [][]float64{times, counter}}, nil
			}})
		run.Trials = append(run.Trials, rundir.Examined{Disturbed: p.disturbed})
	}
	return choose(&run, pilots, 3, p.given)
}

// What a pilot measured decides by what variants are compared, for how long, and with how many connections.
func TestChoose(t *testing.T) {
	const cpu, rounds = rundir.MetricCPU, 15
	busy := madePilot{loop: "closed", rate: 3700, answer: 0.0135, cpu: 0.94}
	for _, c := range []struct {
		name string
		of   func(p *madePilot)
		want Design
		why  string
	}{
		{"busy", func(*madePilot) {}, Design{Metric: cpu, Connections: 50, Warmup: 0.5, Window: 1, Rounds: rounds}, "choice.busy"},
		{"busy next to a program that takes a third", func(p *madePilot) { p.cpu, p.wait, p.rate = 0.63, 0.3, 2500 }, Design{Metric: cpu, Connections: 50, Warmup: 0.5, Window: 1, Rounds: rounds}, "choice.busy"},
		{"slow for another reason than its CPU", func(p *madePilot) { p.cpu, p.rate, p.answer = 0.1, 1000, 0.05 }, Design{Metric: "throughput", Connections: 50, Warmup: 0.5, Window: 1, Rounds: rounds}, "choice.default"},
		{"slow on a noisy machine", func(p *madePilot) { p.cpu, p.rate, p.answer, p.disturbed = 0.1, 1000, 0.05, true }, Design{Metric: "throughput", Connections: 50, Warmup: 0.5, Window: 1, Rounds: rounds}, "choice.default"},
		{"at a rate", func(p *madePilot) { p.loop, p.cpu, p.rate = "open", 0.1, 1000 }, Design{Metric: "response.p99", Connections: 50, Warmup: 0.5, Window: 2, Rounds: 12}, "choice.default"},
		{"at a rate on a noisy machine", func(p *madePilot) { p.loop, p.cpu, p.rate, p.disturbed = "open", 0.1, 1000, true }, Design{Metric: cpu, Connections: 50, Warmup: 0.5, Window: 1, Rounds: rounds}, "choice.noisy"},
		{"20 ms of CPU time an answer", func(p *madePilot) { p.rate, p.answer = 50, 1 }, Design{Metric: cpu, Connections: 5, Warmup: 0.5, Window: 5, Rounds: 12}, "choice.busy"},
		{"cold for a second", func(p *madePilot) { p.cold = true }, Design{Metric: cpu, Connections: 50, Warmup: 1, Window: 1, Rounds: 12}, "choice.busy"},
		{"noise that hits both", func(p *madePilot) { p.noise = [2]float64{0.3, 0.3} }, Design{Duet: true, Metric: cpu, Connections: 50, Warmup: 1, Window: 1, Rounds: 18}, "choice.duet"},
		{"noise that hits one", func(p *madePilot) { p.noise = [2]float64{0.3, 0} }, Design{Metric: cpu, Connections: 50, Warmup: 1, Window: 1, Rounds: 12}, "choice.busy"},
		{"all given", func(p *madePilot) {
			p.rate, p.answer = 50, 1
			p.given = Design{Metric: "service.p50", Connections: 40, Window: 2, Rounds: 8}
		}, Design{Metric: "service.p50", Connections: 40, Warmup: 0.5, Window: 2, Rounds: 8}, "choice.given"},
	} {
		p := busy
		c.of(&p)
		d, err := p.choose()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if math.Abs(d.Lasts-mostRoundsTime) > 30 && c.name != "20 ms of CPU time an answer" && d.Rounds > 8 {
			t.Errorf("%s: lasts %v s", c.name, d.Lasts)
		}
		if d.Why.Kind != c.why {
			t.Errorf("%s: %s, want %s", c.name, d.Why.Kind, c.why)
		}
		d.Lasts, d.Why = 0, rundir.Message{}
		if diff := cmp.Diff(c.want, d); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	busy.dead = true
	if _, err := busy.choose(); err == nil || !strings.Contains(err.Error(), "pilot of b: it has no figures") {
		t.Errorf("of a server that answered nothing: %v", err)
	}
}
