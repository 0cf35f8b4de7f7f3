// Package trial carries out an experiment: in each round every variant once, each
// time with fresh processes, a warm-up and a measured window, observed from both
// ends and written to the run folder. Before the rounds, pilots may find how long
// the warm-up must be; a search for capacity makes several trials of a variant in
// each round; and a rule may end the run early. What is measured decides these,
// but to say what it means is the Referee's business.
//
// A run that was cut short can be gone on with: see Resume.
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
	"dyno/lab/experiment"
	"dyno/load/engine"
	"dyno/observe/profile/symbol"
	"dyno/results/rundir"
)

// Options say where and how an experiment is run.
type Options struct {
	Dir     string   // the run folder to create
	Program string   // dyno's own program, which takes the place of "dyno" in commands
	Command []string // how dyno was called, for the record
	Version string   // dyno's
	Watcher Watcher  // may be nil
	Referee Referee  // nil only where nothing depends on what was measured: no pilots, no search, a fixed number of rounds; then no round is measured again
}

// A Referee says, from what was measured so far, how a run goes on. It is asked
// by one goroutine. An error ends the run.
type Referee interface {
	// Warmup is asked once, when there is a complete pilot of every variant that is
	// not another's alias. The result's WarmupSeconds holds for all variants.
	Warmup(plan rundir.Plan, pilots []*rundir.TrialFolder) (*rundir.Pilot, error)
	// Spoilt is asked after each whole round, where spoilt ones are measured again: did
	// the machine or the generator disturb one of its ordinary trials, which it is given,
	// beyond a limit fixed beforehand? It must not go by what the trials measured of the
	// target, and must give the same answer again: a resumed run asks anew.
	Spoilt(plan rundir.Plan, round []*rundir.TrialFolder) (bool, error)
	// Enough is asked after each whole round, with all trials of the run so far, pilots
	// and incomplete ones included, by number, but for those of spoilt rounds.
	Enough(plan rundir.Plan, trials []rundir.Trial) (stop bool, reason rundir.Message, err error)
	// Probe is asked after each probe, whose rate is in it. It must give the same
	// answer again: a resumed run asks anew.
	Probe(plan rundir.Plan, probe *rundir.TrialFolder) (capacity.Trial, error)
	// Examine is asked after each trial, for the Watcher: what is wrong with it.
	Examine(plan rundir.Plan, t *rundir.TrialFolder) ([]rundir.Flag, error)
}

// Planned is a trial that is about to begin.
type Planned struct {
	Number  int // from 1
	Of      int // the last one's number; 0: nobody knows
	Round   int // from 1; 0 for a pilot
	Rounds  int // the most there may be
	Variant string
	Purpose string  // one of rundir's purposes, or none
	Rate    float64 // of a probe, in requests per second
	Beside  string  // the other variant of a duet: of the two, intervals are told of the first; empty without
	Width   int     // of the longest variant's name, for alignment
}

// A Watcher is told how the run goes. Interval is called from another goroutine
// than the rest, between Begin and End, and must return at once: it holds up the
// recording. End is given the flags that the Referee, if there is one, raised about
// the trial.
type Watcher interface {
	Begin(Planned)
	Interval(engine.Interval)
	End(*rundir.Trial, []rundir.Flag)
}

// A ReadingWatcher is a Watcher that is also told, before each Interval and by the
// same goroutine, what was read last of the target.
type ReadingWatcher interface {
	Watcher
	Reading(Reading)
}

// A Reading is what the target had used when it was last looked at; NaN is not known,
// as of a target that dyno did not start.
type Reading struct {
	CPUSeconds float64 // since its start, of all its processes
	RSSBytes   float64 // of all its processes together
}

// A FolderError says that the run folder could not be made, or not be opened to go
// on with it. Nothing was measured, and what is in its place was left as it was.
type FolderError struct{ Err error }

func (e *FolderError) Error() string { return e.Err.Error() }
func (e *FolderError) Unwrap() error { return e.Err }

// A PlanError says that the experiment asks for what cannot be had here, such as
// a CPU that this machine does not have.
type PlanError struct{ Err error }

func (e *PlanError) Error() string { return e.Err.Error() }
func (e *PlanError) Unwrap() error { return e.Err }

// A runner is the state of one run.
type runner struct {
	experiment *experiment.Experiment
	options    Options
	folder     *rundir.Writer
	run        *rundir.Run
	ports      target.Ports

	trials []*rundir.TrialFolder // all of the run so far, by number
	spoilt map[int]bool          // rounds
	number int                   // the highest in use
	of     int                   // the last trial's; 0: nobody knows
	// edges are where the searches of a variant ended so far: the geometric means of
	// the brackets that have both ends.
	edges map[string][]float64
	// symbols are those of the programs that were profiled so far.
	symbols symbol.Cache
}

// Run measures every trial of the experiment and writes the run folder, which it
// creates; if it cannot, the error is a *FolderError. When it returns any other
// error, the folder holds what was measured until then and says that it is
// incomplete. The run folder's verdicts are not its business.
func Run(ctx context.Context, e *experiment.Experiment, o Options) (err error) {
	if err := check(e, o); err != nil {
		return &PlanError{err}
	}
	r := &runner{experiment: e, options: o, edges: map[string][]float64{}, spoilt: map[int]bool{}}
	if r.run, err = r.header(); err != nil {
		return &PlanError{err}
	}
	if r.folder, err = rundir.Create(o.Dir, r.run); err != nil {
		return &FolderError{err}
	}
	return r.finish(r.carryThrough(ctx))
}

// check reports what the experiment needs and does not get.
func check(e *experiment.Experiment, o Options) error {
	var faults []error
	d := &e.Design
	if o.Referee == nil && (ruled(d) || d.Pilot > 0 || e.Capacity != nil) {
		faults = append(faults, errors.New("a stopping rule, pilots and a search for capacity need a referee, and there is none"))
	}
	if e.Capacity != nil {
		faults = append(faults, goal(e.Capacity).Validate())
	}
	for i := range e.Variants {
		v := &e.Variants[i]
		if v.Target.Protocol == experiment.Program {
			if d.Pilot > 0 || e.Capacity != nil {
				faults = append(faults, fmt.Errorf("variant %s: a program has no load: want neither pilots nor a search for capacity", v.Name))
			}
		} else if e.Capacity != nil && v.Load.Open == nil {
			faults = append(faults, fmt.Errorf("variant %s: a search for capacity wants an open load", v.Name))
		}
	}
	return errors.Join(faults...)
}

// ruled tells whether the number of rounds depends on what is measured.
func ruled(d *experiment.Design) bool { return d.Stop != "" && d.Stop != experiment.StopFixed }

// finish writes the run's last word and ends the folder.
func (r *runner) finish(err error) error {
	r.run.Complete = err == nil
	if err != nil {
		r.run.Reason, r.run.Because = err.Error(), because(err)
	}
	finished := time.Now()
	r.run.FinishedAt = &finished
	return errors.Join(err, r.folder.Finish(r.run))
}

// A trialError is why a trial failed.
type trialError struct {
	trial *rundir.Trial
	err   error
}

func (e *trialError) Error() string { return e.Said().String() }
func (e *trialError) Unwrap() error { return e.err }

// Said returns the error as a message. What a process or the kernel said is in it as it is.
func (e *trialError) Said() rundir.Message {
	m := texts.New("reason.trial", "trial", strconv.Itoa(e.trial.Number), "variant", e.trial.Variant, "error", e.err.Error())
	if why, ok := texts.Of(e.err); ok {
		m = m.With("error", why)
	}
	return m
}

// because is what an error says that ended the run, as a message.
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
			// What is measured is true all the same, and the checks on the machine
			// say what it is worth.
			env.AwakeCPUs = nil
			env.Lack(failed)
		}
	}
	if !ruled(&r.experiment.Design) && r.experiment.Capacity == nil {
		r.of = r.number + r.outstanding()
	}
	if r.experiment.Design.Pilot > 0 && r.run.Pilot == nil {
		if err := r.pilots(ctx); err != nil {
			return err
		}
	}
	most := r.experiment.Design.Rounds
	rounds := r.rounds(most + r.remeasure())
	for i, measure := range rounds {
		round := i + 1
		if round > most+len(r.spoilt) {
			break
		}
		if err := measure(ctx, round); err != nil {
			return err
		}
		r.run.Rounds = round
		if err := r.lookBack(round); err != nil {
			return err
		}
		if reason := r.hopeless(round); reason != nil && round < most {
			r.stopped(*reason)
			break
		}
		if !ruled(&r.experiment.Design) || r.begun(round+1) {
			continue // nobody asks, or somebody did when the round ended
		}
		stop, reason, err := r.options.Referee.Enough(r.run.Plan, r.measured())
		if err != nil {
			return fmt.Errorf("after round %d: %w", round, err)
		}
		if stop {
			r.stopped(reason)
			break
		}
		if round >= most+len(r.spoilt) {
			r.stopped(texts.New("stopped.most", "n", strconv.Itoa(most)))
		}
	}
	r.run.TrialsPlanned = r.planned(r.run.Rounds)
	return nil
}

// stopped records why there were no more rounds.
func (r *runner) stopped(why rundir.Message) {
	r.run.Stopped, r.run.StoppedBecause = why.English(), &why
}

// remeasure is how many spoilt rounds are measured again at most.
func (r *runner) remeasure() int {
	if r.options.Referee == nil {
		return 0
	}
	return r.experiment.Remeasure()
}

// lookBack settles whether a round was spoilt, so that another is measured in its
// place. Of more rounds than may be measured again nobody asks.
func (r *runner) lookBack(round int) error {
	if len(r.spoilt) >= r.remeasure() {
		return nil
	}
	type place struct{ variant, beside string }
	last := map[place]*rundir.TrialFolder{} // a resumed run may have begun the round twice
	for _, t := range r.trials {
		if t.Round == round && t.Purpose == "" && t.Complete {
			last[place{t.Variant, t.Beside()}] = t
		}
	}
	trials := slices.Collect(maps.Values(last))
	spoilt, err := r.options.Referee.Spoilt(r.run.Plan, trials)
	if err != nil {
		return fmt.Errorf("round %d: %w", round, err)
	}
	if spoilt {
		r.spoilt[round] = true
		if r.of > 0 && !r.begun(r.experiment.Design.Rounds+len(r.spoilt)) {
			r.of += r.trialsOf(r.experiment.Design.Rounds + len(r.spoilt))
		}
	}
	return nil
}

// rounds lays out so many rounds: what measures each of them.
func (r *runner) rounds(count int) (rounds []func(ctx context.Context, round int) error) {
	if r.experiment.Design.Duet {
		for _, c := range couples(r.experiment, count) {
			rounds = append(rounds, func(ctx context.Context, round int) error { return r.duetRound(ctx, round, c) })
		}
		return rounds
	}
	for _, variants := range order(r.experiment, count) {
		rounds = append(rounds, func(ctx context.Context, round int) error { return r.round(ctx, round, variants) })
	}
	return rounds
}

// round measures every variant once, or searches for its capacity. What stands in
// a folder that is gone on with is not measured again.
func (r *runner) round(ctx context.Context, round int, variants []*experiment.Variant) error {
	if r.experiment.Capacity != nil {
		for _, v := range variants {
			if err := r.search(ctx, round, v); err != nil {
				return err
			}
		}
		return nil
	}
	if r.whole(round) {
		return nil
	}
	for _, purpose := range r.purposes(round) {
		for _, v := range variants {
			if _, err := r.measure(ctx, task{round: round, variant: v, purpose: purpose}); err != nil {
				return err
			}
		}
	}
	return nil
}

// purposes are those of the trials that every variant has in a round, in their
// order: the ordinary one, and one under a profiler where the plan has it.
func (r *runner) purposes(round int) []string {
	if p := r.experiment.Profile; p != nil && round <= p.Rounds {
		return []string{"", rundir.PurposeProfile}
	}
	return []string{""}
}

// measured returns the trials so far, but for those of spoilt rounds.
func (r *runner) measured() []rundir.Trial {
	trials := make([]rundir.Trial, 0, len(r.trials))
	for _, t := range r.trials {
		if !r.spoilt[t.Round] {
			trials = append(trials, t.Trial)
		}
	}
	return trials
}

// A task is one trial to make.
type task struct {
	round   int // from 1; 0 for a pilot
	variant *experiment.Variant
	purpose string
	rate    float64 // of a probe

	seat   int                 // of a duet
	beside *experiment.Variant // the other one of a duet; without half, it is up and has no load
	half   *half               // nil: there is no load beside this one's
}

// A begun trial is one that has its number and its folder.
type begun struct {
	trial  *rundir.Trial
	folder *rundir.TrialWriter
}

// measure carries out one trial and writes its folder, whatever came of it. One that its
// target ended is no error, as long as there is more to measure.
func (r *runner) measure(ctx context.Context, s task) (*rundir.TrialFolder, error) {
	if err := context.Cause(ctx); err != nil {
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
func (r *runner) begin(s task) (*begun, error) {
	r.number++
	t := &rundir.Trial{
		SchemaVersion: rundir.SchemaVersion,
		Number:        r.number,
		Round:         s.round,
		Variant:       s.variant.Name,
		Purpose:       s.purpose,
		StartedAt:     time.Now(),
		Conservation:  rundir.Conservation{OK: true}, // of no requests so far
		Flags:         []rundir.Flag{},
	}
	if s.purpose == rundir.PurposeProbe {
		t.Rate = &s.rate
	}
	if s.beside != nil {
		t.Duet = &rundir.Duet{With: s.beside.Name, Seat: s.seat, Shared: r.run.Plan.Duet.Seats[s.seat].Shared()}
	}
	folder, err := r.folder.Trial(t.Number, t.Variant)
	if err != nil {
		return nil, err
	}
	return &begun{t, folder}, folder.Begin(t)
}

// announce tells the watcher of a trial that is about to be measured.
func (r *runner) announce(s task, b *begun) {
	w := r.options.Watcher
	if w == nil {
		return
	}
	next := Planned{Number: b.trial.Number, Of: r.of, Round: s.round, Rounds: r.experiment.Design.Rounds,
		Variant: s.variant.Name, Purpose: s.purpose, Rate: s.rate, Beside: b.trial.Beside()}
	for i := range r.experiment.Variants {
		next.Width = max(next.Width, len(r.experiment.Variants[i].Name))
	}
	w.Begin(next)
}

// end writes what came of a trial, and of why it failed.
func (r *runner) end(ctx context.Context, s task, b *begun, failed error) (*rundir.TrialFolder, error) {
	t := b.trial
	if failed != nil {
		failed = &trialError{t, failed}
		t.Error = failed.Error()
	}
	t.Complete = failed == nil
	switch {
	case !blames(ctx, s, failed):
	case s.purpose == rundir.PurposeIdle: // one of the two loses its ordinary trials by that, not the base this one
		t.Fault, failed = rundir.FaultTarget, nil
	default:
		lose(t, &s.variant.Load, s.variant.Target.Protocol == experiment.Program)
		if r.goesOn(t) {
			failed = nil
		}
	}
	err := errors.Join(failed, b.folder.Finish(t))
	written, unread := b.folder.Folder()
	if w := r.options.Watcher; w != nil {
		var flags []rundir.Flag
		if r.options.Referee != nil && unread == nil {
			flags, unread = r.options.Referee.Examine(r.run.Plan, written)
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
	return written, nil
}

// carryOut puts up the processes, loads the target or runs the program, and takes
// everything down.
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
	if s.beside != nil && s.half == nil {
		v := *s.beside
		if idle, err = r.set(ctx, seated(v, r.run.Plan.Duet.Seats[1-s.seat]), func(name string) (io.Writer, error) {
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
	up.half, up.idle = s.half, idle
	died := up.died()
	defer func() { err = errors.Join(err, up.stop(context.WithoutCancel(ctx), err)) }()

	// A process that ends unasked ends the trial: what is measured after that is
	// of something else.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	loaded := make(chan struct{})
	defer close(loaded)
	go func() {
		select {
		case p := <-died:
			if p == up.target {
				cancel(&Fault{p.Err()})
			} else {
				cancel(p.Err())
			}
		case <-loaded:
		}
	}()
	if up.variant.Target.Protocol == experiment.Program {
		return r.program(ctx, up, t, folder, output)
	}
	if h := up.half; h != nil {
		if err := h.partners.ready(ctx, h.number, up); err != nil {
			return err
		}
	}
	return r.load(ctx, up, t, folder)
}

// adapted returns the variant with the load that the task is to put on it.
func (r *runner) adapted(s task) experiment.Variant {
	v := *s.variant
	if d := r.run.Plan.Duet; d != nil {
		v = seated(v, d.Seats[s.seat])
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
		l.Open.Rate = s.rate
	case rundir.PurposeProfile:
		profiledLoad(l, r.experiment.Profile)
	}
	return v
}

// save writes one file of a trial's folder.
func save(folder *rundir.TrialWriter, name string, write func(io.Writer) error) (err error) {
	f, err := folder.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

func goal(c *experiment.Capacity) capacity.Goal { return capacity.Goal(*c) }
