// Package trial carries out an experiment. Each round measures every variant once, each time with fresh
// processes, a warm-up and a measured window. It observes both ends and writes the run folder. Before
// the rounds, pilots may find how long the warm-up must be. A search for capacity makes several trials
// of a variant in each round. A rule may end the run early. These decisions depend on what was
// measured; the Referee makes them.
//
// Before a trial the run waits until other programs leave the machine alone, within a budget: see
// quiet.go. If the machine or the generator disturbed a round, it is measured again at the end, as a
// whole. The machine must be quiet then. The limits are fixed beforehand, and the referee looks only at
// signs of the machine. A trial that ended because its target ended is kept: it has a fault and lost
// the round. An interrupted round is measured again as a whole, because its trials should be close in
// time. Its trials stay in the folder and are in no comparison. A round with a trial that is void,
// because an agent was lost, is measured again at once: see agents.go.
//
// Package generator carries the load, in several processes if need be. A duet measures two variants
// at the same time on disjoint CPUs: see duet.go.
//
// A run that was cut short can be continued: see Resume.
//
// To read the source: run.go from top to bottom is a run. pilot.go, search.go and resume.go come
// before and after it. load.go places the generator and runs it, while package observation observes
// both ends and package profiling takes profiles. record.go writes an engine's result to trial.json
// and latency.hlog.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"dyno/host/awake"
	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/judge/capacity"
	"dyno/lab/duet"
	"dyno/lab/plan"
	"dyno/load/engine/record"
	"dyno/observe/profile/symbol"
	"dyno/observe/quiet"
	"dyno/results/rundir"
)

// Options say where and how an experiment is run.
type Options struct {
	Dir       string        // the run folder to create
	Temporary bool          // the folder is removed when the run has been read
	Program   string        // dyno's own program, which replaces "dyno" in commands
	Command   []string      // how dyno was called, for the record
	Version   string        // the version and build of dyno
	Watcher   Watcher       // may be nil
	Times     record.TagSet // that the watcher needs of all processes and agents of a load
	Agents    []Agent       // that carry the loads; without any, this machine does
	Referee   Referee       // nil only if nothing depends on what was measured: no pilots, no search, a fixed number of rounds; then no round is measured again

	// Chosen says why the design is as it is, if a pilot before the run has chosen it.
	Chosen *rundir.Message

	// Hosts are the agents that targets and services are placed with, by the selectors in the plan.
	Hosts map[string]Host
	// Pods finds the pods of targets in Kubernetes; nil if no plan asks for them.
	Pods PodFinder
	// Limits are set by this machine's owner, who is not the plan's author; nil: it may do all.
	Limits *Limits
	// Look reads what other programs do on this machine, but for the processes given; nil: quiet.Read.
	Look func(own ...int) (quiet.Reading, error)
}

// A Referee decides, from what was measured so far, how a run continues. One goroutine
// calls it. An error ends the run.
type Referee interface {
	// Warmup is called once, when there is a complete pilot of every variant that is not
	// another's alias. The result's WarmupSeconds applies to all variants.
	Warmup(plan rundir.Plan, pilots []*rundir.TrialFolder) (*rundir.Pilot, error)
	// Disturbed is called after each whole round, if the plan says that disturbed rounds are measured
	// again. It gets the round's ordinary trials. It reports whether the machine or the generator
	// disturbed one of them beyond a limit fixed beforehand. The answer must not depend on the target's
	// figures, and must be the same for the same trials: a resumed run asks again.
	Disturbed(plan rundir.Plan, round []*rundir.TrialFolder) (bool, error)
	// Enough is called after each whole round. It gets all trials of the run so far, by number. These
	// include pilots and incomplete trials, but not disturbed rounds.
	Enough(plan rundir.Plan, trials []rundir.Trial) (stop bool, reason rundir.Message, err error)
	// Probe is called after each probe, whose trial holds its rate. It must give the same
	// answer for the same probe: a resumed run asks again.
	Probe(plan rundir.Plan, probe *rundir.TrialFolder) (capacity.Trial, error)
	// Examine is called after each trial. It returns what is wrong with the trial, for
	// the Watcher.
	Examine(plan rundir.Plan, t *rundir.TrialFolder) ([]rundir.Flag, error)
	// Judge is called when the run has ended, in order or not. It fills in the verdict.
	Judge(f *rundir.Folder) error
}

// Planned is a trial that is about to begin.
type Planned struct {
	Number   int           // from 1
	Of       int           // the last one's number; 0: not known
	Round    int           // from 1; 0 for a pilot
	Rounds   int           // the most there may be
	Left     time.Duration // how long it and those after it take at most, by those before it; 0: not known
	Variant  string
	Protocol string        // one of experiment's
	Alone    bool          // there is no other variant
	Purpose  string        // one of rundir's purposes, or empty
	Rate     float64       // of a probe, in requests per second
	Peer     string        // the other variant of a duet, or empty; the first one's intervals count
	Width    int           // of the longest variant's name, for alignment
	Warmup   time.Duration // before the window; the intervals begin with it
	Window   time.Duration // 0: a number of requests ends it
}

// A Watcher follows the run. Between Begin and End, another goroutine calls
// Interval; it must return at once, because it holds up the recording. End gets the flags
// that the Referee, if there is one, raised about the trial.
type Watcher interface {
	Begin(Planned)
	Interval(record.Interval)
	End(*rundir.Trial, []rundir.Flag)
}

// A ReadingWatcher is a Watcher that also gets the target's latest reading, before each Interval and
// from the same goroutine.
type ReadingWatcher interface {
	Watcher
	Reading(Reading)
}

// A PreparingWatcher is a Watcher that also learns what a trial has to wait for: a build, or a quiet machine.
type PreparingWatcher interface {
	Watcher
	Preparing(what string)
}

// A Reading is what the target had used at the last observation. NaN means not known, for
// example for a target that dyno did not start.
type Reading struct {
	CPUSeconds float64 // since its start, of all its processes
	RSSBytes   float64 // of all its processes together
}

// A FolderError means that the run folder could not be created, or could not be opened to
// continue the run. Nothing was measured, and nothing was changed.
type FolderError struct{ Err error }

func (e *FolderError) Error() string { return e.Err.Error() }
func (e *FolderError) Unwrap() error { return e.Err }

// A PlanError means that the experiment asks for something unavailable here, such as a CPU that does not
// exist.
type PlanError struct{ Err error }

func (e *PlanError) Error() string { return e.Err.Error() }
func (e *PlanError) Unwrap() error { return e.Err }

// A NotStartedError means that the run ended before it had its folder: nothing was measured, and if
// there is a folder of that name, it was not changed. Err is a *PlanError or a *FolderError, or
// says that the run was interrupted.
type NotStartedError struct{ Err error }

func (e *NotStartedError) Error() string { return e.Err.Error() }
func (e *NotStartedError) Unwrap() error { return e.Err }

// planFault makes a *PlanError of an error of preparation, unless the run was interrupted meanwhile:
// that is no fault of the plan.
func planFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return &PlanError{err}
}

// A runner is the state of one run.
type runner struct {
	experiment *plan.Experiment
	options    Options
	folder     *rundir.Writer
	run        *rundir.Run
	ports      target.Ports

	trials    []*rundir.TrialFolder // all of the run so far, by number
	disturbed map[int]bool          // rounds
	number    int                   // the highest number in use
	of        int                   // the last trial's number, if no rule ends the run before; 0: not known
	began     time.Time             // the first trial of this process
	first     int                   // its number
	// edges holds, for each variant, where its searches ended so far: the geometric means
	// of the brackets that have both ends.
	edges map[string][]float64
	// symbols belong to the programs that were profiled so far.
	symbols symbol.Cache

	agents   []member        // all of the run
	hosts    map[string]Host // Options.Hosts, where they are now
	repeated int             // how often something was measured again because agents were lost
	quiet    *quiet.Waiter   // nil: the run does not wait for a quiet machine
}

// Run measures every trial of the experiment and writes the run folder, which it creates.
// If it ends before that, the error is a *NotStartedError. When it returns any other
// error, the folder holds what was measured until then and is marked incomplete. With a
// Referee, the folder has a verdict.
func Run(ctx context.Context, e *plan.Experiment, o Options) error {
	r, err := create(ctx, e, o)
	if err != nil {
		return &NotStartedError{err}
	}
	return r.finish(r.carryThrough(ctx))
}

// create prepares a run and creates its folder.
func create(ctx context.Context, e *plan.Experiment, o Options) (*runner, error) {
	r, err := prepare(ctx, e, o)
	if err != nil {
		return nil, err
	}
	createFolder := rundir.Create
	if o.Temporary {
		createFolder = rundir.CreateTemporary
	}
	if r.folder, err = createFolder(o.Dir, r.run); err != nil {
		return nil, &FolderError{err}
	}
	return r, nil
}

// prepare returns a run that can be carried out here, but for its folder.
func prepare(ctx context.Context, e *plan.Experiment, o Options) (*runner, error) {
	if err := check(e, o); err != nil {
		return nil, &PlanError{err}
	}
	e, left, err := build(ctx, e, o)
	if err != nil {
		return nil, planFault(ctx, err)
	}
	r := &runner{experiment: e, options: o, agents: members(o.Agents), hosts: maps.Clone(o.Hosts), edges: map[string][]float64{}, disturbed: map[int]bool{}}
	if r.run, err = r.header(left); err != nil {
		return nil, &PlanError{err}
	}
	return r, nil
}

// check reports what the experiment needs and cannot have here.
func check(e *plan.Experiment, o Options) error {
	var faults []error
	d := &e.Design
	if o.Referee == nil && (ruled(d) || d.Pilot > 0 || e.Capacity != nil) {
		faults = append(faults, errors.New("a stopping rule, pilots and a search for capacity need a referee, and there is none"))
	}
	if e.Capacity != nil {
		faults = append(faults, goal(e.Capacity).Validate())
	}
	if o.Limits != nil && len(e.Sysctl) > 0 {
		faults = append(faults, errors.New("sysctl: the machine's owner does not allow kernel settings to be changed"))
	}
	for i := range e.Variants {
		v := &e.Variants[i]
		faults = append(faults, checkHosts(v, o.Hosts), o.Limits.check(v))
		if v.Observe.Pods != nil && o.Pods == nil {
			faults = append(faults, fmt.Errorf("variant %s: observe.pods: no pods can be found from here", v.Name))
		}
		if v.Target.Protocol == plan.Program {
			if d.Pilot > 0 || e.Capacity != nil {
				faults = append(faults, fmt.Errorf("variant %s: a program has no load: want neither pilots nor a search for capacity", v.Name))
			}
		} else if e.Capacity != nil && v.Load.Open == nil {
			faults = append(faults, fmt.Errorf("variant %s: a search for capacity wants an open load", v.Name))
		}
	}
	return errors.Join(faults...)
}

// ruled reports whether the number of rounds depends on what is measured.
func ruled(d *plan.Design) bool { return d.Stop != "" && d.Stop != plan.StopFixed }

// finish writes the final state of the run and closes the folder.
func (r *runner) finish(err error) error {
	r.run.Complete = err == nil
	if err != nil {
		r.run.Reason = because(err)
	}
	finished := time.Now()
	r.run.FinishedAt = &finished
	return errors.Join(err, r.folder.Finish(r.judged()))
}

// judged returns the run with its verdict, so that one write has both. If there can be none, who reads the folder finds
// out why.
func (r *runner) judged() *rundir.Run {
	if r.options.Referee == nil {
		return r.run
	}
	f, err := r.folder.Folder(r.run)
	if err != nil || r.options.Referee.Judge(f) != nil {
		return r.run
	}
	return &f.Run
}

// A trialError is the reason why a trial failed.
type trialError struct {
	trial *rundir.Trial
	err   error
}

func (e *trialError) Error() string { return e.AsMessage().String() }
func (e *trialError) Unwrap() error { return e.err }

// AsMessage returns the error as a message. It contains the text of a process or the kernel
// unchanged.
func (e *trialError) AsMessage() rundir.Message {
	m := texts.New("reason.trial", "trial", strconv.Itoa(e.trial.Number), "variant", e.trial.Variant, "error", e.err.Error())
	if why, ok := texts.Of(e.err); ok {
		m = m.With("error", why)
	}
	return m
}

// Cause is the error that ended a run of one trial, without the trial's number and variant.
func Cause(err error) error {
	var of *trialError
	if errors.As(err, &of) {
		return of.err
	}
	return err
}

// because returns the error that ended the run, as a message.
func because(err error) *rundir.Message {
	m, ok := texts.Of(err)
	if !ok {
		m = texts.New("reason.failed", "error", err.Error())
	}
	return &m
}

// carryThrough makes all trials that are not there yet.
func (r *runner) carryThrough(ctx context.Context) (err error) {
	restore, err := r.setSysctls()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if env := &r.run.Environment; len(env.AwakeCPUs) > 0 {
		kept, failed := awake.Start(env.AwakeCPUs...)
		if failed == nil {
			defer func() { err = errors.Join(err, kept.Stop()) }()
		} else {
			// The measurements are still correct, and the checks on the machine say what
			// they are worth.
			env.AwakeCPUs = nil
			env.AddUnavailable(failed)
		}
	}
	r.quiet = r.newWaiter()
	r.began, r.first = time.Now(), r.number+1
	if r.experiment.Capacity == nil {
		r.of = r.number + r.outstanding()
	}
	if r.experiment.Design.Pilot > 0 && r.run.Pilot == nil {
		if err := r.pilots(ctx); err != nil {
			return err
		}
	}
	most := r.experiment.Design.Rounds
	rounds := r.rounds(most + r.run.Plan.Remeasure)
	for i, measure := range rounds {
		round := i + 1
		if round > most+len(r.disturbed) {
			break
		}
		if round > most && !r.whole(round) {
			isQuiet, err := r.isQuiet(ctx)
			if err != nil {
				return err
			}
			if !isQuiet { // the disturbed rounds that are left count as they are
				r.run.Plan.Remeasure = round - 1 - most
				break
			}
		}
		if err := measure(ctx, round); err != nil {
			return err
		}
		r.run.Rounds = round
		if err := r.checkDisturbed(round); err != nil {
			return err
		}
		if reason := r.allRoundsLost(round); reason != nil && round < most {
			r.stopped(*reason)
			break
		}
		if !ruled(&r.experiment.Design) || r.roundStarted(round+1) {
			continue // no referee, or it was asked when the round ended
		}
		stop, reason, err := r.options.Referee.Enough(r.run.Plan, r.measured())
		if err != nil {
			return fmt.Errorf("after round %d: %w", round, err)
		}
		if stop {
			r.stopped(reason)
			break
		}
		if round >= most+len(r.disturbed) {
			r.stopped(texts.New("stopped.most", "n", strconv.Itoa(most)))
		}
	}
	r.run.TrialsPlanned = r.planned(r.run.Rounds)
	return nil
}

// stopped records why there were no more rounds.
func (r *runner) stopped(why rundir.Message) {
	r.run.Stopped = &why
}

// remeasure is how many disturbed rounds are measured again at most, if the machine gets quiet.
func (r *runner) remeasure() int {
	if r.options.Referee == nil {
		return 0
	}
	return r.experiment.Remeasure()
}

// checkDisturbed finds out whether a round was disturbed, so that another is measured in its
// place. It does not ask if no more rounds may be measured again.
func (r *runner) checkDisturbed(round int) error {
	if len(r.disturbed) >= r.run.Plan.Remeasure {
		return nil
	}
	type place struct{ variant, peer string }
	last := map[place]*rundir.TrialFolder{} // a resumed run may contain the round twice
	for _, t := range r.trials {
		if t.Round == round && t.Purpose == "" && t.IsMeasured() {
			last[place{t.Variant, t.Peer()}] = t
		}
	}
	trials := slices.Collect(maps.Values(last))
	disturbed, err := r.options.Referee.Disturbed(r.run.Plan, trials)
	if err != nil {
		return fmt.Errorf("round %d: %w", round, err)
	}
	if disturbed {
		r.disturbed[round] = true
		if r.of > 0 && !r.roundStarted(r.experiment.Design.Rounds+len(r.disturbed)) {
			r.of += r.trialsOf(r.experiment.Design.Rounds + len(r.disturbed))
		}
	}
	return nil
}

// rounds plans the given number of rounds: for each, the function that measures it.
func (r *runner) rounds(count int) (rounds []func(ctx context.Context, round int) error) {
	if r.experiment.Design.Duet {
		for _, c := range duet.Pairs(r.experiment, count) {
			rounds = append(rounds, func(ctx context.Context, round int) error { return r.duetRound(ctx, round, c) })
		}
		return rounds
	}
	for _, variants := range order(r.experiment, count) {
		rounds = append(rounds, func(ctx context.Context, round int) error { return r.round(ctx, round, variants) })
	}
	return rounds
}

// round measures every variant once, or searches for its capacity. Trials that the folder of a resumed
// run already holds are not measured again.
func (r *runner) round(ctx context.Context, round int, variants []*plan.Variant) error {
	if r.experiment.Capacity != nil {
		for _, v := range variants {
			if err := r.attempt(ctx, func() error { return r.search(ctx, round, v) }); err != nil {
				return err
			}
		}
		return nil
	}
	if r.whole(round) {
		return nil
	}
	return r.attempt(ctx, func() error {
		for _, purpose := range r.purposes(round) {
			for _, v := range variants {
				if _, err := r.measure(ctx, task{round: round, variant: v, purpose: purpose}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// purposes are the trials that every variant has in a round, in order: the ordinary one and, if the
// plan asks for it, one under a profiler.
func (r *runner) purposes(round int) []string {
	if p := r.experiment.Profile; p != nil && round <= p.Rounds {
		return []string{"", rundir.PurposeProfile}
	}
	return []string{""}
}

// measured returns the trials so far, without disturbed rounds.
func (r *runner) measured() []rundir.Trial {
	trials := make([]rundir.Trial, 0, len(r.trials))
	for _, t := range r.trials {
		if !r.disturbed[t.Round] {
			trials = append(trials, t.Trial)
		}
	}
	return trials
}

// A task is one trial to make.
type task struct {
	round   int // from 1; 0 for a pilot
	variant *plan.Variant
	purpose string
	rate    float64 // of a probe

	connections int // that a probe may have

	cpuSet int           // of a duet
	peer   *plan.Variant // the other variant of a duet; without side, it is up and has no load
	side   *side         // nil: no other load runs at the same time
}

// A startedTrial has its number and its folder.
type startedTrial struct {
	trial  *rundir.Trial
	folder *rundir.TrialWriter
	bare   rundir.Trial // as it began
}

// measure carries out one trial and writes its folder, whatever the result. If the target
// ended the trial, this is no error, as long as there is more to measure. If the trial is void, the error is a
// *voidError.
func (r *runner) measure(ctx context.Context, s task) (*rundir.TrialFolder, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := r.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	b, err := r.begin(s)
	if err != nil {
		return nil, err
	}
	r.announce(s, b)
	return r.end(ctx, s, b, r.carryOut(ctx, s, b.trial, b.folder))
}

// begin gives a trial its number and its folder.
func (r *runner) begin(s task) (*startedTrial, error) {
	r.number++
	t := &rundir.Trial{
		SchemaVersion: rundir.SchemaVersion,
		Number:        r.number,
		Round:         s.round,
		Variant:       s.variant.Name,
		Purpose:       s.purpose,
		StartedAt:     time.Now(),
		Conservation:  rundir.Conservation{OK: true}, // for no requests so far
		Flags:         []rundir.Flag{},
	}
	if s.purpose == rundir.PurposeProbe {
		t.Rate = &s.rate
	}
	if s.peer != nil {
		t.Duet = &rundir.Duet{Peer: s.peer.Name, CPUSet: s.cpuSet, Shared: r.run.Plan.Duet.CPUSets[s.cpuSet].Shared()}
	}
	folder, err := r.folder.Trial(t.Number, t.Variant)
	if err != nil {
		return nil, err
	}
	return &startedTrial{t, folder, *t}, folder.Begin(t)
}

// announce tells the watcher of a trial that is about to be measured.
func (r *runner) announce(s task, b *startedTrial) {
	w := r.options.Watcher
	if w == nil {
		return
	}
	next := Planned{Number: b.trial.Number, Of: r.of, Round: s.round, Rounds: r.experiment.Design.Rounds,
		Variant: s.variant.Name, Protocol: s.variant.Target.Protocol, Alone: len(r.experiment.Variants) == 1, Purpose: s.purpose, Rate: s.rate, Peer: b.trial.Peer(), Warmup: r.adapted(s).Load.Warmup, Window: r.adapted(s).Load.Window}
	if done := next.Number - r.first; done > 0 && r.of >= next.Number {
		next.Left = time.Since(r.began) / time.Duration(done) * time.Duration(r.of-next.Number+1)
	}
	if ruled(&r.experiment.Design) {
		next.Of = 0
	}
	for i := range r.experiment.Variants {
		next.Width = max(next.Width, len(r.experiment.Variants[i].Name))
	}
	w.Begin(next)
}

// end writes the result of a trial, and why it failed if it did.
func (r *runner) end(ctx context.Context, s task, b *startedTrial, failed error) (*rundir.TrialFolder, error) {
	t := b.trial
	if failed != nil {
		failed = &trialError{t, failed}
		t.Error = failed.Error()
	}
	t.Complete = failed == nil
	var void error
	switch {
	case r.isVoid(ctx, failed):
		b.bare.Error, b.bare.Placed = t.Error, t.Placed
		*t = b.bare // discard the other agents' results
		t.Fault, void, failed = rundir.FaultAgent, &voidError{failed}, nil
	case !targetAtFault(ctx, s, failed):
	case s.purpose == rundir.PurposeIdle: // the other variant loses its ordinary trials by that, not this base
		t.Fault, failed = rundir.FaultTarget, nil
	default:
		lose(t, &s.variant.Load, s.variant.Target.Protocol == plan.Program)
		if r.canContinue(t) {
			failed = nil
		}
	}
	err := errors.Join(failed, r.sumFiles(), b.folder.Finish(t))
	written, unread := b.folder.Folder()
	if w := r.options.Watcher; w != nil {
		var flags []rundir.Flag
		if r.options.Referee != nil && unread == nil {
			flags, unread = r.options.Referee.Examine(r.run.Plan, written)
		}
		if unread == nil {
			t = &written.Trial // without credentials
		}
		w.End(t, flags)
	}
	if err == nil { // a folder that could not be finished cannot be read either
		err = unread
	}
	if err != nil {
		return nil, err
	}
	r.trials = append(r.trials, written)
	return written, void
}

// carryOut starts the processes, loads the target or runs the program, and stops
// everything.
func (r *runner) carryOut(ctx context.Context, s task, t *rundir.Trial, folder *rundir.TrialWriter) (err error) {
	var logs []io.Closer
	defer func() {
		for _, l := range logs {
			err = errors.Join(err, l.Close())
		}
	}()
	output := func(name string) (io.Writer, error) {
		f, err := folder.Log(name + ".log")
		if err == nil {
			logs = append(logs, f)
		}
		return f, err
	}
	var idle *stage
	if s.peer != nil && s.side == nil {
		v := *s.peer
		if idle, err = r.set(ctx, duet.OnCPUSet(v, r.run.Plan.Duet.CPUSets[1-s.cpuSet]), func(name string) (io.Writer, error) {
			return output("neighbour-" + name)
		}); err != nil {
			return fmt.Errorf("%s, without load: %w", v.Name, err)
		}
		defer func() { err = errors.Join(err, idle.stop(context.WithoutCancel(ctx), err)) }()
	}
	up, err := r.set(ctx, r.adapted(s), output)
	if err != nil {
		return err
	}
	if sent := plan.Unquote(up.variant.Describe()); sent != r.run.Plan.Variant(t.Variant).Request {
		t.Request = sent
	}
	up.side, up.idle = s.side, idle
	defer recordPlacements(t, up)
	died := up.died()
	defer func() { err = errors.Join(err, up.stop(context.WithoutCancel(ctx), err)) }()

	// A process that ends by itself ends the trial: measurements after that would be of something else.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	loaded := make(chan struct{})
	defer close(loaded)
	go func() {
		select {
		case p := <-died:
			cancel(deathOf(p, up))
		case <-loaded:
		}
	}()
	if up.variant.Target.Protocol == plan.Program {
		return r.program(ctx, up, t, folder, output)
	}
	if h := up.side; h != nil {
		if err := h.partners.ready(ctx, h.number, up); err != nil {
			return err
		}
	}
	return r.load(ctx, up, t, folder)
}

// adapted returns the variant with the load that the task needs. Its ramp is a part of the warm-up.
func (r *runner) adapted(s task) plan.Variant {
	v := *s.variant
	if d := r.run.Plan.Duet; d != nil {
		v = duet.OnCPUSet(v, d.CPUSets[s.cpuSet])
	}
	l := &v.Load
	if p := r.run.Pilot; p != nil {
		l.Warmup = time.Duration(p.WarmupSeconds * float64(time.Second))
	}
	if l.Open != nil {
		open := *l.Open
		l.Open = &open
	}
	switch s.purpose {
	case rundir.PurposePilot:
		pilotLoad(l, r.experiment)
	case rundir.PurposeProbe:
		l.Open.Rate, l.Open.MaxConnections = s.rate, s.connections
		l.Window = max(l.Window, time.Duration(r.experiment.Capacity.Enough/s.rate*float64(time.Second)))
	case rundir.PurposeProfile:
		profiledLoad(l, r.experiment.Profile)
	}
	l.Warmup = l.Unmeasured()
	return v
}

func goal(c *plan.Capacity) capacity.Goal {
	return capacity.Goal{From: c.From, To: c.To, Resolution: c.Resolution, Trials: c.Trials, Tolerate: c.Tolerate, First: c.First}
}
