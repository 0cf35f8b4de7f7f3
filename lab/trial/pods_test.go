package trial

import (
	"context"
	"errors"
	"strings"
	"testing"

	"dyno/lab/plan"
	"dyno/lab/pods"
	"dyno/lab/remote"
)

// finder finds pods, and no agents to observe them.
type finder struct {
	pods []pods.Pod
	err  error
}

func (f finder) Find(context.Context, *plan.Pods) ([]pods.Pod, error) { return f.pods, f.err }

func (f finder) Observer(_ context.Context, node string) (remote.Machine, error) {
	return nil, errors.New("nobody is on " + node)
}

// Pods that cannot be observed are left out of the trial, and this is recorded. A plan with pods is at
// fault if there is no way to find them.
func TestPodsThatCannotBeObserved(t *testing.T) {
	e := parse(t, `name: pods
target: {protocol: http, address: "`+startNull(t).Addr().String()+`"}
load: {closed: {connections: 1}, warmup: 0, window: 100ms}
design: {rounds: 1}
observe: {pods: app=web}
`)
	for want, f := range map[string]finder{
		"observe.pods: the server is away": {err: errors.New("the server is away")},
		"observe.pods: nobody is on n1":    {pods: []pods.Pod{{Name: "web", Node: "n1"}}},
	} {
		o := options(t, &log{})
		o.Pods = f
		if err := Run(t.Context(), e, o); err != nil {
			t.Fatal(err)
		}
		trial := open(t, o.Dir).Trials[0]
		said := ""
		for _, m := range trial.Unavailable {
			said += m.String() + "\n"
		}
		if !trial.Complete || !strings.Contains(said, want) || trial.Target.CPUSeconds != nil {
			t.Errorf("%s: %+v, %s", want, trial.Target, said)
		}
	}
	var wrong *PlanError
	if err := Run(t.Context(), e, options(t, &log{})); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "observe.pods") {
		t.Errorf("%v; want a *PlanError", err)
	}
}
