package observation

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/internal/texts"
	"dyno/lab/plan"
	"dyno/lab/pods"
	"dyno/load/engine/record"
	"dyno/observe"
	"dyno/results/rundir"
)

// A node is an agent that observes pods. Each reading adds 1 s of CPU time and 5 bytes to a pod.
type node struct {
	fault  error
	asked  []pods.Pod
	closed int
}

func (n *node) Observe(_ context.Context, s Subject) (*Observed, error) {
	n.asked = s.Pods
	if n.fault != nil {
		return nil, n.fault
	}
	o := &Observed{CPUs: 2, Boot: "of a node", Rest: func() ([]observe.Stall, float64) { return []observe.Stall{{Late: 1}}, 3 }}
	o.Observers = append(o.Observers, &counter{node: n, name: TargetAgent, columns: []observe.Column{{Name: "time_seconds", Kind: observe.Counter}}, by: 2})
	o.Observers = append(o.Observers, &counter{node: n, name: "target", columns: []observe.Column{{Name: "cpu_user_seconds", Kind: observe.Counter}, {Name: "cpu_system_seconds", Kind: observe.Counter}}, by: 1})
	for _, p := range s.Pods {
		o.Observers = append(o.Observers, &counter{node: n, name: podColumns(p), columns: []observe.Column{{Name: "cpu_seconds", Kind: observe.Counter}, {Name: "memory_bytes", Kind: observe.Gauge}}, by: 1})
	}
	return o, nil
}

// A counter is an observer whose counters grow, and whose gauges do not.
type counter struct {
	node    *node
	name    string
	columns []observe.Column
	by, at  float64
}

func (c *counter) Name() string              { return c.name }
func (c *counter) Columns() []observe.Column { return c.columns }
func (c *counter) Close() error              { c.node.closed++; return nil }

func (c *counter) Observe(row []float64) error {
	c.at += c.by
	for i, of := range c.columns {
		if row[i] = 5; of.Kind == observe.Counter {
			row[i] = c.at
		}
	}
	return nil
}

// watchPods records pods on some nodes for a moment.
func watchPods(t *testing.T, p *Pods) *rundir.Trial {
	t.Helper()
	w := New(Config{Variant: &plan.Variant{Target: plan.Target{Address: "web:80"}}, Pods: p})
	w.Open(t.Context())
	w.begin(time.Now(), nil)
	w.Mark()
	w.Mark()
	w.Stop()
	trial := &rundir.Trial{}
	trial.Counts.OK = 10
	w.Record(trial, &record.Result{Window: time.Second})
	return trial
}

func TestPods(t *testing.T) {
	a, b, c := pods.Pod{Name: "web-a"}, pods.Pod{Name: "web-b"}, pods.Pod{Name: "web.c"}
	same := func() error { return nil }
	growth := func(trial *rundir.Trial) (all []float64) {
		for _, p := range trial.Pods {
			if p.CPUSeconds == nil || p.MemoryBytes == nil || *p.MemoryBytes != 5 {
				t.Fatalf("%+v", p)
			}
			all = append(all, *p.CPUSeconds)
		}
		return all
	}

	one := &node{}
	trial := watchPods(t, &Pods{Nodes: []Node{{one, "n1", []pods.Pod{a, b}}}, Changed: same})
	if got := growth(trial); len(got) != 2 || *trial.Target.CPUSeconds != got[0]+got[1] || trial.Pods[1].Name != "web-b" || trial.Pods[1].Node != "n1" {
		t.Errorf("%+v, %v", trial.Pods, *trial.Target.CPUSeconds)
	}
	if !slices.Equal(one.asked, []pods.Pod{a, b}) || one.closed != 4 {
		t.Errorf("asked for %v, and %d observers closed", one.asked, one.closed)
	}

	// Several nodes are one machine, with the CPUs of all.
	two := &node{}
	trial = watchPods(t, &Pods{Nodes: []Node{{&node{}, "n1", []pods.Pod{a, b}}, {two, "n2", []pods.Pod{c}}}, Changed: same})
	got := growth(trial)
	if len(got) != 3 || *trial.Target.CPUSeconds != got[0]+got[1]+got[2] || trial.Pods[2].Node != "n2" || two.closed != 3 {
		t.Errorf("%+v, %v", trial.Pods, *trial.Target.CPUSeconds)
	}
	if share := *trial.Target.CPUShare; math.Abs(share-3./2/4) > 1e-9 { // 3 pods grow by 1 s in 2 s, of 4 CPUs
		t.Errorf("%v of the CPUs", share)
	}

	// Nothing is known of pods that were not there all the time, or not observed.
	lost := &node{fault: errors.New("no way there")}
	whole := &node{}
	for want, p := range map[string]*Pods{
		"they were web-a when the load began, and web-b, web.c when it ended": {Nodes: []Node{{&node{}, "n1", []pods.Pod{a}}}, Changed: func() error { return PodsChanged([]pods.Pod{a}, []pods.Pod{b, c}) }},
		"node n2: no way there": {Nodes: []Node{{whole, "n1", []pods.Pod{a}}, {lost, "n2", []pods.Pod{b}}}, Changed: same},
		"nobody knows":          {Err: errors.New("nobody knows")},
	} {
		trial := watchPods(t, p)
		if trial.Target.CPUSeconds != nil || trial.Pods != nil || !slices.ContainsFunc(trial.Unavailable, func(m texts.Message) bool { return strings.Contains(m.String(), want) }) {
			t.Errorf("%s: %+v, %v, %v", want, trial.Target, trial.Pods, trial.Unavailable)
		}
	}
	if whole.closed != 3 {
		t.Errorf("%d observers closed", whole.closed)
	}
	if err := PodsChanged([]pods.Pod{a}, []pods.Pod{a}); err != nil {
		t.Error(err)
	}
}

// If all pods are on dyno's machine, what they use there is no foreign CPU time.
func TestMachineThatPodsShare(t *testing.T) {
	for _, c := range []struct {
		nodes  []*Observed
		shared bool
	}{
		{[]*Observed{{Boot: Boot()}}, true},
		{[]*Observed{{Boot: "another"}}, false},
		{[]*Observed{{Boot: Boot()}, {Boot: Boot()}}, false},
	} {
		pod := pods.Pod{Name: "web"}
		w := New(Config{Variant: &plan.Variant{}, Pods: &Pods{Nodes: []Node{{Pods: []pods.Pod{pod}}}}})
		w.remote = together(c.nodes)
		var window observe.Window
		for name, seconds := range map[string]float64{
			"machine_cpu_seconds": 4, "machine_cpu_foreign_seconds": 2, "target_machine_cpu_seconds": 4, "target_machine_cpu_foreign_seconds": 1,
			podColumns(pod) + "_cpu_seconds": 1,
		} {
			window.Columns = append(window.Columns, observe.Summary{Column: observe.Column{Name: name}, Delta: seconds})
		}
		var trial rundir.Trial
		w.recorder = &observe.Recorder{}
		w.remote.Rest = func() ([]observe.Stall, float64) { return nil, 0 }
		w.recordMachine(&trial, window)
		if want := map[bool]float64{true: 0.25, false: 0.5}[c.shared]; *trial.Machine.ForeignShare != want {
			t.Errorf("%+v: %v of others", c, *trial.Machine.ForeignShare)
		}
	}
}

// A column that one of several machines does not read is unknown for all.
func TestTogetherOfMissing(t *testing.T) {
	x, y := &counter{name: "x", columns: []observe.Column{{Name: "a"}, {Name: "b"}}}, &counter{name: "x", columns: []observe.Column{{Name: "b"}}}
	o := together([]*Observed{{Observers: []observe.Observer{x}, CPUs: 1}, {Observers: []observe.Observer{y}, CPUs: 3}})
	row := make([]float64, 2)
	if err := o.Observers[0].Observe(row); err != nil || len(o.Observers) != 1 || o.CPUs != 4 || !math.IsNaN(row[0]) || row[1] != 10 {
		t.Errorf("%v, %+v, %v", row, o, err)
	}
}
