// Package kubernetes runs the agents of one load as a Job of Kubernetes. It makes manifests, asks the cluster by
// kubectl, forwards ports to the pods, and removes everything after the load.
//
// Kubernetes does the rest: it places the pods, replaces those that are lost, and deletes the Job's Secret and pods
// with the Job. If dyno is killed, the agents hear no coordinator, and end; then the Job ends, and its time to live.
package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dyno/lab/fleet"
	"dyno/lab/fleet/identity"
)

// The times of a Job.
const (
	pollPeriod     = time.Second      // between looks at its pods
	pingPeriod     = 20 * time.Second // of each agent, which ends after idleTimeout without a request
	refusalGrace   = 10 * time.Second // for pods of an earlier load that end, until a refusal of others counts
	replaceTimeout = 30 * time.Second // for another pod of an agent
	removeTimeout  = 30 * time.Second
	atOnce         = 16 // ports that are opened, and agents that are asked, at the same time
)

// MaxAgents bounds a Job: each agent has a kubectl of its own here.
const MaxAgents = 100

// Config says which agents run where.
type Config struct {
	Agents    int
	Image     string
	Namespace string // empty: that of the context
	Context   string // of kubectl's configuration; empty: the current one
	CPU       string // a quantity: what an agent gets, and at most
	Memory    string
	Timeout   time.Duration // until all agents are ready
}

// A Job runs agents.
type Job struct {
	config    Config
	kubectl   *kubectl
	name      string
	namespace string
	member    *identity.Member // who this process is to the agents
	inPod     bool             // this process reaches pods by their addresses
	agents    []*agent
	stopPings func()
	pinging   sync.WaitGroup

	listing sync.Mutex // guards what follows
	pods    []pod
	listed  time.Time
}

// An agent is one index of the Job.
type agent struct {
	name string // the beginning of the names of its pods

	mu      sync.Mutex // guards what follows
	address string     // empty: it was never ready
	pod     string     // that the port is forwarded to
	forward *forward   // nil: the address is the pod's
}

// Start starts a Job, and waits until all agents can be reached. If that fails, it removes what it has made. The
// function report gets what happens.
func Start(ctx context.Context, c Config, report func(string)) (_ *Job, err error) {
	k, err := find(&c)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 4)
	_, _ = rand.Read(id) // documented to never fail
	j := &Job{config: c, kubectl: k, name: "dyno-" + hex.EncodeToString(id)}
	j.inPod = os.Getenv("KUBERNETES_SERVICE_HOST") != "" && os.Getenv("KUBECONFIG") == "" && c.Context == ""
	members, err := j.makeMembers()
	if err != nil {
		return nil, err
	}
	pings, stop := context.WithCancel(context.WithoutCancel(ctx)) // results are fetched after an interruption
	j.stopPings = stop
	defer func() {
		if err == nil {
			return
		}
		if failed := j.Remove(ctx); j.namespace != "" { // the Job was made
			err = errors.Join(err, failed)
		}
	}()
	if err := j.create(ctx, members); err != nil {
		return nil, err
	}
	report(fmt.Sprintf("%d agents start as the Job %s in the namespace %s of Kubernetes", c.Agents, j.name, j.namespace))
	j.pinging.Go(func() { j.ping(pings) })
	if err := j.await(ctx); err != nil {
		return nil, err
	}
	_, err = k.run(ctx, nil, "patch", "job", j.name, "--type=merge", fmt.Sprintf(`--patch={"spec":{"activeDeadlineSeconds":%d}}`, int(lifetime.Seconds())))
	return j, err
}

// makeMembers makes a fleet of its own, and returns the agents' keys and certificates. No other process has the
// authority's key, which is deleted.
func (j *Job) makeMembers() (members [][]byte, err error) {
	folder, err := os.MkdirTemp("", "dyno-fleet-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	authority, err := identity.Open(folder)
	if err != nil {
		return nil, err
	}
	if j.member, err = authority.Member(j.name, identity.Coordinator); err != nil {
		return nil, err
	}
	for i := range j.config.Agents {
		a := &agent{name: fmt.Sprintf("%s-%d", j.name, i)}
		m, err := authority.Member(a.name, identity.Agent)
		if err != nil {
			return nil, err
		}
		pem, err := m.PEM()
		if err != nil {
			return nil, err
		}
		members = append(members, pem)
		j.agents = append(j.agents, a)
	}
	return members, nil
}

// create makes the Job and its Secret.
func (j *Job) create(ctx context.Context, members [][]byte) error {
	made, err := j.kubectl.run(ctx, jobManifest(j.name, &j.config), "create", "--filename=-", "--output=json")
	if err != nil {
		return err
	}
	var job struct {
		Metadata struct{ UID, Namespace string }
	}
	if err := json.Unmarshal(made, &job); err != nil {
		return fmt.Errorf("kubectl create: %w", err)
	}
	j.namespace = job.Metadata.Namespace
	secret, err := secretManifest(j.name, job.Metadata.UID, members)
	if err == nil {
		_, err = j.kubectl.run(ctx, secret, "create", "--filename=-", "--output=name")
	}
	return err
}

// await waits until all agents can be reached.
func (j *Job) await(ctx context.Context) error {
	begin := time.Now()
	for {
		all, err := j.list(ctx)
		if err != nil {
			return err
		}
		ready, err := j.reachAll(ctx, all)
		if err != nil || ready == len(j.agents) {
			return err
		}
		waited := time.Since(begin)
		of, affected := worst(all)
		if refused := len(all) < len(j.agents) && waited > refusalGrace; !of.final && (refused || of.text == "" && waited > j.config.Timeout) {
			last, err := j.lastEvent(ctx)
			if err != nil {
				return err
			}
			if last.final || of.text == "" {
				of, affected = last, len(j.agents)-len(all)
			}
		}
		if of.final || waited > j.config.Timeout {
			text := fmt.Sprintf("%d of %d agents are ready after %v", ready, len(j.agents), waited.Round(time.Second))
			if of.text != "" {
				text += fmt.Sprintf("; of %d, Kubernetes reports %s", max(affected, 1), clip(of.text))
			}
			return &Error{text, cmp.Or(of.hint, "kubectl get events shows more; --kubernetes-timeout waits longer")}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollPeriod):
		}
	}
}

// clip bounds a text of Kubernetes, and has it in one line.
func clip(text string) string {
	const most = 500
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(r)
}

// list returns the Job's pods, as they were at most pollPeriod ago.
func (j *Job) list(ctx context.Context) ([]pod, error) {
	j.listing.Lock()
	defer j.listing.Unlock()
	if time.Since(j.listed) < pollPeriod {
		return j.pods, nil
	}
	text, err := j.kubectl.run(ctx, nil, "get", "pods", "--selector=job-name="+j.name, "--output=json")
	if err != nil {
		return nil, err
	}
	if j.pods, err = parsePods(text); err == nil {
		j.listed = time.Now()
	}
	return j.pods, err
}

func (j *Job) lastEvent(ctx context.Context) (problem, error) {
	text, err := j.kubectl.run(ctx, nil, "get", "events", "--field-selector=type=Warning", "--sort-by=.metadata.creationTimestamp", "--output=json")
	if err != nil {
		return problem{}, err
	}
	return lastEvent(text, j.name)
}

// reachAll has this process reach all agents that are ready, and returns how many these are.
func (j *Job) reachAll(ctx context.Context, all []pod) (int, error) {
	failed := make([]error, len(j.agents))
	var ready atomic.Int64
	j.each(func(i int, a *agent) {
		if p := readyPod(all, i); p != nil {
			_, failed[i] = j.reach(ctx, a, p)
			ready.Add(1)
		}
	})
	return int(ready.Load()), errors.Join(failed...)
}

// each calls a function for all agents, for some of them at the same time.
func (j *Job) each(do func(i int, a *agent)) {
	places := make(chan struct{}, atOnce)
	var doing sync.WaitGroup
	for i, a := range j.agents {
		doing.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			do(i, a)
		})
	}
	doing.Wait()
}

// readyPod returns the pod of an agent that is ready; nil: there is none.
func readyPod(all []pod, i int) *pod {
	for n := range all {
		if p := &all[n]; p.index() == strconv.Itoa(i) && p.isReady() {
			return p
		}
	}
	return nil
}

// reach returns an agent's address in a pod.
func (j *Job) reach(ctx context.Context, a *agent, p *pod) (address string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case j.inPod:
		a.address = net.JoinHostPort(p.Status.PodIP, strconv.Itoa(port))
		return a.address, nil
	case a.pod == p.Metadata.Name && a.forward.isOpen():
		return a.address, nil
	case a.forward != nil:
		a.forward.close()
	}
	a.pod, a.forward = p.Metadata.Name, j.kubectl.forward(ctx, p.Metadata.Name)
	a.address, err = a.forward.wait(ctx)
	return a.address, err
}

// ping has each agent hear a coordinator, until ctx ends.
func (j *Job) ping(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pingPeriod):
		}
		j.each(func(_ int, a *agent) {
			a.mu.Lock()
			address := a.address
			a.mu.Unlock()
			if address != "" {
				_, _ = fleet.Parts(ctx, j.member, address) // a load notices an agent that is lost
			}
		})
	}
}

// Member returns who this process is to the agents.
func (j *Job) Member() *identity.Member { return j.member }

// Addresses returns where the agents are reached, by their index.
func (j *Job) Addresses() (all []string) {
	for _, a := range j.agents {
		a.mu.Lock()
		all = append(all, a.address)
		a.mu.Unlock()
	}
	return all
}

// Locate returns the present address of an agent that was lost. It waits for a pod that replaces the agent's. A pod that
// is deleted may be listed as ready for a moment.
func (j *Job) Locate(ctx context.Context, name string) (address string, err error) {
	i := slices.IndexFunc(j.agents, func(a *agent) bool { return a.name == name })
	if i < 0 {
		return "", fmt.Errorf("no agent is called %s", name)
	}
	for begin := time.Now(); ; {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(pollPeriod):
		}
		all, err := j.list(ctx)
		if err == nil {
			err = errors.New("no pod is ready")
			if p := readyPod(all, i); p != nil {
				address, err = j.reach(ctx, j.agents[i], p)
			}
		}
		if err == nil || time.Since(begin) > replaceTimeout {
			return address, err
		}
	}
}

// Remove deletes the Job, with its pods and its Secret. It does not wait until they have ended.
func (j *Job) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	_, err := j.kubectl.run(ctx, nil, "delete", "job", j.name, "--ignore-not-found", "--wait=false", "--cascade=background")
	j.stopPings()
	j.pinging.Wait()
	for _, a := range j.agents {
		a.mu.Lock()
		if a.forward != nil {
			a.forward.close()
		}
		a.mu.Unlock()
	}
	if err != nil {
		err = fmt.Errorf("the Job %s was not removed, and ends by itself in %v: %w", j.name, idleTimeout, err)
	}
	return err
}
