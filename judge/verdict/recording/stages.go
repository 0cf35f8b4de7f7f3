package recording

import (
	"slices"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// A StageLog is what was recorded in a stage of the window. Intervals belong to the stage that has their
// middle: they are much shorter than stages.
type StageLog struct {
	rundir.PlanStage
	Measured float64 // seconds of it, of an interrupted trial fewer than planned; of several trials the sum
	Times    Times
}

// stagedTags are the times that are known of each stage.
func stagedTags() []string {
	return []string{rundir.TagResponse, rundir.TagService, rundir.TagFailed, rundir.TagGivenUp, rundir.TagSendLag, rundir.TagGeneratorLag}
}

// staged divides a log by the stages of its plan; nil without any.
func staged(log []hist.Interval, plan rundir.PlanVariant, t *rundir.Trial) []StageLog {
	if len(plan.Stages) == 0 {
		return nil
	}
	stages := make([]StageLog, len(plan.Stages))
	begin := 0.0
	for n, s := range plan.Stages {
		stages[n] = StageLog{PlanStage: s, Measured: min(s.Seconds, max(0, t.WindowSeconds-begin)), Times: Times{}}
		begin += s.Seconds
	}
	for _, i := range log {
		if !slices.Contains(stagedTags(), i.Tag) {
			continue
		}
		at := (i.Start + i.Length/2).Seconds() - t.WarmupSeconds
		for n := range stages {
			if at >= 0 && at < stages[n].Seconds {
				stages[n].Times.Add(i.Tag, i.Hist)
			}
			at -= stages[n].Seconds
		}
	}
	for n := range stages {
		stages[n].Times.Pack()
	}
	return stages
}

// Figures sums up a stage.
func (s *StageLog) Figures() rundir.Stage {
	count := func(tag string) int64 {
		if h := s.Times[tag]; h != nil {
			return h.Count()
		}
		return 0
	}
	given := count(rundir.TagGivenUp) // which have response times, too
	f := rundir.Stage{Planned: s.PlanStage, OK: count(rundir.TagResponse) - given, Failed: count(rundir.TagFailed) + given}
	if s.Measured <= 0 {
		return f
	}
	f.Throughput = new(float64(f.OK) / s.Measured)
	busy := 0.0
	for _, tag := range []string{rundir.TagResponse, rundir.TagFailed} {
		if h := s.Times[tag]; h != nil {
			busy += Seconds(h.Mean()) * float64(h.Count())
		}
	}
	f.InFlight, f.Times = new(busy/s.Measured), rundir.TimesOf(s.Times)
	return f
}
