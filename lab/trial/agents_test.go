package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/host/child"
	"dyno/internal/texts"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/lab/plan"
	"dyno/lab/remote"
	"dyno/load/engine/record"
	"dyno/results/rundir"
)

// A testAgent has processes on this machine.
type testAgent struct {
	mu      sync.Mutex // guards what follows
	running interface{ Kill() }
	gone    bool
	asked   int
	backAt  int // the number of the question at which it is there again; 0: it never is

	descriptors int
}

var errGone = errors.New("it is gone")

func (a *testAgent) Start(ctx context.Context) (generator.Process, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return nil, errGone
	}
	p, err := generator.Local{}.Start(ctx)
	a.running = p
	return p, err
}

func (a *testAgent) Ask(context.Context) (string, int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked++; a.asked == a.backAt {
		a.gone = false
	}
	if a.gone {
		return "", 0, errGone
	}
	return "here", a.descriptors, nil
}

// lose ends the agent's process, and the agent with it.
func (a *testAgent) lose() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	a.running.Kill()
}

// A testHost is an agent whose machine is this one.
type testHost struct {
	*testing.T
	testAgent
}

func (*testHost) String() string { return "agent c" }

func (h *testHost) Host(context.Context) (remote.Channel, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil, errGone
	}
	l := remote.Limits{Commands: []string{"/*/sleep", "/*/*/sleep"}, Observe: true, Time: time.Hour, Silence: time.Hour}
	command, err := l.Command(nil)
	if err != nil {
		return nil, err
	}
	p, err := child.Start(command)
	if err != nil {
		return nil, err
	}
	h.running = p
	h.Cleanup(func() {
		p.Kill()
		_ = p.Wait() // it was killed, or has ended
	})
	return testChannel{p}, nil
}

type testChannel struct{ *child.Process }

func (testChannel) At(ours int64) (theirs, within int64) { return ours, 0 }
func (testChannel) Silence() time.Duration               { return time.Hour }

// A fleetTest is an experiment whose loads agents a and b carry, against a server that counts.
type fleetTest struct {
	agents     map[string]*testAgent
	experiment *plan.Experiment
	options    Options

	mu    sync.Mutex // guards what follows
	trial int        // that runs
	seen  map[int]int
	loses map[int]string // at the first request of a trial: the agents that are lost
}

const fleetRequests = 60

// trialKey is the key of the trial in a connection's context. Data of an ended process may be read
// late.
type trialKey struct{}

// newFleet returns an experiment of two variants and a number of rounds. placed are more fields of the
// target, and then more of the plan.
func newFleet(t *testing.T, rounds int, placed ...string) *fleetTest {
	t.Helper()
	f := &fleetTest{agents: map[string]*testAgent{"a": {descriptors: 1000}, "b": {descriptors: 1000}}, seen: map[int]int{}}
	server := httptest.NewUnstartedServer(f)
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		f.mu.Lock()
		defer f.mu.Unlock()
		return context.WithValue(ctx, trialKey{}, f.trial)
	}
	server.Start()
	t.Cleanup(server.Close)
	f.experiment = parse(t, fmt.Sprintf(`name: fleet
target: {protocol: http, url: "%s/{{path}}"%s}
load: {closed: {connections: 4}, warmup: 0, requests: %d}
design: {rounds: %d, seed: 5, control: false}
compare: {base: x, variants: {x: {path: x}, y: {path: y}}}
%s
`, server.URL, append(placed, "", "")[0], fleetRequests, rounds, append(placed, "", "")[1]))
	f.options = options(t, &log{onStart: func(p Planned) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.trial = p.Number
	}})
	for _, name := range []string{"a", "b"} {
		f.options.Agents = append(f.options.Agents, Agent{Carrier: f.agents[name], Name: name, Descriptors: 1000})
	}
	return f
}

func (f *fleetTest) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	trial := r.Context().Value(trialKey{}).(int)
	if f.seen[trial]++; f.seen[trial] == 1 {
		for _, name := range strings.Fields(f.loses[trial]) {
			f.agents[name].lose()
		}
	}
}

// check holds the trials of a folder against a text: for each, its round and who carried it, or "void". Those that
// count have the whole load, and the server has seen it.
func (f *fleetTest) check(t *testing.T, want string) *rundir.Folder {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	folder := open(t, f.options.Dir)
	var got []string
	for _, x := range folder.Trials {
		by := ""
		for _, p := range x.Placed {
			by += p.Agent
		}
		for _, a := range x.Agents {
			by += a.Name
			if a.Share != 1/float64(len(x.Agents)) {
				t.Errorf("trial %d: %+v", x.Number, a)
			}
		}
		switch {
		case x.Fault == rundir.FaultAgent:
			by = "void"
			if x.Complete || x.IsMeasured() || x.Interrupted || x.Counts.Sent > 0 || !strings.Contains(x.Error, "ended: ") {
				t.Errorf("trial %d: complete %v, %d sent, %s", x.Number, x.Complete, x.Counts.Sent, x.Error)
			}
		case !x.Complete:
			by = "failed"
		case x.Counts.OK != fleetRequests || x.Counts.Sent != fleetRequests || f.seen[x.Number] != fleetRequests:
			t.Errorf("trial %d: %d requests are good, and the server has seen %d: want %d", x.Number, x.Counts.OK, f.seen[x.Number], fleetRequests)
		}
		got = append(got, fmt.Sprint(x.Round, by))
	}
	if text := strings.Join(got, " "); text != want {
		t.Errorf("trials: %s, want %s", text, want)
	}
	return folder
}

// A trial whose agent is lost is void. Its round is measured again as a whole, by the agents that are there.
func TestAgentLost(t *testing.T) {
	for name, test := range map[string]struct {
		rounds int
		loses  map[int]string
		backAt int // of b
		want   string
	}{
		"for good":     {3, map[int]string{2: "b"}, 0, "1ab 1void 1a 1a 2a 2a 3a 3a"},
		"back at once": {3, map[int]string{2: "b"}, 1, "1ab 1void 1ab 1ab 2ab 2ab 3ab 3ab"},
		"back later":   {3, map[int]string{1: "b"}, 3, "1void 1a 1a 2a 2a 3ab 3ab"},
		"twice":        {4, map[int]string{1: "b", 4: "b"}, 1, "1void 1ab 1ab 2void 2a 2a 3a 3a 4a 4a"},
		"at the end":   {3, map[int]string{6: "b"}, 0, "1ab 1ab 2ab 2ab 3ab 3void 3a 3a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, test.rounds)
			f.loses, f.agents["b"].backAt = test.loses, test.backAt
			if err := Run(t.Context(), f.experiment, f.options); err != nil {
				t.Fatal(err)
			}
			if folder := f.check(t, test.want); !folder.Complete() || folder.Run.Rounds != test.rounds {
				t.Errorf("%d rounds, %v", folder.Run.Rounds, folder.Incomplete)
			}
			l := f.options.Watcher.(*log)
			if last := l.planned[len(l.planned)-1]; last.Number != last.Of {
				t.Errorf("the last trial is %d of %d", last.Number, last.Of)
			}
		})
	}
}

// A trial is void, too, if the agent is lost that has its target or a service. These wait for it to come back.
func TestHostLost(t *testing.T) {
	for name, test := range map[string]struct {
		target, service string
		alone           bool // this machine carries the load
		want, trials    string
	}{
		"target":                {`, agent: "role=target", start: [sleep, 1h], ready: none`, "", true, "role=target", "1c 1void 1c 1c 2c 2c"},
		"target of other loads": {`, agent: "role=target", start: [sleep, 1h], ready: none`, "", false, "role=target", "1cab 1void 1cab 1cab 2cab 2cab"},
		"target that runs":      {`, agent: "role=target"`, "", true, "role=target", "1c 1void 1c 1c 2c 2c"},
		"service":               {"", `services: {s: {agent: "role=service", start: [sleep, 1h], ready: none}}`, true, "role=service", "1c 1void 1c 1c 2c 2c"},
	} {
		for _, back := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " is back: ", back), func(t *testing.T) {
				f := newFleet(t, 2, test.target, test.service)
				h := &testHost{T: t}
				f.agents["c"], f.loses = &h.testAgent, map[int]string{2: "c"}
				f.options.Hosts = map[string]Host{test.want: {Machine: h, Recoverable: h, Name: "c", Address: "127.0.0.1:1"}}
				if test.alone {
					f.options.Agents = nil
				}
				if back {
					h.backAt = 1
				}
				err := Run(t.Context(), f.experiment, f.options)
				if !back {
					if _, ok := errors.AsType[*AgentsError](err); !ok || err.Error() != "no agent is left for "+test.want+": it is gone" {
						t.Errorf("%v", err)
					}
					h.gone = false
					err = Resume(t.Context(), f.experiment, f.options)
				}
				if err != nil {
					t.Fatal(err)
				}
				if folder := f.check(t, test.trials); !folder.Complete() {
					t.Error(folder.Incomplete)
				}
			})
		}
	}
}

// A run that agents can no longer carry ends, and goes on when they are back. Finished measurements
// stay.
func TestAgentsGone(t *testing.T) {
	for name, test := range map[string]struct {
		rounds, descriptors int
		loses               map[int]string
		backAt              int // of a and b
		want, trials        string
		resumed             string
	}{
		"all": {3, 1000, map[int]string{3: "a b"}, 0,
			"no agent is left: it is gone; it is gone", "1ab 1ab 2void", "1ab 1ab 2void 2ab 2ab 3ab 3ab"},
		"too few": {3, 259, map[int]string{3: "b"}, 0, // enough for two of four connections
			"the agents that are left cannot carry the load: load: ", "1ab 1ab 2void 2failed", "1ab 1ab 2void 2failed 2ab 2ab 3ab 3ab"},
		"too often": {4, 1000, map[int]string{1: "b", 2: "a", 3: "b"}, 1,
			"this run measures again for that 2 times at most", "1void 1void 1void", "1void 1void 1void 1ab 1ab 2ab 2ab 3ab 3ab 4ab 4ab"},
		"without rounds": {1, 1000, map[int]string{1: "b", 2: "a"}, 1,
			"this run measures again for that 1 times at most", "1void 1void", "1void 1void 1ab 1ab"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, test.rounds)
			f.loses = test.loses
			for i := range f.options.Agents {
				f.options.Agents[i].Descriptors = test.descriptors
			}
			for _, a := range f.agents {
				a.descriptors, a.backAt = test.descriptors, test.backAt
			}
			err := Run(t.Context(), f.experiment, f.options)
			if _, ok := errors.AsType[*AgentsError](err); !ok || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if folder := f.check(t, test.trials); folder.Complete() || folder.Run.Reason == nil {
				t.Errorf("%+v", folder.Run)
			}
			for _, a := range f.agents {
				a.gone = false
			}
			alone := f.options
			alone.Agents = nil
			if strings.HasPrefix(test.trials, "1ab") {
				if err := Resume(t.Context(), f.experiment, alone); err == nil || !strings.Contains(err.Error(), "agents carried the loads in the folder, and none does now") {
					t.Error(err)
				}
			}
			if err := Resume(t.Context(), f.experiment, f.options); err != nil {
				t.Fatal(err)
			}
			if folder := f.check(t, test.resumed); !folder.Complete() {
				t.Error(folder.Incomplete)
			}
		})
	}
}

// observed is the account of an agent that used some CPU time of a machine. Its CPUs had 20 s, and it
// saw the rest of their use as foreign.
func observed(boot string, own, foreign time.Duration) generator.Account {
	const all = 20.
	return generator.Account{
		Cost: &record.Result{Window: 10 * time.Second, Completed: 100, Process: record.CPUTime{User: own}}, Workers: 1, Share: 0.5,
		Observed: &generator.Observed{Boot: boot, CPUSeconds: new(all), Machine: rundir.Machine{ForeignShare: new(foreign.Seconds() / all)}},
	}
}

// rounded compares figures but for their rounding.
var rounded = cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })

// No part of a load counts another part on the same machine, or the target there, as foreign.
func TestForeignOnSharedMachines(t *testing.T) {
	accounts := []generator.Account{
		observed("here", 4*time.Second, 9*time.Second), // b used 2 s of them, and the target 5 s
		observed("here", 2*time.Second, 11*time.Second),
		observed("there", time.Second, 3*time.Second),
		observed("", time.Second, time.Second),
	}
	for there, want := range map[string][]float64{"here": {0.1, 0.1, 0.15, 0.05}, "": {0.35, 0.35, 0.15, 0.05}} {
		trial := &rundir.Trial{Target: rundir.Target{CPUSeconds: new(5.)}}
		for _, of := range accounts {
			trial.Agents = append(trial.Agents, rundir.Agent{Machine: rundir.Machine{ForeignShare: new(*of.Observed.Machine.ForeignShare)}})
		}
		subtractOwnUse(trial, accounts, there)
		var got []float64
		for _, a := range trial.Agents {
			got = append(got, *a.Machine.ForeignShare)
		}
		if diff := cmp.Diff(want, got, rounded); diff != "" {
			t.Errorf("target at %q: %s", there, diff)
		}
	}
}

// The trial's generator is all agents: their memory, and the waits of the worst. How far apart they began is known up to
// the errors of two clocks.
func TestAgentsAreRecorded(t *testing.T) {
	r := &runner{agents: members([]Agent{{Name: "a"}, {Name: "b"}, {Name: "c"}})}
	accounts := []generator.Account{observed("x", time.Second, 0), observed("y", time.Second, 0), observed("z", time.Second, 0)}
	for i, wait := range []float64{0.1, 0.3, 0.2} {
		a := &accounts[i]
		a.Observed.Generator = rundir.Generator{RSSBytes: new(int64(5)), RunQueueWaitShare: &wait, TimeslicesPerSecond: new(100 * wait)}
		a.Observed.Machine.StealShare, a.Observed.ObserverCPU = new(wait/10), new(0.5)
		a.Late, a.Clock.Error = time.Duration(i)*time.Millisecond, time.Duration(3-i)*time.Millisecond
	}
	accounts[0].Observed.Unavailable = []rundir.Message{texts.Verbatim("no pressure")}
	accounts[2].Observed.Unavailable = []rundir.Message{texts.Verbatim("no pressure"), texts.Verbatim("no steal")}
	trial := &rundir.Trial{ObserverCPU: new(1.)}
	r.recordAgents(trial, &observation.Watch{}, accounts)
	want := rundir.Generator{RSSBytes: new(int64(15)), RunQueueWaitShare: new(0.3), TimeslicesPerSecond: new(30.), StealShare: new(0.03)}
	if diff := cmp.Diff(want, trial.Generator, rounded); diff != "" || *trial.ObserverCPU != 2.5 {
		t.Errorf("observing cost %v\n%s", *trial.ObserverCPU, diff)
	}
	// They began at 0 ± 3, 1 ± 2 and 2 ± 1 ms: from 6 ms apart to at once.
	if diff := cmp.Diff([]float64{2e-3, 4e-3}, []float64{*trial.StartSkew, *trial.StartSkewError}, rounded); diff != "" {
		t.Error(diff)
	}
	if a := trial.Agents[1]; a.Name != "b" || a.StartDeviation != 1e-3 || a.ClockError != 2e-3 || a.Work != 100 || *a.Generator.CPUSecondsPerRequest != 0.01 || *a.Generator.RunQueueWaitShare != 0.3 || a.Generator.Workers != 1 {
		t.Errorf("%+v", a)
	}
	var unavailable []string
	for _, m := range trial.Unavailable {
		unavailable = append(unavailable, m.English())
	}
	if diff := cmp.Diff([]string{"on agent a, c: no pressure", "on agent c: no steal"}, unavailable); diff != "" {
		t.Error(diff)
	}
	alone := &rundir.Trial{}
	r.recordAgents(alone, &observation.Watch{}, accounts[:1])
	if alone.StartSkew != nil || len(alone.Agents) != 1 {
		t.Errorf("one agent began %v apart from itself", *alone.StartSkew)
	}
}

// Events that the first agent publishes are late by as much as its clock may differ from another's.
func TestDeliveryError(t *testing.T) {
	accounts := make([]generator.Account, 3)
	for i := range accounts {
		accounts[i].Clock.Drifted = time.Duration(i+1) * time.Millisecond
	}
	for _, c := range []struct {
		accounts  int
		scheduled int64
		want      float64
	}{{1, 1, 0}, {2, 1, 3e-3}, {3, 1, 4e-3}, {3, 0, 0}} {
		trial := &rundir.Trial{Streams: &rundir.Streams{}, Counts: rundir.Counts{Scheduled: c.scheduled}}
		recordDeliveryError(trial, accounts[:c.accounts])
		if got := trial.Streams.DeliveryError; got != c.want {
			t.Errorf("%d agents, %d published: %v, want %v", c.accounts, c.scheduled, got, c.want)
		}
	}
}
