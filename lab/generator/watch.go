package generator

import (
	"dyno/load/engine/config"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// A Watch observes the machine that carries a part of a load.
type Watch interface {
	// Start begins to observe. The threads are the part's own.
	Start(s config.Start)
	// Phase is called when a phase begins.
	Phase(p config.Phase)
	// Stop ends it, and returns the observations in the window of a part with a number of workers.
	Stop(workers int) *Observed
}

// Observed has the observations of a machine in the window of a part.
type Observed struct {
	Boot        string           `json:"boot,omitempty"`        // identifies the machine, from its start on; empty: not known
	CPUSeconds  *float64         `json:"cpu_seconds,omitempty"` // that all its CPUs had
	Generator   rundir.Generator `json:"generator"`             // only what observers see
	Machine     rundir.Machine   `json:"machine"`
	ObserverCPU *float64         `json:"observer_cpu_seconds,omitempty"`
	Stalls      []series.Stall   `json:"stalls,omitempty"`
	Unavailable []rundir.Message `json:"unavailable,omitempty"`
}
