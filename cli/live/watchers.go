// Package live tells others what a run does while it is under way: people by rows of text, dyno ui by
// a feed of events, and receivers of metrics by samples. It also starts the runs of dyno ui and reads
// their feeds.
package live

import (
	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/results/rundir"
)

// Watchers calls several watchers, one after another.
type Watchers []trial.Watcher

var (
	_ trial.ReadingWatcher   = Watchers(nil)
	_ trial.PreparingWatcher = Watchers(nil)
)

// Begin implements trial.Watcher.
func (w Watchers) Begin(next trial.Planned) {
	for _, of := range w {
		of.Begin(next)
	}
}

// Preparing implements trial.PreparingWatcher, for the watchers that do.
func (w Watchers) Preparing(what string) {
	for _, of := range w {
		if p, ok := of.(trial.PreparingWatcher); ok {
			p.Preparing(what)
		}
	}
}

// Interval implements trial.Watcher.
func (w Watchers) Interval(i record.Interval) {
	for _, of := range w {
		of.Interval(i)
	}
}

// Reading implements trial.ReadingWatcher, for the watchers that do.
func (w Watchers) Reading(r trial.Reading) {
	for _, of := range w {
		if reader, ok := of.(trial.ReadingWatcher); ok {
			reader.Reading(r)
		}
	}
}

// End implements trial.Watcher.
func (w Watchers) End(t *rundir.Trial, flags []rundir.Flag) {
	for _, of := range w {
		of.End(t, flags)
	}
}
