package agents

import (
	"context"

	"dyno/lab/fleet/queue"
	"dyno/lab/fleet/registry"
)

// A fleetView is a fleet as the page shows it.
type fleetView struct {
	Named  bool        `json:"named"`
	Agents []agentView `json:"agents"`
	Tasks  []taskView  `json:"tasks"`
}

type agentView struct {
	Name    string            `json:"name"`
	Address string            `json:"address"`
	Labels  map[string]string `json:"labels"`
	CPUs    int               `json:"cpus"`
	Version string            `json:"version"`
	State   string            `json:"state"`
}

type taskView struct {
	queue.Task
	Predicted float64 `json:"predicted_seconds,omitempty"`
}

// View returns a fleet and its queue as the page shows them.
func View(ctx context.Context, r *registry.Registry, q *queue.Queue) (any, error) {
	v := fleetView{Named: true, Agents: []agentView{}, Tasks: []taskView{}}
	agents, broken, err := r.Agents(ctx)
	if err != nil {
		return v, err
	}
	for i := range agents {
		of := &agents[i]
		v.Agents = append(v.Agents, agentView{of.Name, of.Address, of.Labels, of.CPUs, of.Version, stateOf(of)})
	}
	for _, b := range broken {
		v.Agents = append(v.Agents, agentView{Name: b.Name, Address: b.Reason, State: "broken"})
	}
	tasks, broken, err := q.Tasks(ctx)
	for i := range tasks {
		v.Tasks = append(v.Tasks, taskView{tasks[i], queue.Predict(&tasks[i], tasks)})
	}
	for _, b := range broken {
		v.Tasks = append(v.Tasks, taskView{queue.Task{ID: b.Name, Name: b.Reason, State: queue.Broken}, 0})
	}
	return v, err
}
