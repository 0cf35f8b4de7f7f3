package dataset

import (
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// addStages adds the stages of one more trial to the sum of others. A variant has the same stages in all its trials.
func addStages(sum, of []recording.StageLog) []recording.StageLog {
	for i, s := range of {
		if i == len(sum) {
			sum = append(sum, recording.StageLog{PlanStage: s.PlanStage, Times: recording.Times{}})
		}
		sum[i].Measured += s.Measured
		sum[i].Times.AddAll(s.Times)
	}
	return sum
}

// stageFigures sums up stages.
func stageFigures(of []recording.StageLog) (figures []rundir.Stage) {
	for i := range of {
		figures = append(figures, of[i].Figures())
	}
	return figures
}
