//go:build unix

package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dyno/internal/pipes"
	"dyno/internal/roles"
	"dyno/lab/fleet/agent"
	"dyno/lab/generator"
	"dyno/lab/remote"
)

// A process is an agent in a process of its own.
type process struct {
	*exec.Cmd
	address string
	log     *os.File // standard error, which the agent's processes have, too: it ends when all of them have ended
}

// startProcess starts an agent, at an address if it is named, and of a version.
func startProcess(t *testing.T, name string, at ...string) *process {
	t.Helper()
	log, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: roles.Command(append([]string{"agent", name}, at...)...), log: log}
	p.Stderr = inherited
	output, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = inherited.Close()
	if _, err := fmt.Fscanln(output, &p.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end(t) })
	return p
}

// end kills the agent, and waits until no process of it is left.
func (p *process) end(t *testing.T) {
	t.Helper()
	if p.ProcessState != nil {
		return
	}
	_ = p.Process.Kill()
	_ = p.Wait() // it was killed
	if said, err := io.ReadAll(p.log); err != nil || len(said) > 0 {
		t.Errorf("%q, %v", said, err)
	}
	_ = p.log.Close()
}

// agents connects to agents. Those but the first are lost after a second of silence.
func agents(t *testing.T, addresses ...string) []*Agent {
	t.Helper()
	all, err := Connect(t.Context(), "v1", nil, addresses...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all[1:] {
		a.Silence = time.Second
	}
	return all
}

// asked asks the agents whether they carry parts, and returns those that do.
func asked(t *testing.T, all []*Agent) (by []generator.Carrier, descriptors []int, refused []error) {
	t.Helper()
	for _, a := range all {
		_, n, err := a.Ask(t.Context())
		if err != nil {
			refused = append(refused, err)
			continue
		}
		by, descriptors = append(by, a), append(descriptors, n)
	}
	return by, descriptors, refused
}

// breakOff runs a long load, and does something as soon as it has begun. The load must be lost by that. Its server goes on
// to see what is sent to it.
func breakOff(t *testing.T, all []*Agent, happens func()) (*journal, error) {
	t.Helper()
	var happened atomic.Bool
	j := &journal{onSeen: sync.OnceFunc(func() {
		happens()
		happened.Store(true)
	})}
	server := httptest.NewServer(j)
	t.Cleanup(server.Close)
	for {
		by, descriptors, refused := asked(t, all)
		if refused != nil {
			t.Fatal(refused)
		}
		_, _, _, err := carry(t, server.URL, "1h", by, descriptors)
		if _, lost := errors.AsType[*generator.LostError](err); !lost {
			t.Errorf("%v is no loss", err)
		}
		if happened.Load() || t.Failed() {
			return j, err
		} // otherwise this machine was silent for a second before that
	}
}

// patient has no agent be lost for a silence of this machine from now on.
func patient(all []*Agent) {
	for _, a := range all {
		a.Silence = DefaultSilence
	}
}

// carryRest has the agents that are there carry a whole load. Nobody may go on with the one that was broken off.
func carryRest(t *testing.T, all []*Agent, broken *journal) {
	t.Helper()
	by, descriptors, refused := asked(t, all)
	if len(by) != 1 || len(refused) != 1 {
		t.Fatal(by, refused)
	}
	patient(all)
	broken.taken()
	carryWhole(t, by, descriptors)
	if late := broken.taken(); len(late) > 0 {
		t.Errorf("%d requests of a load that was broken off, while another ran", len(late))
	}
}

// An agent that is killed in the middle of a load makes it fail, and leaves no process. Then the others carry the whole
// load; and so do all, once it has started again.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	lost := startProcess(t, "lost")
	all := agents(t, start(t, config("kept")), lost.address)
	j, err := breakOff(t, all, func() { _ = lost.Process.Kill() })
	if want := fmt.Sprintf("agent lost (%s), which carries a part of the load: ", lost.address); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
	lost.end(t)
	carryRest(t, all, j)
	startProcess(t, "lost", lost.address, "v1")
	by, descriptors, refused := asked(t, all)
	if len(by) != 2 {
		t.Fatal(refused)
	}
	carryWhole(t, by, descriptors)
}

// A part of an agent that is stopped has ended before others carry the whole load: it hears nothing of dyno. The agent
// carries parts again when it goes on.
func TestAgentSuspended(t *testing.T) {
	t.Parallel()
	lost := startProcess(t, "lost")
	all := agents(t, start(t, config("kept")), lost.address)
	j, err := breakOff(t, all, func() { _ = lost.Process.Signal(syscall.SIGSTOP) })
	if err == nil || !strings.Contains(err.Error(), "agent lost (") || !strings.HasSuffix(err.Error(), "it was silent for 1s") {
		t.Error(err)
	}
	carryRest(t, all, j)
	if err := lost.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	by, descriptors, refused := asked(t, all)
	if len(by) != 2 {
		t.Fatal(refused)
	}
	carryWhole(t, by, descriptors)
}

// An agent that cannot be reached any longer ends its part by itself.
func TestAgentCutOff(t *testing.T) {
	t.Parallel()
	lost := start(t, config("lost"))
	w, err := pipes.Lay(lost)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	all := agents(t, start(t, config("kept")), w.Addr())
	j, err := breakOff(t, all, w.Cut)
	if err == nil || !strings.HasSuffix(err.Error(), "it was silent for 1s") {
		t.Error(err)
	}
	carryRest(t, all, j)
	roles.Until(t, "the agent carries no part", func() bool {
		parts, err := Parts(t.Context(), nil, lost)
		return err == nil && parts == 0
	})
	w.Mend()
	by, descriptors, refused := asked(t, all)
	if len(by) != 2 {
		t.Fatal(refused)
	}
	carryWhole(t, by, descriptors)
}

// An agent that has started again elsewhere is found, once the parts where it was have ended.
func TestAgentMoved(t *testing.T) {
	t.Parallel()
	lost := startProcess(t, "lost")
	all := agents(t, start(t, config("kept")), lost.address)
	j, _ := breakOff(t, all, func() { _ = lost.Process.Signal(syscall.SIGSTOP) })
	elsewhere := start(t, config("lost"))
	all[1].Locate = func(context.Context) (string, error) { return elsewhere, nil }
	by, descriptors, refused := asked(t, all)
	if len(by) != 2 || all[1].Address != elsewhere {
		t.Fatal(by, refused)
	}
	patient(all)
	j.taken()
	carryWhole(t, by, descriptors)
	if late := j.taken(); len(late) > 0 {
		t.Errorf("%d requests of a load that was broken off, while another ran", len(late))
	}
}

// An agent that runs a target is waited for, since no other can take its place.
func TestAgentAwaited(t *testing.T) {
	lost := startProcess(t, "lost")
	a := agents(t, lost.address)[0]
	a.Awaited, a.Silence = true, roles.HangGuard
	p, err := remote.Open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	lost.end(t)
	<-p.Done()
	if _, of := errors.AsType[*generator.LostError](p.Err()); !of || p.Stop(t.Context()) == nil {
		t.Errorf("%v is no loss", p.Err())
	}
	answered := make(chan error, 1)
	go func() {
		_, _, err := a.Ask(t.Context())
		answered <- err
	}()
	startProcess(t, "lost", lost.address, "v1")
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// An agent that has started again carries parts only if it is the same, and takes them.
func TestAgentChanged(t *testing.T) {
	for _, test := range []struct{ name, version, want string }{
		{"a", "v2", "it is dyno v2 now: use the version of this machine, v1"},
		{"b", "v1", "it is called b now: give it the name that it had with --name"},
	} {
		p := startProcess(t, "a")
		a := agents(t, p.address)[0]
		p.end(t)
		startProcess(t, test.name, p.address, test.version)
		if _, _, err := a.Ask(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "agent a (") || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// An agent says whether it takes parts of who asks.
func TestAgentRefuses(t *testing.T) {
	s, address := startServer(t, config("a"))
	a := agents(t, address)[0]
	for _, test := range []struct {
		terms agent.Terms
		fence int64
		want  string
	}{
		{want: ""},
		{terms: agent.Terms{Cordoned: true}, want: "it is cordoned"},
		{terms: agent.Terms{Exclusive: true, Fence: 3}, want: "another run has the machine for itself"},
		{terms: agent.Terms{Exclusive: true, Fence: 3}, fence: 3, want: ""},
		{terms: agent.Terms{Exclusive: true, Fence: 4}, fence: 3, want: "another run has got the machine"},
	} {
		s.SetTerms(test.terms)
		a.Fence = test.fence
		_, _, err := a.Ask(t.Context())
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %s", test, err, test.want)
		}
	}
}
