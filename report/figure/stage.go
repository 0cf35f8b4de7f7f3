package figure

import (
	"math"

	"dyno/internal/units"
	"dyno/results/rundir"
)

// Stage names a stage by its length and by its rate or users, such as 30s, 0 to 100 users.
func Stage(s *rundir.PlanStage, loop string) string {
	level, unit := func(x float64) string { return Whole(int64(math.Round(x))) }, " users"
	if loop == "open" {
		level, unit = PerSecond, "/s"
	}
	text := units.FormatSeconds(s.Seconds) + " "
	if s.From != s.To {
		text += level(s.From) + " to "
	}
	return text + level(s.To) + unit
}
