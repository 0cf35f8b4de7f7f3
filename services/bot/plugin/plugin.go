// Package plugin asks others what a model does not know: the weather, an order's state,
// the time. All plugins that an intent needs are asked at once, within one budget of
// time. What is there at its end goes to the model; of what is not, the result says so.
//
// A plugin that is slow, or fails, costs its own result and nothing else: it has a bound
// on calls at once (more are not made, rather than queued) and a circuit breaker.
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
	"dyno/services/bot/trace"
)

// A Call is what a plugin is asked.
type Call struct {
	Key    string `json:"-"`  // whose it is: the API key's ID
	ID     string `json:"id"` // of the turn
	Bot    string `json:"bot_id"`
	User   string `json:"user_id"`
	Intent string `json:"intent"`
	Query  string `json:"query"`
}

// A Plugin answers calls, or with ErrNothing those that do not concern it. It must end
// soon after ctx does. It may be called by many goroutines at once.
type Plugin interface {
	Run(ctx context.Context, c Call) (text string, err error)
}

// A Spec says when a plugin is asked, and within which bounds.
type Spec struct {
	Name   string
	Plugin Plugin
	// Intents are those that it is asked for; none is all.
	Intents []string
	// Timeout bounds one call, within the budget of all.
	Timeout time.Duration
	// MaxConcurrent bounds the calls at once. More are not made. One key of several has half of
	// them at most.
	MaxConcurrent int
	// Failures in a row of one key's calls open its circuit: for Cooldown no calls are made for
	// it, then one that decides whether it closes.
	Failures int
	Cooldown time.Duration
}

// maxText bounds a result, in bytes; more are cut off.
const maxText = 64 << 10

// Defaults returns the Spec that every field starts from; Name and Plugin have none.
func Defaults() Spec {
	return Spec{Timeout: time.Second, MaxConcurrent: 64, Failures: 5, Cooldown: 10 * time.Second}
}

// An Outcome is how a call has ended, or why it was not made.
type Outcome string

// The outcomes.
const (
	OK     Outcome = "ok"
	Failed Outcome = "failed"
	Late   Outcome = "late" // not there when the time was up
	Busy   Outcome = "busy" // as many calls under way as there may be
	Open   Outcome = "open" // the circuit is open: too many failures
	None   Outcome = "none" // it answered that it has nothing to say of this call
)

// ErrNothing is a plugin's answer when a call does not concern it, such as a calculator's
// to a text without a calculation. It is no failure: it opens no circuit.
var ErrNothing = errors.New("nothing to say")

// A Result is what became of one plugin.
type Result struct {
	Name    string
	Outcome Outcome
	Text    string // of OK
	Err     error  // of Failed and Late
	Took    time.Duration
}

// A Scheduler asks plugins. Its methods may be called from any goroutine.
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

// A caller is one key at a plugin: what it asks costs others neither their places nor the plugin.
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

// New returns a scheduler for the calls of that many keys. Timeout bounds the time of all plugins of one turn.
func New(timeout time.Duration, specs []Spec, keys int) *Scheduler {
	s := &Scheduler{timeout: timeout}
	for _, p := range specs {
		s.workers = append(s.workers, &worker{spec: p, places: budget.New(int64(p.MaxConcurrent), keys)})
	}
	return s
}

// SetKeys says how many keys there are from now on.
func (s *Scheduler) SetKeys(n int) {
	for _, w := range s.workers {
		w.places.SetTenants(n)
	}
}

// Run asks every plugin that the call's intent needs, and returns when all have
// answered, the budget is spent, or ctx has ended: a result for each, in the order of
// the Specs. What is still running then is told to end, and keeps its place until it
// does.
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
	answers := make(chan numbered, len(wanted)) // has room for those that nobody waits for
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
		// What is there by now counts.
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

// Wait returns when no plugin is running.
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
		// The client went: that says nothing about the plugin.
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
		r.Text = string([]rune(r.Text[:maxText])) // half a character becomes one that says so
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
