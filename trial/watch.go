package trial

import (
	"errors"
	"fmt"
	"math"

	"dyno/engine"
	"dyno/observe"
	"dyno/rundir"
	"dyno/target"
)

// A watch records the target, the generator and the machine beside one load. What
// cannot be observed here is left out and said so; it never fails the trial.
type watch struct {
	target      *target.Process // nil when dyno did not start it
	targetCPUs  int             // how many it may use
	recorder    *observe.Recorder
	marks       [2]observe.Mark
	marked      int
	unavailable []string
}

// start begins to record, on the engine's time line.
func (w *watch) start(s engine.Start) {
	var (
		observers []observe.Observer
		users     []observe.CPUUser
	)
	if w.target != nil {
		if tree, err := observe.NewTreeBelow("target", w.target.Keeper()); w.available(err) {
			observers, users = append(observers, tree), append(users, tree)
		}
	}
	if generator, err := observe.NewGenerator(s.Threads...); w.available(err) {
		observers, users = append(observers, generator), append(users, generator)
	}
	if machine, err := observe.NewMachine(users...); w.available(err) {
		observers = append(observers, machine)
	}
	recorder, err := observe.NewRecorder(observe.Config{Origin: s.Time}, observers...)
	if !w.available(err) {
		return
	}
	w.recorder = recorder
	recorder.Start()
}

func (w *watch) available(err error) bool {
	if err != nil {
		w.unavailable = append(w.unavailable, err.Error())
	}
	return err == nil
}

// phase marks both ends of the window.
func (w *watch) phase(p engine.Phase) {
	if w.recorder != nil && p != engine.WarmingUp && w.marked < len(w.marks) {
		w.marks[w.marked] = w.recorder.Mark()
		w.marked++
	}
}

// stop ends the recording. A window that ended early ends here.
func (w *watch) stop() error {
	if w.recorder == nil {
		return nil
	}
	if w.marked == 1 {
		w.phase(engine.Draining)
	}
	err := w.recorder.Stop()
	for _, f := range w.recorder.Faults() {
		err = errors.Join(err, f.First)
	}
	if err != nil {
		w.unavailable = append(w.unavailable, err.Error())
	}
	return nil
}

// record sums the window up.
func (w *watch) record(t *rundir.Trial, r *engine.Result) {
	t.Unavailable = w.unavailable
	if w.marked < 2 {
		return
	}
	window := w.recorder.Window(w.marks[0], w.marks[1])
	length := (window.To - window.From).Seconds()
	// The marks are a little off the window's edges, so that counts go by the
	// requests of their own stretch of time.
	requests := float64(r.Completed) * length / r.Window.Seconds()

	if w.target != nil {
		cpu := window.Delta("target_cpu_seconds")
		t.Target.CPUSeconds = known(cpu)
		t.Target.CPUSecondsPerRequest = known(cpu / requests)
		t.Target.CPUShare = known(cpu / length / float64(w.targetCPUs))
		user, system := window.Delta("target_cpu_user_seconds"), window.Delta("target_cpu_system_seconds")
		t.Target.UserShare = known(user / (user + system))
		t.Target.RSSBytes = largest(window, "target_rss_bytes")
		t.Target.Threads = largest(window, "target_threads")
		t.Target.Descriptors = largest(window, "target_descriptors")
		t.Target.VoluntarySwitchesPerRequest = known(window.Delta("target_voluntary_switches") / requests)
		t.Target.InvoluntarySwitchesPerRequest = known(window.Delta("target_involuntary_switches") / requests)
	}
	t.Generator.RSSBytes = largest(window, "generator_rss_bytes")
	wait := math.NaN()
	for i := range t.Generator.Workers {
		if d := window.Delta(fmt.Sprintf("generator_worker%d_run_queue_wait_seconds", i)); !(d <= wait) {
			wait = d
		}
	}
	t.Generator.RunQueueWaitShare = known(wait / length)
	all := window.Delta("machine_cpu_seconds")
	t.Machine.StealShare = known(window.Delta("machine_cpu_steal_seconds") / all)
	t.Machine.ForeignShare = known(window.Delta("machine_cpu_foreign_seconds") / all)
	t.ObserverCPU = known(w.recorder.Cost().Seconds())
}

// known returns nil for a value that is not known.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// largest returns the largest reading of a gauge that counts whole things.
func largest(w observe.Window, column string) *int64 {
	s, ok := w.Summary(column)
	if !ok || math.IsNaN(s.Max) {
		return nil
	}
	n := int64(s.Max)
	return &n
}
