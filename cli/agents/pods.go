package agents

import (
	"context"
	"fmt"
	"slices"

	"dyno/internal/exit"
	"dyno/lab/fleet/registry"
	"dyno/lab/plan"
	"dyno/lab/pods"
	"dyno/lab/remote"
	"dyno/lab/trial"
)

// A podFinder asks the API server for pods, and the fleet for the agents on their nodes.
type podFinder struct {
	agents *Access
	client *pods.Client
}

// PodFinder returns what finds the pods that a plan observes; nil if it observes none. It has found all of them once.
func (a *Access) PodFinder(ctx context.Context, e *plan.Experiment) (trial.PodFinder, error) {
	var of []*plan.Pods
	for i := range e.Variants {
		if p := e.Variants[i].Observe.Pods; p != nil {
			of = append(of, p)
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	client, err := pods.InCluster()
	if err != nil {
		return nil, exit.Misused("run it as a Job, as deploy/fleet/job.yaml does, or leave out observe.pods", "observe.pods: %v", err)
	}
	f := &podFinder{a, client}
	for _, p := range of {
		found, err := f.Find(ctx, p)
		if err != nil {
			return nil, exit.Misused("in deploy/fleet, observers.namespaces lists where the Job may look for pods", "observe.pods: %v", err)
		}
		for _, one := range found {
			if _, err := f.Observer(ctx, one.Node); err != nil {
				return nil, exit.Misused("in deploy/fleet, observers.enabled: true starts one on each node", "observe.pods: %v", err)
			}
		}
	}
	return f, nil
}

// Find implements trial.PodFinder.
func (f *podFinder) Find(ctx context.Context, of *plan.Pods) ([]pods.Pod, error) {
	return f.client.Find(ctx, of.Namespace, of.Selector)
}

// Observer implements trial.PodFinder. It asks the fleet each time: an observer that is replaced has another address.
func (f *podFinder) Observer(ctx context.Context, node string) (remote.Machine, error) {
	all, err := f.agents.registered(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(of registry.Agent) bool {
		return of.Labels["observes"] == "pods" && of.Labels["node"] == node && !of.Cordoned
	})
	if i < 0 {
		return nil, fmt.Errorf("no agent has the labels observes=pods and node=%s", node)
	}
	m, err := f.agents.coordinator()
	if err != nil {
		return nil, err
	}
	connected, err := connectTo(ctx, m, all[i].Address)
	if err != nil {
		return nil, err
	}
	return connected[0], nil
}
