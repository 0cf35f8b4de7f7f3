package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dyno/internal/leak"
)

// Settings, by environment.
const (
	settingFaults = "FAULTS" // how many of each kind
	settingKinds  = "KINDS"  // which kinds
	settingSeed   = "SEED"
	settingLayout = "LAYOUT" // within: each replica has a member in its process; apart: members are processes of their own
	alone         = "DYNO_TEST_FAULTS_ALONE"
)

func TestMain(m *testing.M) {
	if as := os.Getenv(role); as != "" {
		os.Exit(play(as))
	}
	leak.Main(m)
}

// setting reads one.
func setting(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// TestFaults injects machine faults into three replicas and three members of etcd, while clients read and write.
// Acknowledged writes survive, one order explains all responses, and watchers miss nothing. bench/control-faults.sh
// has more of it.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: kills processes again and again")
	}
	if os.Getenv(alone) == "" && os.Geteuid() == 0 && isolate(t) {
		return
	}
	each, err := strconv.Atoi(setting(settingFaults, "1"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(setting(settingSeed, strconv.Itoa(os.Getpid())), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	layout := setting(settingLayout, "within")
	if layout != "within" && layout != "apart" {
		t.Fatalf("%s: %q: must be within or apart", settingLayout, layout)
	}
	isolated := os.Getenv(alone) != ""
	var found []string
	t.Cleanup(func() { // behind what the processes say, where a reader of the end finds it
		for _, f := range found[:min(3, len(found))] {
			first, _, _ := strings.Cut(f, "\n")
			t.Log(first)
		}
	})
	c := newCluster(t, layout == "apart", isolated)
	where := "each process in a network namespace"
	if !isolated {
		where = "on loopback"
	}
	t.Logf("three replicas, members of etcd %s, %s, seed %d", map[string]string{"within": "within them", "apart": "apart from them"}[layout], where, seed)
	found = endure(t, c, each, strings.Fields(setting(settingKinds, strings.Join(kinds, " "))), seed)
}

// isolate runs the test in a process with its own network and mounts, so that nothing of them remains. It returns
// false where that is not permitted.
func isolate(t *testing.T) bool {
	t.Helper()
	runtime.LockOSThread() // the kernel kills the process when its parent's thread ends
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFaults$", "-test.v", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), alone+"=yes")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET, Unshareflags: syscall.CLONE_NEWNS}
	err := cmd.Run()
	switch {
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL):
		t.Log("namespaces are not permitted here, not even to root: ", err)
		return false
	case err != nil:
		t.Error(err)
	}
	return true
}

// takeover is more than the time after which replicas share the checks of one that is silent. Some faults of long runs
// last longer by it.
const takeover = 5 * time.Second

// endure is the test. It returns the faults that it has reported.
func endure(t *testing.T, c *cluster, each int, kinds []string, seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	l := newLoad(t, c, seed)
	loading, stopLoading := context.WithCancel(t.Context())
	watching, stopWatching := context.WithCancel(t.Context())
	var clientsEnd, watchersEnd sync.WaitGroup
	defer watchersEnd.Wait()
	defer stopWatching()
	defer clientsEnd.Wait()
	defer stopLoading()
	for n := range clients {
		clientsEnd.Go(func() { l.client(loading, n) })
	}
	checks, policies := newCheckLoad(t, c, l), newPolicyLoad(c, l)
	checks.register(t.Context(), c)
	policies.register(t.Context())
	for n := range size {
		watchersEnd.Go(func() { checks.watch(watching, n) })
	}
	for n := range subscribers {
		watchersEnd.Go(func() { policies.subscriber(watching, n) })
	}
	clientsEnd.Go(func() { checks.flip(loading) })
	for n := range policyWriters {
		clientsEnd.Go(func() { policies.writer(loading, n) })
	}
	locks := newLockLoad(l)
	for n := range lockClients {
		clientsEnd.Go(func() { locks.client(loading, n) })
	}
	for n := range watchers {
		watchersEnd.Go(func() { l.watcher(watching, n) })
	}
	if !l.awaitWrites(t.Context()) {
		t.Fatal("the cluster does not begin")
	}
	t.Logf("all clients write after %v", time.Since(l.start).Round(time.Millisecond))

	var plan []string
	counts := map[string]int{}
	for _, kind := range kinds {
		if why := c.possible(kind); why != "" {
			t.Logf("without %s: %s", kind, why)
			continue
		}
		for range each {
			plan = append(plan, kind)
		}
	}
	random.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	var recoveries []time.Duration
	for len(plan) > 0 {
		harms := []harm{c.harm(plan[0], random)}
		if len(plan) > 1 && plan[1] != plan[0] && random.IntN(4) == 0 {
			harms = append(harms, c.harm(plan[1], random))
		}
		plan = plan[len(harms):]
		for _, h := range harms {
			if each > 1 && h.lasts > 0 && random.IntN(4) == 0 {
				h.lasts += takeover
			}
			counts[h.kind]++
			if err := h.begin(); err != nil {
				t.Fatalf("%s: %v", h.what, err)
			}
			pause(t.Context(), h.lasts)
		}
		var what []string
		for _, h := range harms {
			what = append(what, h.what)
			if err := h.end(); err != nil {
				t.Fatalf("%s: %v", h.what, err)
			}
		}
		over := time.Now()
		ok := l.awaitWrites(t.Context())
		recoveries = append(recoveries, time.Since(over))
		if !ok {
			t.Fatalf("%s: not all clients go on within %v", strings.Join(what, "; "), time.Since(over))
		}
		if each > 1 { // a short run settles once, at its end
			if unsettled := checks.settle(t.Context(), l.now()); len(unsettled) > 0 {
				t.Fatalf("%s: %q", strings.Join(what, "; "), unsettled)
			}
		}
		if testing.Verbose() && os.Getenv(settingFaults) == "" {
			t.Logf("%s: all go on after %v", strings.Join(what, "; "), recoveries[len(recoveries)-1].Round(time.Millisecond))
		}
		select {
		case err := <-c.failed:
			t.Fatal(err)
		default:
		}
	}
	stopLoading()
	clientsEnd.Wait()
	calm := l.now()
	// Replicas may still send changes for this time after clients gave up.
	pause(t.Context(), storeTime)
	truth := l.end(t)
	if !l.await(t.Context(), func() bool { return l.caughtUp(truth) }) {
		t.Error("not all watchers know everything in the end")
	}
	policies.end(t.Context())
	unsettled := slices.Concat(checks.settle(t.Context(), calm), policies.settle(t.Context()))
	stopWatching()
	watchersEnd.Wait()
	began := time.Now()
	faults := judge(record{operations: l.operations, truth: truth, watches: l.watches}, time.Minute)
	faults = slices.Concat(faults, locks.wrong, judgeLocks(locks.steps, time.Minute),
		unsettled, judgeChecks(checks.looks, checks.targets[:]), policies.wrong, judgePolicies(policies.steps, policies.sights, time.Minute))
	took := time.Since(began)
	const most = 20
	found := slices.Concat(l.invalid, faults)
	for _, f := range found[:min(most, len(found))] {
		t.Error(f)
	}
	for _, n := range c.nodes {
		if n.ended() > 0 {
			t.Logf("%s was started again %d times", n.name, n.ended())
		}
	}
	summary(t, l, counts, recoveries)
	t.Logf("locks and counters: %d steps done, %d refused, %d of unknown fate, %d sessions ended", locks.fates[done], locks.fates[refused], locks.fates[unknown], locks.ended)
	t.Log(checks.summary())
	t.Log(policies.summary())
	t.Logf("%d faults found, %d odd answers, judged in %v", len(faults), len(l.invalid), took.Round(time.Millisecond))
	return found
}

// summary says what was done, and how it went.
func summary(t *testing.T, l *load, counts map[string]int, recoveries []time.Duration) {
	t.Helper()
	var reads, acknowledged, refusals, open, not int
	for _, o := range l.operations {
		switch {
		case o.value == "" && o.outcome == done:
			reads++
		case o.value == "":
		case o.outcome == done:
			acknowledged++
		case o.outcome == refused:
			refusals++
		case o.outcome == undone:
			not++
		default:
			open++
		}
	}
	var changes, connections, resyncs int
	for _, sights := range l.watches {
		for _, s := range sights {
			switch s.kind {
			case changed:
				changes++
			case started:
				connections++
			case resync:
				resyncs++
			}
		}
	}
	var done []string
	for _, kind := range kinds {
		if counts[kind] > 0 {
			done = append(done, fmt.Sprintf("%s %d", kind, counts[kind]))
		}
	}
	t.Logf("faults: %s", strings.Join(done, ", "))
	t.Logf("clients: %d reads, %d writes acknowledged, %d refused by their condition, %d not made, %d of unknown fate", reads, acknowledged, refusals, not, open)
	t.Logf("watchers: %d told, in %d connections, %d of them with a resync", changes, connections, resyncs)
	if len(recoveries) > 0 {
		slices.Sort(recoveries)
		t.Logf("all clients write again after the fault: median %v, at most %v", recoveries[len(recoveries)/2].Round(time.Millisecond), recoveries[len(recoveries)-1].Round(time.Millisecond))
	}
}
