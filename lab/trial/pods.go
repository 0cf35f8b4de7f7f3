package trial

import (
	"context"
	"fmt"
	"slices"

	"dyno/lab/observation"
	"dyno/lab/plan"
	"dyno/lab/pods"
	"dyno/lab/remote"
)

// A PodFinder finds the pods of a target in Kubernetes, and who observes them.
type PodFinder interface {
	Find(ctx context.Context, of *plan.Pods) ([]pods.Pod, error)
	// Observer returns the agent that observes the pods of a node.
	Observer(ctx context.Context, node string) (remote.Machine, error)
}

// findPods finds the target's pods, and connects to the agents on their nodes. The stage keeps the
// connections. Pods that cannot be observed fail no trial.
func (r *runner) findPods(ctx context.Context, s *stage, of *plan.Pods) *observation.Pods {
	found, err := r.options.Pods.Find(ctx, of)
	if err != nil {
		return &observation.Pods{Err: fmt.Errorf("observe.pods: %w", err)}
	}
	p := &observation.Pods{Changed: func() error {
		now, err := r.options.Pods.Find(context.WithoutCancel(ctx), of)
		if err != nil {
			return fmt.Errorf("observe.pods: %w", err)
		}
		return observation.PodsChanged(found, now)
	}}
	for _, pod := range found {
		i := slices.IndexFunc(p.Nodes, func(n observation.Node) bool { return n.Name == pod.Node })
		if i < 0 {
			agent, err := r.connectNode(ctx, s, pod.Node)
			if err != nil {
				return &observation.Pods{Err: fmt.Errorf("observe.pods: %w", err)}
			}
			i = len(p.Nodes)
			p.Nodes = append(p.Nodes, observation.Node{Agent: agent, Name: pod.Node})
		}
		p.Nodes[i].Pods = append(p.Nodes[i].Pods, pod)
	}
	return p
}

func (r *runner) connectNode(ctx context.Context, s *stage, node string) (*remote.Process, error) {
	m, err := r.options.Pods.Observer(ctx, node)
	if err != nil {
		return nil, err
	}
	p, err := remote.Open(ctx, m)
	if err == nil {
		s.connections = append(s.connections, p)
	}
	return p, err
}
