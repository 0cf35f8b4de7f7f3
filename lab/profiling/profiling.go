// Package profiling takes profiles of a target in the window of one load, by the plan's methods. It
// finds what the load left in the target. If a profile cannot be taken here, it is left out and this is
// recorded; the trial does not fail.
package profiling

import (
	"context"
	"debug/buildinfo"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	pprof "github.com/google/pprof/profile"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/observe"
	"dyno/observe/profile"
	"dyno/observe/profile/offcpu"
	"dyno/observe/profile/sample"
	"dyno/observe/profile/symbol"
	"dyno/results/rundir"
)

// settling is how long a target has, after the load has stopped, to finish the work that
// it had begun. settlingGap is the time between two checks of that.
const (
	settling    = 2 * time.Second
	settlingGap = 100 * time.Millisecond
)

// A Profiler takes the profiles of one trial, in its window.
type Profiler struct {
	plan    *plan.Profile
	source  profile.Source // of the target; its URL is empty if there is none
	root    int            // the target's supervisor; 0 if dyno did not start the target
	cpus    []int          // those on which the target may run
	symbols *symbol.Cache
	window  time.Duration

	sampler     *sample.Sampler
	waits       *offcpu.Profiler
	descriptors float64 // before the load
	goroutines  *pprof.Profile

	fetching sync.WaitGroup
	mu       sync.Mutex // guards the fields below
	taken    []taken
	missing  []error
}

// A taken profile is still to be written.
type taken struct {
	rundir.Profile
	content *pprof.Profile
}

// New prepares to profile the target of a variant, which is up and idle. started is nil if dyno did not
// start it. symbols belong to the programs that were profiled before.
func New(ctx context.Context, what *plan.Profile, v *plan.Variant, started *target.Process, symbols *symbol.Cache) *Profiler {
	p := &Profiler{
		plan: what, source: profile.Source{URL: v.Target.Pprof, AnyHost: started == nil},
		cpus: v.Target.CPUs, symbols: symbols, window: v.Load.Window, descriptors: math.NaN(),
	}
	if started != nil {
		p.root = started.Supervisor()
		p.descriptors = descriptors(p.root)
	}
	if p.wants(plan.ProfileGoroutine) {
		p.goroutines = p.fetch(ctx, "goroutine_before", profile.Goroutine, 0)
	}
	return p
}

func (p *Profiler) wants(kind string) bool { return slices.Contains(p.plan.Kinds, kind) }

// Phase starts the profiles at the begin of the window and ends them at its end.
func (p *Profiler) Phase(ctx context.Context, phase config.Phase) {
	switch phase {
	case config.Measuring:
		p.begin(ctx)
	case config.Draining:
		p.end(ctx)
	}
}

// begin starts the profiles that cover the window.
func (p *Profiler) begin(ctx context.Context) {
	if p.wants(plan.ProfileCPU) && p.plan.By == plan.BySampling {
		c := sample.DefaultConfig(p.root)
		c.CPUs, c.Symbols = p.cpus, p.symbols
		var err error
		if p.sampler, err = sample.Start(c); err != nil {
			p.addMissing(err)
			p.sampler = nil
		}
	}
	if p.wants(plan.ProfileOffCPU) {
		var err error
		if p.waits, err = offcpu.Start(p.root, p.symbols); err != nil {
			p.addMissing(err)
			p.waits = nil
		}
	}
	// The program's own CPU profile takes whole seconds. It is requested only if the plan
	// says so, or if there is no sampler.
	whole := p.window.Truncate(time.Second)
	for _, kind := range []profile.Kind{profile.CPU, profile.Allocs, profile.Mutex, profile.Block} {
		own := kind != profile.CPU || p.plan.By == plan.ByPprof || p.sampler == nil && p.source.URL != ""
		if !p.wants(string(kind)) || !own {
			continue
		}
		if whole == 0 {
			p.addMissing(texts.NewError("unavailable.window", "taken", string(kind), "time", p.window.String()))
			continue
		}
		p.fetching.Go(func() { p.fetch(ctx, string(kind), kind, whole) })
	}
}

// end ends the profiles that cover the window, while the target still runs.
func (p *Profiler) end(ctx context.Context) {
	if p.sampler != nil {
		r, err := p.sampler.Stop()
		p.sampler = nil
		if err != nil {
			p.addMissing(err)
		} else {
			p.keep(taken{rundir.Profile{
				Kind: plan.ProfileCPU, By: plan.BySampling, Samples: count(r.Samples), Lost: count(r.Lost + r.Dropped),
				Detail: strings.Join(r.Notes, "; "),
			}, r.Profile})
		}
	}
	if p.waits != nil {
		r, err := p.waits.Stop()
		p.waits = nil
		if err != nil {
			p.addMissing(err)
		} else {
			p.keep(taken{rundir.Profile{
				Kind: plan.ProfileOffCPU, By: "ebpf", Samples: int64(len(r.Profile.Sample)), Lost: count(r.Lost + r.Unknown),
			}, r.Profile})
		}
	}
	for _, kind := range []profile.Kind{profile.Heap, profile.Goroutine} {
		if p.wants(string(kind)) {
			p.fetch(ctx, string(kind), kind, 0)
		}
	}
}

// Settle waits until the target is idle after the load, or until settling has passed. It records what
// the load has left.
func (p *Profiler) Settle(ctx context.Context, t *rundir.Trial) {
	p.fetching.Wait()
	// A target that does not answer may not take longer either.
	ctx, cancel := context.WithTimeout(ctx, 2*settling)
	defer cancel()
	deadline := time.After(settling)
	for {
		left := descriptors(p.root) - p.descriptors
		var (
			after   *pprof.Profile
			running []profile.Stack
		)
		if p.goroutines != nil {
			var err error
			if after, err = p.source.Fetch(ctx, profile.Goroutine, 0); err == nil {
				running, err = profile.Leftover(p.goroutines, after)
			}
			if err != nil {
				p.addMissing(err)
				p.goroutines = nil
			}
		}
		over := ctx.Err() != nil
		select {
		case <-deadline:
			over = true
		default:
		}
		if !over && (left > 0 || len(running) > 0) {
			select {
			case <-time.After(settlingGap):
			case <-ctx.Done():
			}
			continue
		}
		if !math.IsNaN(left) {
			n := int64(left)
			t.Target.DescriptorsLeft = &n
		}
		if after != nil {
			p.keep(taken{rundir.Profile{Kind: "goroutine_after", By: plan.ByPprof, Samples: int64(len(after.Sample))}, after})
		}
		return
	}
}

// fetch asks the target for a profile, and keeps it.
func (p *Profiler) fetch(ctx context.Context, name string, kind profile.Kind, d time.Duration) *pprof.Profile {
	content, err := p.source.Fetch(ctx, kind, d)
	if err != nil {
		p.addMissing(err)
		return nil
	}
	p.keep(taken{rundir.Profile{Kind: name, By: plan.ByPprof, Samples: int64(len(content.Sample))}, content})
	return content
}

func (p *Profiler) keep(t taken) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.File = t.Kind + ".pb.gz"
	t.Seconds = time.Duration(t.content.DurationNanos).Seconds()
	p.taken = append(p.taken, t)
}

func (p *Profiler) addMissing(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = append(p.missing, err)
}

// Save writes what was taken.
func (p *Profiler) Save(t *rundir.Trial, folder *rundir.TrialWriter) error {
	var errs []error
	for _, x := range p.taken {
		if p.root != 0 {
			x.Module = module(x.content)
		}
		t.Profiles = append(t.Profiles, x.Profile)
		errs = append(errs, folder.Save(x.File, func(w io.Writer) error { return x.content.Write(w) }))
	}
	for _, err := range p.missing {
		t.AddUnavailable(err)
	}
	return errors.Join(errs...)
}

// module returns the path of a Go program's main module, for the file in which most stacks begin; empty
// if that is no Go program, or cannot be read here.
func module(p *pprof.Profile) string {
	stacks, file := map[string]int64{}, ""
	for _, s := range p.Sample {
		if len(s.Location) == 0 || len(s.Value) == 0 || s.Location[len(s.Location)-1].Mapping == nil {
			continue
		}
		f := s.Location[len(s.Location)-1].Mapping.File
		if stacks[f] += s.Value[0]; filepath.IsAbs(f) && stacks[f] > stacks[file] {
			file = f
		}
	}
	if about, err := os.Stat(file); err != nil || !about.Mode().IsRegular() {
		return ""
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return ""
	}
	return info.Main.Path
}

// descriptors counts the open ones of a process and its descendants; NaN if that cannot
// be found out.
func descriptors(supervisor int) float64 {
	if supervisor == 0 {
		return math.NaN()
	}
	tree, err := observe.NewTreeBelow("target", supervisor)
	if err != nil {
		return math.NaN()
	}
	defer func() { _ = tree.Close() }() // nothing was written
	columns := tree.Columns()
	row := make([]float64, len(columns))
	if tree.Observe(row) != nil {
		return math.NaN()
	}
	return row[slices.IndexFunc(columns, func(c observe.Column) bool { return c.Name == "descriptors" })]
}

// count converts a number of samples, which is far below the limit.
func count(n uint64) int64 { return int64(n) } //nolint:gosec // see above
