package record

import (
	"errors"

	"dyno/internal/sums"
	"dyno/load/hist"
	"dyno/load/scenario"
	"dyno/load/wire"
)

// A StepResult is what became of a step's requests.
type StepResult struct {
	Name      string
	Counts    Counts          // of the requests of the window, but for arrivals that found no user
	Completed uint64          // good responses that ended inside the window
	Skipped   uint64          // times that the step was skipped in the window, as its condition did not hold
	Response  *hist.Histogram `sum:"-"` // as Latency has it of all steps
	Service   *hist.Histogram `sum:"-"`

	// Tokens of language models' answers; nil of other responses.
	Tokens     *Tokens
	FirstToken *hist.Histogram `sum:"-"`
	TokenTime  *hist.Histogram `sum:"-"`
}

// UsersResult is what became of users.
type UsersResult struct {
	Count        int             // as many as there are, or may be in an open loop
	Started      uint64          // there have been
	Ended        uint64          // users that have ended: no step was left, or no row of data
	FailedLogins uint64          // in the whole load
	LoggedOut    uint64          // users of a closed loop who waited to log in again when the load ended
	Iterations   uint64          // that ended in the window, well or not
	Arrivals     uint64          // of the window, of an open loop
	TurnedAway   uint64          // arrivals dropped because no user was free
	Misses       []scenario.Miss `sum:"-"` // of the whole load, the warm-up included
}

// Add adds what became of the users of another worker or engine.
func (u *UsersResult) Add(o *UsersResult) {
	sums.Add(u, o)
	for i, m := range o.Misses {
		if i == len(u.Misses) {
			u.Misses = append(u.Misses, m)
			continue
		}
		u.Misses[i].Count += m.Count
	}
}

// mergeSteps adds what another engine saw of the same steps.
func (r *Result) mergeSteps(o *Result) error {
	switch {
	case len(r.Steps) == 0:
		r.Steps = o.Steps
	case len(o.Steps) != len(r.Steps) && len(o.Steps) > 0:
		return errors.New("engine: two results with different steps")
	default:
		for i := range o.Steps {
			r.Steps[i].add(&o.Steps[i])
		}
	}
	r.Users.Add(&o.Users)
	return nil
}

// add adds what another worker or engine saw of the step.
func (s *StepResult) add(o *StepResult) {
	sums.Add(s, o)
	s.Response.Merge(o.Response)
	s.Service.Merge(o.Service)
	if s.FirstToken != nil && o.FirstToken != nil {
		s.FirstToken.Merge(o.FirstToken)
		s.TokenTime.Merge(o.TokenTime)
	}
}

// NoStep is the step of a request that is none of users.
const NoStep = -1

// stepFigures is what became of a step's requests.
type stepFigures struct {
	name                   string
	ok, completed, dropped uint64
	skipped                uint64
	byKind                 [wire.Kinds]uint64
	response, service      *hist.Histogram
	answers                *answerFigures // nil where responses are no answers of language models
}

// answerFigures is what became of a step's answers of language models.
type answerFigures struct {
	Tokens
	first, each *hist.Histogram // as Latency has them of all steps: FirstToken, TokenTime
}

// AddStep adds a step of the scenario. The responses of some are answers of language models.
func (r *Recorder) AddStep(name string, answers bool) {
	f := stepFigures{name: name, response: hist.New(), service: hist.New()}
	if answers {
		f.answers = &answerFigures{first: hist.New(), each: hist.New()}
	}
	r.steps = append(r.steps, f)
}

// Skip counts that a step was skipped in the window.
func (r *Recorder) Skip(step int) { r.steps[step].skipped++ }

// DropOf counts a request of a step that is not sent.
func (r *Recorder) DropOf(step int, part Part, starved bool) {
	if part == Inside {
		r.steps[step].dropped++
	}
	r.Drop(part, starved)
}

// addSteps adds up what became of the requests of each step.
func (r *Result) addSteps(steps []stepFigures) {
	if r.Steps == nil {
		for i := range steps {
			step := StepResult{Name: steps[i].name, Response: hist.New(), Service: hist.New()}
			if steps[i].answers != nil {
				step.Tokens, step.FirstToken, step.TokenTime = &Tokens{}, hist.New(), hist.New()
			}
			r.Steps = append(r.Steps, step)
		}
	}
	for i := range steps {
		f := &steps[i]
		n := Counts{Outcomes: Outcomes{OK: f.ok, Dropped: f.dropped, ByKind: f.byKind}}
		n.Timeouts, n.Unfinished, n.Generator = f.byKind[wire.Timeout], f.byKind[wire.Unfinished], f.byKind[wire.Generator]
		var failed uint64
		for _, k := range f.byKind {
			failed += k
		}
		n.Errors = failed - n.Timeouts - n.Unfinished - n.Generator
		n.Sent = n.OK + failed
		n.Scheduled = n.Sent + n.Dropped
		o := StepResult{Counts: n, Completed: f.completed, Skipped: f.skipped, Response: f.response, Service: f.service}
		if a := f.answers; a != nil {
			o.Tokens, o.FirstToken, o.TokenTime = &a.Tokens, a.first, a.each
		}
		r.Steps[i].add(&o)
	}
}
