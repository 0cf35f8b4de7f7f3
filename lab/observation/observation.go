// Package observation records readings of the target, the generator and the machine during one load or
// program. It sums up the measured window for the run folder. It opens the observers that the plan asks
// for, and counts system calls after the window. If something cannot be observed here, it is left out
// and this is recorded; the trial does not fail.
package observation

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/observe"
	"dyno/observe/kernel"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// The bounds of a trial's series: readings as often as the least interval allows, and
// less often in a long trial.
const (
	leastTick = 250 * time.Millisecond
	mostRows  = 4096
)

// A Config says what to observe.
type Config struct {
	Variant    *plan.Variant
	Target     *target.Process // nil if dyno did not start it here, or has not yet
	Agent      Agent           // on whose machine the target is; nil: it is on this one, or consists of pods
	Pods       *Pods           // of a target in Kubernetes; nil: it has none
	Services   []Service
	Neighbours func() []*target.Process // other processes of dyno, once the load begins
	Purpose    string                   // of the trial
	Soak       bool                     // the target may be asked about its runtime
	Carried    bool                     // agents carry the load, and observe their own machines
}

// A Service is a service of the experiment that is up.
type Service struct {
	Name    string
	Process *target.Process
}

// A Watch records during one load or program.
type Watch struct {
	config        Config
	subject       located   // the target
	remote        *Observed // what observes it on another machine; nil: it is on this one, or cannot be observed
	targetCPUs    float64   // how many it may use; a limit may allow a fraction of one
	targetOn      []int     // its CPUs, if it is on this machine and the plan gives it some that are not the generator's
	generatorCPUs []int     // empty: the kernel decides
	tick          time.Duration

	observers []observe.Observer // those opened before the load
	kernel    *kernel.Observer   // one of them; nil without it
	paid      []paid             // observers that cost CPU time
	named     []observe.Observer // observers that the plan names

	recorder    *observe.Recorder
	recording   atomic.Pointer[observe.Recorder] // the same one, for other goroutines
	sleepers    [2]*observe.Wakeup               // on the generator's CPUs and on the target's; nil without one
	parts       []part                           // that agents carried
	origin      time.Time
	marks       [2]observe.Mark
	waits       [2]*kernel.Waits // at the marks
	marked      int
	unavailable []error
}

// New makes the watch of a trial whose processes are up.
func New(c Config) *Watch {
	v, l := c.Variant, &c.Variant.Load
	w := &Watch{
		config:        c,
		targetCPUs:    usable(&v.Target, runtime.NumCPU()),
		generatorCPUs: l.CPUs,
		tick:          max(leastTick, (l.Warmup+l.Window)/(mostRows-mostRows/16)), // some rows do not come from ticks
	}
	if c.Carried {
		w.generatorCPUs = nil
	}
	if c.Purpose == rundir.PurposePilot {
		w.tick = generator.ShortestInterval
	}
	w.subject.Subject = subjectOf(&c)
	if c.Agent == nil && c.Pods == nil {
		var err error
		w.subject, err = w.subject.locate()
		w.available(err)
		w.targetOn = w.subject.CPUs
	}
	return w
}

// usable returns how many CPUs of a machine a target may use.
func usable(t *plan.Target, cpus int) float64 {
	n := float64(cpus)
	if len(t.CPUs) > 0 {
		n = float64(len(t.CPUs))
	}
	if g := t.Cgroup; g != nil && g.CPUMax > 0 {
		n = min(n, g.CPUMax)
	}
	return n
}

// subjectOf returns what is to be observed of the target.
func subjectOf(c *Config) Subject {
	v := c.Variant
	o := &v.Observe
	s := Subject{Address: v.Target.Peer(), Sockets: o.Sockets, Process: c.Target}
	if c.Agent != nil || !slices.ContainsFunc(v.Target.CPUs, func(cpu int) bool { return slices.Contains(v.Load.CPUs, cpu) }) {
		s.CPUs = v.Target.CPUs
	}
	if len(v.Target.Start) == 0 && o.Server {
		s.PID, s.Cgroup = o.PID, o.Cgroup
		s.Listens = v.Target.Proxy == "" // who listens there on this machine may be another than whom the proxy reaches
	}
	return s
}

// Start begins to record during a load, on the engine's time line. A sleeper on the
// generator's CPUs is delayed by whatever delays the generator. One on the target's CPUs
// is delayed by whatever delays the target, except for the target's own load.
func (w *Watch) Start(s config.Start) {
	if !w.config.Carried {
		if sleeper, err := observe.NewWakeup("wakeup", w.generatorCPUs...); w.available(err) {
			w.sleepers[0] = sleeper
		}
	}
	if len(w.targetOn) > 0 {
		if sleeper, err := observe.NewUrgentWakeup("target_wakeup", w.targetOn...); w.available(err) {
			w.sleepers[1] = sleeper
		}
	}
	w.begin(s.Time, s.Threads)
}

// StartProgram begins to record a program that was started at that time. Its window has begun.
func (w *Watch) StartProgram(p *target.Process, at time.Time) {
	w.subject.Process = p
	w.begin(at, nil)
	w.Mark()
}

// begin begins to record. threads are the generator's workers.
func (w *Watch) begin(origin time.Time, threads []int) {
	var (
		observers = slices.Clone(w.observers)
		users     []observe.CPUUser
		others    []*observe.Tree
	)
	add := func(tree *observe.Tree) { observers, users = append(observers, tree), append(users, tree) }
	// Services are not measured, but they are not foreign either.
	for i, name := range serviceColumns(w.config.Services) {
		if tree, err := observe.NewTreeBelow(name, w.config.Services[i].Process.Supervisor()); w.available(err) {
			others = append(others, tree)
		}
	}
	// The other side of a duet is not foreign either.
	if w.config.Neighbours != nil {
		for i, p := range w.config.Neighbours() {
			if tree, err := observe.NewTreeBelow(fmt.Sprintf("neighbour%d", i), p.Supervisor()); w.available(err) {
				others = append(others, tree)
			}
		}
	}
	if tree, err := w.subject.tree(); w.available(err) && tree != nil {
		add(tree)
		found := newUpstreams(tree, others...)
		observers, users = append(observers, found), append(users, found)
	}
	for _, tree := range others {
		add(tree)
	}
	if generator, err := observe.NewGenerator(threads...); w.available(err) {
		observers, users = append(observers, generator), append(users, generator)
	}
	if machine, err := observe.NewMachine(users...); w.available(err) {
		observers = append(observers, machine)
		for _, missing := range machine.Missing() {
			w.available(missing)
		}
	}
	for _, group := range [...]struct {
		name string
		cpus []int
	}{{"generator_cpus", w.generatorCPUs}, {"target_cpus", w.targetOn}} {
		if len(group.cpus) == 0 {
			continue
		}
		if c, err := observe.NewCPUs(group.name, group.cpus...); w.available(err) {
			observers = append(observers, c)
		}
	}
	for _, s := range w.sleepers {
		if s != nil {
			observers = append(observers, s)
		}
	}
	// Observers that the plan names come last: where their columns have names that others have too,
	// they are left out rather than these.
	observers = append(slices.DeleteFunc(observers, func(o observe.Observer) bool { return slices.Contains(w.named, o) }), w.named...)
	recorder, err := observe.NewRecorder(observe.Config{Origin: origin, Interval: w.tick, MaxRows: mostRows}, observers...)
	for twice := (*observe.TwiceError)(nil); errors.As(err, &twice); {
		w.available(twice)
		w.available(twice.Observer.Close())
		other := func(o observe.Observer) bool { return o == twice.Observer }
		observers, w.observers, w.named = slices.DeleteFunc(observers, other), slices.DeleteFunc(w.observers, other), slices.DeleteFunc(w.named, other)
		w.paid = slices.DeleteFunc(w.paid, func(p paid) bool { return any(p) == any(twice.Observer) })
		recorder, err = observe.NewRecorder(observe.Config{Origin: origin, Interval: w.tick, MaxRows: mostRows}, observers...)
	}
	if !w.available(err) {
		for _, o := range observers {
			if !slices.Contains(w.observers, o) {
				w.available(o.Close())
			}
		}
		w.sleepers = [2]*observe.Wakeup{}
		return
	}
	w.recorder, w.origin = recorder, origin
	recorder.Start()
	w.recording.Store(recorder)
}

// serviceColumns returns the beginnings of the services' columns: their names as columns can have
// them, each once.
func serviceColumns(services []Service) []string {
	var names []string
	for _, s := range services {
		name := "service_" + strings.ToLower(strings.ReplaceAll(s.Name, "-", "_"))
		if slices.Contains(names, name) {
			name = fmt.Sprintf("%s_%d", name, len(names))
		}
		names = append(names, name)
	}
	return names
}

// Reading returns the latest reading of the target, of all its processes together: NaN where it is
// not known. Any goroutine may call it.
func (w *Watch) Reading() (cpuSeconds, rssBytes float64) {
	recorder := w.recording.Load()
	if recorder == nil {
		return math.NaN(), math.NaN()
	}
	last := recorder.Last("target_cpu_seconds", "target_rss_bytes")
	return last[0], last[1]
}

func (w *Watch) available(err error) bool {
	if err != nil {
		w.unavailable = append(w.unavailable, err)
	}
	return err == nil
}

// recordUnavailable records what could not be observed.
func (w *Watch) recordUnavailable(t *rundir.Trial) {
	for _, err := range w.unavailable {
		t.AddUnavailable(err)
	}
}

// Phase marks both ends of the window.
func (w *Watch) Phase(p config.Phase) {
	if p != config.WarmingUp {
		w.Mark()
	}
}

// Mark marks one end of the window, and at the next call the other.
func (w *Watch) Mark() {
	if w.recorder != nil && w.marked < len(w.marks) {
		w.marks[w.marked] = w.recorder.Mark()
		if w.kernel != nil {
			w.waits[w.marked] = w.kernel.Waits()
		}
		w.marked++
	}
}

// Stop ends the recording. It closes everything, whether there was a recording or not.
func (w *Watch) Stop() {
	if w.recorder == nil {
		for _, o := range w.observers {
			w.available(o.Close())
		}
		w.observers = nil
		return
	}
	err := w.recorder.Stop()
	for _, f := range w.recorder.Faults() {
		err = errors.Join(err, f.First)
	}
	w.available(err)
}

// Save writes what was recorded.
func (w *Watch) Save(folder *rundir.TrialWriter) error {
	if w.recorder == nil {
		return nil
	}
	if err := folder.Save(rundir.SeriesFile, w.recorder.WriteCSV); err != nil {
		return err
	}
	if w.sleepers[0] == nil && w.remote == nil && len(w.parts) == 0 {
		return nil
	}
	return folder.Save(rundir.StallsFile, func(f io.Writer) error { return series.WriteStalls(f, w.stalls()) })
}

// stalls are the stretches in which a CPU did not wake a due sleeper, on the trial's time line.
func (w *Watch) stalls() []series.Stall {
	var all []series.Stall
	for i, s := range w.sleepers {
		if s == nil {
			continue
		}
		for _, stall := range s.Stalls() {
			all = append(all, series.Stall{Due: stall.Due.Sub(w.origin), Late: stall.Late, Target: i > 0})
		}
	}
	if w.remote != nil {
		stalls, _ := w.remote.Rest()
		for _, stall := range stalls {
			all = append(all, series.Stall{Due: stall.Due.Sub(w.origin), Late: stall.Late, Target: true})
		}
	}
	for _, p := range w.parts {
		all = append(all, p.Stalls...)
	}
	slices.SortStableFunc(all, func(a, b series.Stall) int { return cmp.Compare(a.Due, b.Due) })
	return all
}

// Record sums up the window of a load.
func (w *Watch) Record(t *rundir.Trial, r *record.Result) {
	w.recordUnavailable(t)
	if w.marked < 2 {
		return
	}
	window := w.recorder.Window(w.marks[0], w.marks[1])
	length := (window.To - window.From).Seconds()
	// The marks are not exactly at the window's edges. So counts are divided by the requests of their
	// own stretch.
	requests := float64(t.Work()) * length / r.Window.Seconds()
	if p := w.config.Pods; p == nil {
		w.recordTarget(t, window, r.Window)
	} else if w.remote != nil {
		if err := p.Changed(); err != nil {
			t.AddUnavailable(err)
		} else {
			w.recordTarget(t, window, r.Window)
			w.recordPods(t, window)
		}
	}
	perRequest := length / requests
	t.Target.GCPauseSeconds = known(length * rate(window, "target_gc_pause_seconds"))
	// A program reports its figures once a second, independent of the window's edges, so
	// they are used as rates.
	fill(&t.Target, map[string]func(column string) float64{
		"published": func(column string) float64 { return perRequest * rate(window, column) },
		"level":     func(column string) float64 { return most(window, column) },
	})
	w.recordNamed(t, window)
	w.recordFallen(t, window)
	w.recordGenerator(&t.Generator, window)
	w.recordMachine(t, window)
}

// recordTarget sums up what the target used, and what its machine did.
func (w *Watch) recordTarget(t *rundir.Trial, window observe.Window, whole time.Duration) {
	// Readings of another machine are a little later than the row, and each by another time.
	length := (window.To - window.From).Seconds()
	if w.remote != nil {
		length = window.Delta(TargetTime)
	}
	requests := float64(t.Work()) * length / whole.Seconds()
	t.Target.ListenOverflows = grown(window, "network_listen_overflows_total")
	if s := w.subject.server; s.PID != 0 {
		t.Server = &rundir.Server{PID: s.PID, Name: s.Name}
	}
	if started := w.remote != nil && len(w.config.Variant.Target.Start) > 0; !started && !w.subject.known() && w.config.Pods == nil {
		return
	}
	cpu := w.targetCPU(window)
	t.Target.CPUSeconds = known(cpu)
	t.Target.CPUSecondsPerRequest = known(cpu / requests)
	t.Target.CPUShare = known(cpu / length / w.targetCPUs)
	user, system := window.Delta("target_cpu_user_seconds"), window.Delta("target_cpu_system_seconds")
	t.Target.UserShare = known(user / (user + system))
	here, there := w.foreign(window)
	if w.remote == nil {
		there = here
	}
	t.Target.ForeignShare = known(max(0, there) / length / w.targetCPUs)
	fill(&t.Target, map[string]func(column string) float64{
		"per request": func(column string) float64 { return window.Delta(column) / requests },
		"per second":  func(column string) float64 { return window.Delta(column) / length },
		"largest":     func(column string) float64 { return most(window, column) },
	})
	throttled := window.Delta(cgroupColumns + "_cpu_throttled_seconds")
	if w.config.Pods != nil {
		throttled = w.ofPods(window, "_cpu_throttled_seconds")
	}
	t.Target.ThrottledSeconds = known(throttled)
	recordKernel(&t.Target, window, requests)
	// The rows' percentiles do not cover the window, only the time between two rows.
	t.Target.RunQueueWaitP99 = known(w.waits[1].Since(w.waits[0], 0.99))
}

// fill gives a target's fields that say from which column they are made, and how, what that makes; nothing where it is not known.
func fill(t *rundir.Target, made map[string]func(column string) float64) {
	fields := reflect.ValueOf(t).Elem()
	for i := range fields.NumField() {
		column, how, _ := strings.Cut(fields.Type().Field(i).Tag.Get("from"), " ")
		if made[how] == nil {
			continue
		}
		switch v := known(made[how](column)); to := fields.Field(i).Addr().Interface().(type) {
		case **float64:
			*to = v
		case **int64:
			if *to = nil; v != nil {
				*to = new(int64(*v))
			}
		}
	}
}

// recordGenerator sums up what this process did. It is no generator where agents carry the load.
func (w *Watch) recordGenerator(g *rundir.Generator, window observe.Window) {
	if w.config.Carried {
		return
	}
	length := (window.To - window.From).Seconds()
	g.RSSBytes = largest(window, "generator_rss_bytes")
	wait, slices := worstWait(window, g.Workers)
	g.RunQueueWaitShare = known(wait / length)
	g.TimeslicesPerSecond = known(slices / length)
	g.StealShare = known(window.Delta("generator_cpus_cpu_steal_seconds") / window.Delta("generator_cpus_cpu_seconds"))
}

// RecordProgram sums up a program that has ended. The kernel has counted what it used,
// however short it ran; the observer may have missed it.
func (w *Watch) RecordProgram(t *rundir.Trial, p *target.Process) {
	w.recordUnavailable(t)
	if used, ok := p.Usage(); ok {
		cpu := (used.User + used.System).Seconds()
		t.Target.CPUSeconds = known(cpu)
		t.Target.CPUShare = known(cpu / t.WindowSeconds / w.targetCPUs)
		t.Target.UserShare = known(used.User.Seconds() / cpu)
		t.Target.RSSBytes = &used.MaxRSS
	}
	if w.marked < len(w.marks) {
		return
	}
	window := w.recorder.Window(w.marks[0], w.marks[1])
	// All processes together use at least as much as the largest one.
	if all := largest(window, "target_rss_bytes"); all != nil && (t.Target.RSSBytes == nil || *all > *t.Target.RSSBytes) {
		t.Target.RSSBytes = all
	}
	t.Target.Threads = largest(window, "target_threads")
	t.Target.Descriptors = largest(window, "target_descriptors")
	w.recordMachine(t, window)
	// CPU time that the program used after the observer's last reading is not foreign.
	if foreign := t.Machine.ForeignShare; foreign != nil && t.Target.CPUSeconds != nil {
		missed := *t.Target.CPUSeconds
		if seen := window.Delta("target_cpu_seconds"); !math.IsNaN(seen) {
			missed = max(0, missed-seen)
		}
		*foreign = max(0, *foreign-missed/window.Delta("machine_cpu_seconds"))
	}
}

// targetCPU returns the CPU time of the target. That of pods is read from their control groups, which also count
// processes that have ended.
func (w *Watch) targetCPU(window observe.Window) float64 {
	if w.config.Pods != nil {
		return w.ofPods(window, "_cpu_seconds")
	}
	return window.Delta("target_cpu_seconds")
}

// worstWait returns the CPU wait of the worker that waited longest, in seconds, and how often it got a
// CPU. Workers whose figures could not be read are left out: NaN without any.
func worstWait(window observe.Window, workers int) (wait, slices float64) {
	wait, slices = math.NaN(), math.NaN()
	for i := range workers {
		d := window.Delta(fmt.Sprintf("generator_worker%d_run_queue_wait_seconds", i))
		if d > wait || math.IsNaN(wait) {
			wait, slices = d, window.Delta(fmt.Sprintf("generator_worker%d_timeslices_total", i))
		}
	}
	return wait, slices
}

// foreign returns the CPU time of others on dyno's machine, and on the target's if that is another one.
// Others are not dyno, the target or parts of the load. An observer there knows one of these. The
// kernel's boot id tells which machine that is.
func (w *Watch) foreign(window observe.Window) (here, there float64) {
	here, there = window.Delta("machine_cpu_foreign_seconds"), window.Delta(TargetMachine+"_cpu_foreign_seconds")
	subtract := func(from *float64, at, boot string, used float64) {
		if at == boot && boot != "" && !math.IsNaN(used) {
			*from = max(0, *from-used)
		}
	}
	boot, target := Boot(), w.TargetBoot()
	if w.remote != nil {
		subtract(&here, boot, target, w.targetCPU(window))
		subtract(&there, target, boot, window.Delta("generator_cpu_seconds"))
	}
	for _, p := range w.parts {
		subtract(&here, boot, p.Boot, p.used.Seconds())
		subtract(&there, target, p.Boot, p.used.Seconds())
	}
	return here, there
}

// recordMachine sums up what else happened in the window: on the machine, or on the worse one of two.
func (w *Watch) recordMachine(t *rundir.Trial, window observe.Window) {
	length := (window.To - window.From).Seconds()
	share := func(part string) *float64 {
		return worse(window.Delta("machine"+part)/window.Delta("machine_cpu_seconds"), window.Delta(TargetMachine+part)/window.Delta(TargetMachine+"_cpu_seconds"))
	}
	stalled := func(part string) *float64 {
		return worse(window.Delta("machine"+part)/length, window.Delta(TargetMachine+part)/window.Delta(TargetTime))
	}
	here, there := w.foreign(window)
	t.Machine = rundir.Machine{
		StealShare:            share("_cpu_steal_seconds"),
		ForeignShare:          worse(here/window.Delta("machine_cpu_seconds"), there/window.Delta(TargetMachine+"_cpu_seconds")),
		LateWakeupShare:       known(window.Delta("wakeup_late_total") / window.Delta("wakeup_sleeps_total")),
		TargetLateWakeupShare: known(window.Delta("target_wakeup_late_total") / window.Delta("target_wakeup_sleeps_total")),
		MemoryStall:           stalled("_memory_stall_seconds"),
		IOStall:               stalled("_io_stall_seconds"),
	}
	t.Target.StealShare = known(window.Delta("target_cpus_cpu_steal_seconds") / window.Delta("target_cpus_cpu_seconds"))
	cost := w.recorder.Cost().Seconds()
	for _, s := range w.sleepers {
		if s != nil {
			cost += s.CPUSeconds()
		}
	}
	for _, p := range w.paid {
		cost += p.CPUSeconds()
	}
	if w.remote != nil {
		_, there := w.remote.Rest()
		cost += there
	}
	t.ObserverCPU = known(cost)
}

// worse returns the larger of two shares; nil if neither is known.
func worse(a, b float64) *float64 {
	if math.IsNaN(a) || b > a {
		a = b
	}
	return known(a)
}

// recordKernel sums up what the kernel recorded about the target.
func recordKernel(t *rundir.Target, window observe.Window, requests float64) {
	var (
		columns []observe.Column
		rows    [2][]float64
	)
	for _, s := range window.Columns {
		if name, ok := strings.CutPrefix(s.Name, kernelColumns+"_"); ok {
			column := s.Column
			column.Name = name
			columns = append(columns, column)
			rows[0], rows[1] = append(rows[0], 0), append(rows[1], s.Delta)
		}
	}
	recordCalls(t, columns, rows, (window.To - window.From).Seconds(), requests)
	if s, ok := window.Summary(kernelColumns + "_connections_established_total"); ok && !math.IsNaN(s.Last) {
		n := int64(s.Last)
		t.ConnectionsAccepted = &n
	}
	if t.Retransmits = grown(window, kernelColumns+"_retransmits_total"); t.Retransmits == nil {
		// This is only as complete as the sockets' own counts, which end with the
		// sockets.
		t.Retransmits = grown(window, socketColumns+"_target_retransmits_total")
	}
}

// recordNamed sums up the metrics that the plan names: the rate of a counter, the mean of
// a gauge.
func (w *Watch) recordNamed(t *rundir.Trial, window observe.Window) {
	for _, o := range w.named {
		for _, c := range o.Columns() {
			name := o.Name() + "_" + c.Name
			value := math.NaN()
			if s, ok := window.Summary(name); ok && c.Kind == observe.Gauge {
				value = s.Mean
			} else if c.Name != observe.ReadAt {
				value = rate(window, name)
			}
			if v := known(value); v != nil {
				if t.Observed == nil {
					t.Observed = map[string]float64{}
				}
				t.Observed[name] = *v
			}
		}
	}
}

// recordFallen records which observers have counters that fell in the window, and which these are.
func (w *Watch) recordFallen(t *rundir.Trial, window observe.Window) {
	const most = 4 // columns that are named
	for _, o := range w.observers {
		var fallen []string
		for _, c := range o.Columns() {
			if s, _ := window.Summary(o.Name() + "_" + c.Name); s.Fell {
				fallen = append(fallen, s.Name)
			}
		}
		if len(fallen) == 0 {
			continue
		}
		if len(fallen) > most {
			fallen = append(fallen[:most], "…")
		}
		m := texts.New("unavailable.fell", "observer", o.Name(), "columns", strings.Join(fallen, ", "))
		t.AddUnavailable(&texts.Error{Message: m.With("help", texts.New("help.fell"))})
	}
}

// rate returns the growth of a counter per second, by the clock of its own readings: the
// last such column before the next observer's.
func rate(window observe.Window, column string) float64 {
	found := false
	for _, c := range window.Columns {
		if c.Name == column {
			found = true
		}
		if found && strings.HasSuffix(c.Name, observe.ReadAt) {
			counter, _ := window.Summary(column)
			return counter.Delta / c.Delta
		}
	}
	return math.NaN()
}

// grown returns the growth of a counter of whole numbers.
func grown(w observe.Window, column string) *int64 {
	v := w.Delta(column)
	if math.IsNaN(v) {
		return nil
	}
	n := int64(v)
	return &n
}

// known returns nil for a value that is not known.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// most returns the largest reading of a gauge; NaN if it is not known.
func most(w observe.Window, column string) float64 {
	if s, ok := w.Summary(column); ok {
		return s.Max
	}
	return math.NaN()
}

// largest returns the largest reading of a gauge of whole numbers.
func largest(w observe.Window, column string) *int64 {
	if v := most(w, column); !math.IsNaN(v) {
		return new(int64(v))
	}
	return nil
}
