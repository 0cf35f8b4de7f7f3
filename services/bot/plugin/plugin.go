// Package plugin calls plugins for facts that a model does not know: the weather, an order's state, the time. All
// plugins of an intent run at once, within one budget of time. The model gets the results that are there at its end,
// and notes about missing ones.
//
// A slow or failing plugin costs only its own result. Each has a bound on simultaneous calls, beyond which calls are
// dropped rather than queued, and a circuit breaker.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"dyno/services/bot/breaker"
	"dyno/services/bot/budget"
	"dyno/services/internal/trace"
)

// A Call is the question to a plugin.
type Call struct {
	Key    string `json:"-"`  // the ID of the API key
	ID     string `json:"id"` // of the turn
	Bot    string `json:"bot_id"`
	User   string `json:"user_id"`
	Intent string `json:"intent"`
	Query  string `json:"query"`
}

// A Plugin answers calls. For calls that do not concern it, the error is ErrNothing. It must end soon after ctx does.
// It may be called by many goroutines at once.
type Plugin interface {
	Run(ctx context.Context, c Call) (text string, err error)
}

// A Spec says when a plugin is called, and within which bounds.
type Spec struct {
	Name   string
	Plugin Plugin
	// Intents are the intents that need it; none means all.
	Intents []string
	// Timeout bounds one call, within the budget of all.
	Timeout time.Duration
	// MaxConcurrent bounds simultaneous calls; further ones are dropped. One key of several has at most half of them.
	MaxConcurrent int
	// Failures is the number of consecutive failures that open the circuit of one key. For Cooldown it gets no calls;
	// then one call decides whether it closes.
	Failures int
	Cooldown time.Duration
}

// maxText bounds a result, in bytes; more are cut off.
const maxText = 64 << 10

// Defaults returns the Spec that every field starts from; Name and Plugin have none.
func Defaults() Spec {
	return Spec{Timeout: time.Second, MaxConcurrent: 64, Failures: 5, Cooldown: 10 * time.Second}
}

// An Outcome is the end of a call, or why it was not made.
type Outcome string

// The outcomes.
const (
	OK     Outcome = "ok"
	Failed Outcome = "failed"
	Late   Outcome = "late" // not ready when the time was up
	Busy   Outcome = "busy" // too many simultaneous calls
	Open   Outcome = "open" // the circuit is open: too many failures
	None   Outcome = "none" // the call did not concern it
)

// ErrNothing is a plugin's error for a call that does not concern it, such as a calculator's without a calculation.
// It is not a failure, and opens no circuit.
var ErrNothing = errors.New("nothing to say")

// A Result is the outcome of one plugin.
type Result struct {
	Name    string
	Outcome Outcome
	Text    string // of OK
	Err     error  // of Failed and Late
	Took    time.Duration
}

// A Scheduler calls plugins. Its methods may be called from any goroutine.
type Scheduler struct {
	timeout time.Duration // of all plugins of a turn
	workers []*worker
	running sync.WaitGroup
}

type worker struct {
	spec    Spec
	places  *budget.Budget
	callers sync.Map // of *caller by key
}

// A caller is one key at a plugin: its calls and failures do not affect other keys.
type caller struct {
	places  budget.Tenant
	breaker breaker.Breaker
}

func (w *worker) caller(key string) *caller {
	if c, ok := w.callers.Load(key); ok {
		return c.(*caller)
	}
	own := &caller{}
	own.breaker.Init(w.spec.Failures, w.spec.Cooldown, w.spec.Cooldown)
	c, _ := w.callers.LoadOrStore(key, own)
	return c.(*caller)
}

// New returns a scheduler for a number of keys. Timeout bounds the time of all plugins of one turn.
func New(timeout time.Duration, specs []Spec, keys int) *Scheduler {
	s := &Scheduler{timeout: timeout}
	for _, p := range specs {
		s.workers = append(s.workers, &worker{spec: p, places: budget.New(int64(p.MaxConcurrent), keys)})
	}
	return s
}

// SetKeys sets the number of keys.
func (s *Scheduler) SetKeys(n int) {
	for _, w := range s.workers {
		w.places.SetTenants(n)
	}
}

// Run calls every plugin that the call's intent needs. It returns when all have answered, the budget is spent, or ctx
// has ended. The results are in the order of the Specs. Running plugins are then cancelled, and keep their places
// until they end.
func (s *Scheduler) Run(ctx context.Context, c Call) []Result {
	var wanted []*worker
	for _, w := range s.workers {
		if len(w.spec.Intents) == 0 || slices.Contains(w.spec.Intents, c.Intent) {
			wanted = append(wanted, w)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	began := time.Now()
	results := make([]Result, len(wanted))
	type numbered struct {
		Result
		i int
	}
	answers := make(chan numbered, len(wanted)) // has room for late answers
	waiting := 0
	for i, w := range wanted {
		results[i] = Result{Name: w.spec.Name, Outcome: Late}
		of := w.caller(c.Key)
		probe, ok := of.breaker.Begin(began)
		if !ok {
			results[i].Outcome = Open
			continue
		}
		place := w.places.Grant(&of.places)
		if !place.Hold(1) {
			results[i].Outcome = Busy
			of.breaker.Cancel(probe)
			continue
		}
		waiting++
		s.running.Go(func() {
			defer place.Keep(0)
			answers <- numbered{w.run(ctx, c, &of.breaker, probe), i}
		})
	}
	for ; waiting > 0; waiting-- {
		select {
		case r := <-answers:
			results[r.i] = r.Result
			continue
		case <-ctx.Done():
		}
		// Results that are there by now count.
		for more := true; more; {
			select {
			case r := <-answers:
				results[r.i] = r.Result
			default:
				more = false
			}
		}
		break
	}
	for i := range results {
		if results[i].Outcome == Late && results[i].Err == nil {
			results[i].Err, results[i].Took = context.Cause(ctx), time.Since(began)
		}
	}
	return results
}

// Wait waits until no plugin is running.
func (s *Scheduler) Wait() { s.running.Wait() }

func (w *worker) run(ctx context.Context, c Call, b *breaker.Breaker, probe bool) Result {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, w.spec.Timeout)
	defer cancel()
	ctx, span := trace.StartCall(ctx, "plugin")
	defer span.End()
	span.Text("plugin.name", w.spec.Name)
	began := time.Now()
	text, err := w.ask(ctx, c)
	r := Result{Name: w.spec.Name, Outcome: OK, Text: text, Err: err, Took: time.Since(began)}
	switch {
	case err == nil:
		b.Succeed(probe)
	case errors.Is(err, ErrNothing):
		r.Outcome, r.Text, r.Err = None, "", nil
		b.Succeed(probe)
	case errors.Is(whole.Err(), context.Canceled):
		// The client has gone: this is not the plugin's failure.
		r.Outcome, r.Text = Late, ""
		b.Cancel(probe)
	default:
		r.Outcome, r.Text = Failed, ""
		if ctx.Err() != nil {
			r.Outcome = Late
		}
		b.Fail(probe, time.Now(), 0)
	}
	span.Text("plugin.outcome", string(r.Outcome))
	if r.Outcome != OK && r.Outcome != None {
		span.Fail(string(r.Outcome))
	}
	if len(r.Text) > maxText {
		r.Text = string([]rune(r.Text[:maxText])) // an incomplete character becomes U+FFFD
	}
	return r
}

// ask calls the plugin. One that panics has failed.
func (w *worker) ask(ctx context.Context, c Call) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return w.spec.Plugin.Run(ctx, c)
}
