package trial

import (
	"context"
	"errors"
	"time"

	"dyno/lab/generator"
	"dyno/lab/protocols"
	"dyno/load/engine"
	"dyno/load/scenario"
	"dyno/results/rundir"
)

// teardownTime bounds a teardown, for which somebody may be waiting who has interrupted the run.
const teardownTime = 30 * time.Second

// setUp carries out the setup of a load's scenario, and gives the load the variables that it sets. This process sends
// its requests, also if agents carry the load. tearDown, which is never nil, carries out the scenario's teardown.
func (r *runner) setUp(ctx context.Context, d *drive, t *rundir.Trial) (tearDown func(), err error) {
	tearDown = func() {}
	s := d.variant.Load.Scenario
	if s == nil || len(s.Setup)+len(s.Teardown) == 0 {
		return tearDown, nil
	}
	one := d.variant
	if len(r.agents) > 0 { // whose own limits do not hold here
		var end context.CancelFunc
		if ctx, end, one, err = r.options.Limits.bound(ctx, one); err != nil {
			return tearDown, &PlanError{err}
		}
		defer end()
	}
	if one, err = protocols.WithSecrets(one); err != nil {
		return tearDown, &PlanError{err}
	}
	hidden := map[string]string{}
	for name, value := range one.Load.Scenario.Variables {
		if _, public := s.Variables[name]; !public {
			hidden[name] = value
		}
	}
	var values map[string]string
	if len(s.Setup) > 0 {
		if values, err = generator.Once(ctx, one, r.experiment.Design.Seed, scenario.OfSetup, hidden); err != nil {
			return tearDown, onceFault(ctx, err)
		}
	}
	for name, value := range values {
		hidden[name] = value
	}
	load, after := *d.variant, *one
	after.Load.Scenario = one.Load.Scenario.AfterSetup(values)
	load.Load.Scenario = after.Load.Scenario
	if d.variant = &load; len(s.Teardown) == 0 {
		return tearDown, nil
	}
	return func() {
		ctx, end := context.WithTimeoutCause(context.WithoutCancel(ctx), teardownTime, errLateTeardown)
		defer end()
		if _, err := generator.Once(ctx, &after, r.experiment.Design.Seed, scenario.OfTeardown, hidden); err != nil {
			t.Teardown = err.Error()
		}
	}, nil
}

var errLateTeardown = errors.New("load.scenario.teardown: it takes longer than " + teardownTime.String())

// onceFault says whose fault it is that setup failed: the plan's, if it could not begin.
func onceFault(ctx context.Context, err error) error {
	_, step := errors.AsType[*generator.StepError](err)
	_, unreachable := errors.AsType[*engine.Unreachable](err)
	_, exhausted := errors.AsType[*engine.Exhausted](err)
	if step || unreachable || exhausted || ctx.Err() != nil {
		return err
	}
	return &PlanError{err}
}
