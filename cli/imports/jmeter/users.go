package jmeter

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/cli/imports/draft"
	"dyno/lab/plan"
)

// A segment is some users of a thread group for a time in which their number is linear.
type segment struct {
	begin, end time.Duration
	from, to   float64
}

// forGood is the end of a segment that stays as long as the load lasts.
const forGood = time.Duration(math.MaxInt64)

// at returns how many there are at a time from its begin to its end.
func (c segment) at(t time.Duration) float64 {
	if c.end == forGood || c.from == c.to {
		return c.from
	}
	return c.from + (c.to-c.from)*float64(t-c.begin)/float64(c.end-c.begin)
}

// trapezium returns a number of users that come, stay and leave.
func trapezium(users float64, begin, coming, staying, leaving time.Duration) []segment {
	there, leave := begin+coming, begin+coming+staying
	return []segment{{begin, there, 0, users}, {there, leave, users, users}, {leave, leave + leaving, users, 0}}
}

// most is how many users there are at most.
func most(segments []segment) (users int) {
	for _, s := range stagesOf(segments, lastOf(segments)) {
		users = max(users, int(s.From), int(s.To))
	}
	return users
}

// lastOf is when the last of the segments leave that do.
func lastOf(segments []segment) (last time.Duration) {
	for _, c := range segments {
		last = max(last, c.begin)
		if c.end != forGood {
			last = max(last, c.end)
		}
	}
	return last
}

// stagesOf returns the stages of all segments together.
func stagesOf(segments []segment, window time.Duration) (stages []plan.Stage) {
	edges := []time.Duration{0, window}
	for _, c := range segments {
		edges = append(edges, min(c.begin, window), min(c.end, window))
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	for i, to := range edges[1:] {
		stage := plan.Stage{Duration: to - edges[i]}
		for _, c := range segments {
			if c.begin <= edges[i] && c.end >= to {
				stage.From += c.at(edges[i])
				stage.To += c.at(to)
			}
		}
		stage.From, stage.To = math.Round(stage.From), math.Round(stage.To)
		if last := len(stages) - 1; last >= 0 && stage.From == stage.To && stages[last].From == stage.From && stages[last].To == stage.To {
			stages[last].Duration += stage.Duration
			continue
		}
		stages = append(stages, stage)
	}
	return stages
}

// A rampUp is how the users of a thread group come.
type rampUp struct {
	line  int
	title string
	users float64
	time  time.Duration
}

// ramped returns the stages of users of all groups together; nil if all are present all the time.
func (j *reader) ramped() []plan.Stage {
	if j.window == 0 && j.requests > 0 {
		for _, r := range j.ramps {
			j.d.Leave(r.line, r.title, fmt.Sprintf("a number of requests ends the load, and stages have a time: all %g users are present from the beginning, and not after %v", r.users, r.time), "load.stages in place of load.requests has users that ramp")
		}
		return nil
	}
	window := j.window
	if window == 0 { // it goes on until somebody stops it
		window = lastOf(j.segments) + 10*time.Second
	}
	if stages := stagesOf(j.segments, window); len(stages) > 1 || len(stages) == 1 && stages[0].From != stages[0].To {
		j.window = window
		return stages
	}
	return nil
}

// mostSteps is how often the users of one group may change.
const mostSteps = 1000

// segmentsOf returns the users of a group of a plug-in; none if dyno does not know such groups.
func (j *reader) segmentsOf(e *element) (segments []segment) {
	number := func(name string) float64 { return j.number(e, name, e.prop(name), 0) }
	seconds := func(name string) time.Duration { return draft.InSeconds(number(name)) }
	switch e.name[strings.LastIndexByte(e.name, '.')+1:] {
	case "UltimateThreadGroup":
		rows := e.find("ultimatethreadgroupdata")
		if rows == nil {
			return nil
		}
		for _, row := range rows.children {
			var cells [5]float64 // users, and the seconds until they come, of coming, staying and leaving
			for i, cell := range row.children[:min(len(row.children), len(cells))] {
				cells[i] = j.number(e, "row "+strconv.Itoa(i+1), strings.TrimSpace(cell.text), 0)
			}
			segments = append(segments, trapezium(cells[0], draft.InSeconds(cells[1]), draft.InSeconds(cells[2]), draft.InSeconds(cells[3]), draft.InSeconds(cells[4]))...)
		}
	case "ConcurrencyThreadGroup":
		unit := 60.
		if e.prop("Unit") == "S" {
			unit = 1
		}
		users, ramp, hold := number("TargetLevel"), draft.InSeconds(unit*number("RampUp")), draft.InSeconds(unit*number("Hold"))
		steps := number("Steps")
		if e.prop("Iterations") != "" {
			j.d.Leave(e.line, e.title()+": Iterations", "users go on until the group ends", "")
		}
		if steps < 1 || ramp == 0 || steps > mostSteps {
			return trapezium(users, 0, ramp, hold, 0)
		}
		for n := 1.; n <= steps; n++ { // the first step is there at once
			level := math.Round(users * n / steps)
			segments = append(segments, segment{time.Duration((n - 1) / steps * float64(ramp)), time.Duration(n / steps * float64(ramp)), level, level})
		}
		segments = append(segments, segment{ramp, ramp + hold, users, users})
	case "SteppingThreadGroup":
		segments = steps(number("ThreadGroup.num_threads"), number("Start users count burst"), number("Start users count"), number("Stop users count"),
			seconds("Threads initial delay"), seconds("Start users period"), seconds("rampUp"), seconds("flighttime"), seconds("Stop users period"))
	}
	return segments
}

// steps returns users that come in steps, the first of which may have a size of its own, stay, and leave in steps.
func steps(users, first, coming, leaving float64, delay, pause, ramp, stay, stopPause time.Duration) (segments []segment) {
	if coming <= 0 || users/coming > mostSteps {
		coming = users
	}
	if leaving <= 0 || users/leaving > mostSteps {
		leaving = users
	}
	if first <= 0 {
		first = coming
	}
	size := min(first, users)
	begin, left := delay, users
	var sizes []float64
	for left > 0 {
		size = min(size, left)
		sizes = append(sizes, size)
		left, size = left-size, coming
	}
	full := delay + time.Duration(len(sizes))*pause + ramp + stay
	for _, n := range sizes {
		segments = append(segments, segment{begin, begin + ramp, 0, n}, segment{begin + ramp, full, n, n})
		begin += pause
	}
	for left, at := users-leaving, full; left > 0; left, at = left-leaving, at+stopPause {
		segments = append(segments, segment{at, at + stopPause, left, left})
	}
	return segments
}

// number reads a number of an element.
func (j *reader) number(e *element, name, written string, otherwise float64) float64 {
	text := j.d.KnownHost(j.text(e.line, written))
	if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
		return n
	}
	if text != "" {
		j.d.Leave(e.line, e.title()+": "+name, fmt.Sprintf("%q is no number: it is taken to be %g", written, otherwise), "")
	}
	return otherwise
}
