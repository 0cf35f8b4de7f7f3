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

	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/results/rundir"
)

// A testAgent has processes on this machine.
type testAgent struct {
	mu      sync.Mutex // guards what follows
	running generator.Process
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
	var err error
	a.running, err = generator.Local{}.Start(ctx)
	return a.running, err
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

// trialKey is that of the trial in the context of a connection. What an ended process has sent may be read late.
type trialKey struct{}

// newFleet returns an experiment of two variants and a number of rounds.
func newFleet(t *testing.T, rounds int) *fleetTest {
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
target: {protocol: http, url: "%s/{{path}}"}
load: {closed: {connections: 4}, warmup: 0, requests: %d}
design: {rounds: %d, seed: 5, control: false}
compare: {base: x, variants: {x: {path: x}, y: {path: y}}}
`, server.URL, fleetRequests, rounds))
	f.options = options(t, &log{begun: func(p Planned) {
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
		for _, a := range x.Agents {
			by += a.Name
			if a.Share != 1/float64(len(x.Agents)) {
				t.Errorf("trial %d: %+v", x.Number, a)
			}
		}
		switch {
		case x.Fault == rundir.FaultAgent:
			by = "void"
			if x.Complete || x.IsMeasured() || x.Interrupted || !strings.Contains(x.Error, "carries a part of the load: its reports ended") {
				t.Errorf("trial %d: complete %v, %s", x.Number, x.Complete, x.Error)
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
		loses  map[int]string
		backAt int // of b
		want   string
	}{
		"for good":     {map[int]string{2: "b"}, 0, "1ab 1void 1a 1a 2a 2a 3a 3a 4a 4a"},
		"back at once": {map[int]string{2: "b"}, 1, "1ab 1void 1ab 1ab 2ab 2ab 3ab 3ab 4ab 4ab"},
		"back later":   {map[int]string{1: "b"}, 3, "1void 1a 1a 2a 2a 3ab 3ab 4ab 4ab"},
		"twice":        {map[int]string{1: "b", 4: "b"}, 1, "1void 1ab 1ab 2void 2a 2a 3a 3a 4a 4a"},
		"at the end":   {map[int]string{8: "b"}, 0, "1ab 1ab 2ab 2ab 3ab 3ab 4ab 4void 4a 4a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 4)
			f.loses, f.agents["b"].backAt = test.loses, test.backAt
			if err := Run(t.Context(), f.experiment, f.options); err != nil {
				t.Fatal(err)
			}
			if folder := f.check(t, test.want); !folder.Complete() || folder.Run.Rounds != 4 {
				t.Errorf("%d rounds, %v", folder.Run.Rounds, folder.Incomplete)
			}
			l := f.options.Watcher.(*log)
			if last := l.planned[len(l.planned)-1]; last.Number != last.Of {
				t.Errorf("the last trial is %d of %d", last.Number, last.Of)
			}
		})
	}
}

// A run that agents can no longer carry ends, and goes on when they are back. What was measured stays.
func TestAgentsGone(t *testing.T) {
	for name, test := range map[string]struct {
		rounds, descriptors int
		loses               map[int]string
		backAt              int // of a and b
		want, trials        string
		resumed             string
	}{
		"all": {4, 1000, map[int]string{3: "a b"}, 0,
			"no agent is left: it is gone; it is gone", "1ab 1ab 2void", "1ab 1ab 2void 2ab 2ab 3ab 3ab 4ab 4ab"},
		"too few": {4, 259, map[int]string{3: "b"}, 0, // enough for two of four connections
			"the agents that are left cannot carry the load: load: ", "1ab 1ab 2void 2failed", "1ab 1ab 2void 2failed 2ab 2ab 3ab 3ab 4ab 4ab"},
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
