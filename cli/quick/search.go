package quick

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"dyno/internal/exit"
	"dyno/internal/units"
	"dyno/judge/verdict/expr"
	"dyno/lab/plan"
)

// What a search from flags is like where they do not say it: it should be over within a minute or
// two for a server that answers within milliseconds.
const (
	searchWindow     = 2 * time.Second // of the load at each rate, if that is enough requests
	searchWarmup     = 500 * time.Millisecond
	searchResolution = 0.05
	searchTrials     = 3 // at most at each rate, of which two decide
	searchTolerate   = 0.5

	// Without --from, a search begins at a part of what a closed loop reached. The lowest rate is a part of it, too: of a
	// search with --duration, whose conditions may need many requests, at most the second one.
	firstShare  = 1. / 2
	lowestShare = 1. / 16
	slowShare   = 1. / 4

	mostRate = 10_000_000
)

// A searchFlags says that the highest rate is searched for at which conditions hold.
type searchFlags struct {
	flag       string // that gives them, without dashes
	conditions []string
}

func (s *searchFlags) register(f *pflag.FlagSet, flag string) {
	s.flag = flag
	f.StringArrayVar(&s.conditions, flag, nil, "search for the highest rate at which `CONDITIONS` hold, such as 'p99 < 20ms', written as those of --threshold; may be repeated")
	f.Lookup("from").Usage = "the lowest rate of the search (default: a 16th of what a closed loop reaches; the first is half of that)"
	f.Lookup("to").Usage = "the highest rate of the search (default: 10,000,000)"
}

// slowWanted is a condition that slow answers keep.
var slowWanted = regexp.MustCompile(`^([a-z_]+\.)?(p[0-9.]+|mean|max)(\{[^}]*\})?\s*>`)

// thresholds takes conditions apart that have commas between them.
func thresholds(texts []string) (all []plan.Threshold) {
	for _, text := range texts {
		for _, holds := range expr.Split(text) {
			all = append(all, plan.Threshold{Holds: holds})
		}
	}
	return all
}

// aborts returns the thresholds that end the run.
func (q *Load) aborts() (all []plan.Threshold, faults []error) {
	all = thresholds(q.abortUnless)
	for i := range all {
		all[i].Abort, all[i].After = true, q.abortAfter
	}
	switch {
	case len(all) > 0 && q.IsSearch():
		return nil, []error{errors.New("--abort-unless: a search breaks its conditions on purpose; leave it out")}
	case len(all) == 0 && q.Given("abort-after"):
		faults = append(faults, errors.New("--abort-after: nothing ends the run; say what with --abort-unless"))
	case q.abortAfter < 0:
		faults = append(faults, errors.New("--abort-after: want a time that is not negative"))
	}
	return all, faults
}

// IsSearch tells whether flags ask for a search. Where conditions are all there is to search by, thresholds are conditions.
func (q *Load) IsSearch() bool {
	return len(q.search.conditions) > 0 || q.search.flag == "slo" && q.Given("threshold")
}

// seek makes a plan a search, if flags ask for one.
func (q *Load) seek(e *plan.Experiment) (faults []error) {
	s, l := &q.search, &e.Variants[0].Load
	if !q.IsSearch() {
		e.Capacity = nil
		for _, flag := range []string{"from", "to"} {
			if s.flag != "" && q.Given(flag) {
				faults = append(faults, fmt.Errorf("--%s: there is no search; say with --%s what must hold", flag, s.flag))
			}
		}
		return faults
	}
	for _, flag := range []string{"rate", "stages", "users", "requests"} {
		if q.Given(flag) && (flag != "users" || q.changesUsers()) {
			faults = append(faults, fmt.Errorf("--%s: with --%s, the search says how much is sent; leave it out", flag, s.flag))
		}
	}
	if l.Open == nil {
		l.Open = plan.DefaultOpen()
	}
	if !q.Given("duration") {
		l.Window = searchWindow
	}
	if !q.Given("warmup") {
		l.Warmup = searchWarmup
	}
	e.Thresholds = append(thresholds(s.conditions), e.Thresholds...)
	for _, c := range e.Conditions() {
		if slowWanted.MatchString(c) {
			faults = append(faults, fmt.Errorf("--%s: %s asks for slow answers, and a higher rate makes them slower; write <", s.flag, c))
		}
	}
	c := plan.Capacity{Resolution: searchResolution, Trials: searchTrials, Tolerate: searchTolerate}
	if e.Capacity != nil {
		c.From, c.To = e.Capacity.From, e.Capacity.To
	}
	switch {
	case q.Given("from") && q.Given("to") && c.To <= c.From*(1+c.Resolution):
		faults = append(faults, fmt.Errorf("--to: %s/s is not above --from, %s/s; a higher rate", units.Figure(c.To), units.Figure(c.From)))
	case q.Given("from") && !q.Given("to"):
		c.To = mostRate
	case !q.Given("from"): // until a closed loop has shown what the server reaches
		c.From, c.To = 1, max(c.To, 2)
	}
	e.Capacity = &c
	return faults
}

// needed is how many requests a load needs for the percentiles of the conditions to be known.
func needed(e *plan.Experiment) float64 {
	v := &e.Variants[0]
	if v.Load.Scenario != nil || v.Load.Subscribers != nil {
		return 0
	}
	most := 0
	for _, t := range e.Conditions() {
		most = max(most, expr.Checks.RequestsNeeded(t, []string{v.Name}, e.Steps()))
	}
	return v.Load.Open.Sending(most)
}

// LastEnough makes the load at each rate last until there are enough requests for the conditions. If the flags set a
// duration, it refuses one in which a rate sends too few. It then returns the lowest rate that sends enough.
func (q *Load) LastEnough(e *plan.Experiment, rate float64) (least float64, err error) {
	window, enough := e.Variants[0].Load.Window, needed(e)
	if !q.Given("duration") {
		e.Capacity.Enough = enough
		return 0, nil
	}
	if sent := rate * window.Seconds(); sent < enough {
		return 0, exit.Misused("a longer --duration, or a higher --from", "--%s: %s needs about %s requests at each rate, and %s/s for %v are %s",
			q.search.flag, strings.Join(e.Conditions(), ", "), units.Whole(int64(math.Ceil(enough))), units.Figure(rate), window, units.Figure(sent))
	}
	return enough / window.Seconds(), nil
}

// rounded is a rate in two digits, not below it.
func rounded(rate float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(rate))-1)
	if step < 1 { // fractions are divided out: a tenth is no binary number, ten is one
		unit := math.Round(1 / step)
		return math.Ceil(rate*unit) / unit
	}
	return math.Ceil(rate/step) * step
}

// ClosedConnections is how many connections a closed loop instead of a search has.
func (q *Load) ClosedConnections(e *plan.Experiment) int {
	if e.Variants[0].Load.Subscribers != nil {
		return q.publishers
	}
	return q.connections
}

// BeginNear makes a search begin near what a closed loop reached, and end where flags say or far above that.
func (q *Load) BeginNear(e *plan.Experiment, reached float64) error {
	c := e.Capacity
	if !q.Given("to") {
		c.To = mostRate
	}
	reached = min(reached, c.To)
	least, err := q.LastEnough(e, slowShare*reached)
	c.From = rounded(max(lowestShare*reached, least))
	c.First = min(max(rounded(firstShare*reached), c.From), c.To)
	return err
}
