package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/registry"
)

// A cordon is when an agent was cordoned last, and how long after that it knew.
type cordon struct {
	start atomic.Int64 // ns since the program began
	took  atomic.Int64 // ns; 0: not yet
}

var began = time.Now()

// agents starts many agents and measures what they cost the control plane. The agents run until ctx ends, for
// loads to use them.
func agents(ctx context.Context, o options, stdout io.Writer) error {
	log := slog.New(slog.DiscardHandler)
	named := func(i int) string { return fmt.Sprintf("a%04d", i) }
	cordons := make([]cordon, o.agents)
	errs := make(chan error, o.agents)
	var registered, ended sync.WaitGroup
	before, err := o.reading(ctx)
	if err != nil {
		return err
	}
	registered.Add(o.agents)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i := range o.agents {
		ended.Go(func() {
			entered := sync.OnceFunc(registered.Done)
			defer entered()
			if err := live(ctx, o, named(i), log, &cordons[i], entered); err != nil {
				errs <- fmt.Errorf("%s: %w", named(i), err)
				stop()
			}
		})
	}
	err = func() error {
		registered.Wait()
		after, err := o.reading(ctx)
		if err != nil {
			return err
		}
		after.report(stdout, "register", before, o.agents)
		if before, err = o.reading(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(o.length):
		}
		if after, err = o.reading(ctx); err != nil {
			return err
		}
		after.report(stdout, "idle", before, o.agents)
		if err := cordonAll(ctx, o, named, cordons, stdout); err != nil {
			return err
		}
		fmt.Fprintln(stdout, "ready")
		<-ctx.Done()
		return nil
	}()
	stop()
	ended.Wait()
	close(errs)
	if first, failed := <-errs; failed {
		return first // what follows from it is no news
	}
	return err
}

// live has one agent register, and serve until ctx ends.
func live(ctx context.Context, o options, name string, log *slog.Logger, c *cordon, entered func()) error {
	config := agent.Defaults()
	config.Listen, config.Name, config.Version, config.Logger, config.Lines = "127.0.0.1:0", name, o.version, log, &agent.Lines{}
	config.Labels = map[string]string{"zone": name[len(name)-1:]}
	server, err := agent.New(ctx, config)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	go func() { served <- server.Serve(ctx) }()
	err = func() error {
		r, err := registry.Open(registry.Config{Namespace: registry.Fleet, Servers: []string{o.control}, Logger: log})
		if err != nil {
			return err
		}
		defer r.Close()
		m, err := r.Join(ctx, server.Info(), server.Addr().String(), "", func(t agent.Terms) {
			if t.Cordoned {
				c.took.Store(time.Since(began).Nanoseconds() - c.start.Load())
			}
			server.SetTerms(t)
		})
		if err != nil {
			return err
		}
		entered()
		return m.Keep(ctx)
	}()
	stop()
	return errors.Join(err, <-served)
}

// cordonAll cordons all agents, waits until all know, and lets them take parts again.
func cordonAll(ctx context.Context, o options, named func(int) string, cordons []cordon, stdout io.Writer) error {
	r, err := registry.Open(registry.Config{Namespace: registry.Fleet, Servers: []string{o.control}})
	if err != nil {
		return err
	}
	defer r.Close()
	set := func(cordoned bool) error {
		places := make(chan struct{}, o.atOnce)
		errs := make([]error, len(cordons))
		var setting sync.WaitGroup
		for i := range cordons {
			places <- struct{}{}
			setting.Go(func() {
				defer func() { <-places }()
				cordons[i].start.Store(time.Since(began).Nanoseconds())
				errs[i] = r.SetCordoned(ctx, named(i), cordoned)
			})
		}
		setting.Wait()
		return errors.Join(errs...)
	}
	before, err := o.reading(ctx)
	if err != nil {
		return err
	}
	if err := set(true); err != nil {
		return err
	}
	for i := range cordons {
		for cordons[i].took.Load() == 0 {
			if !sleep(ctx, time.Millisecond) {
				return context.Cause(ctx)
			}
		}
	}
	after, err := o.reading(ctx)
	if err != nil {
		return err
	}
	after.report(stdout, "cordon", before, o.agents)
	var took []int64
	for i := range cordons {
		took = append(took, cordons[i].took.Load())
	}
	slices.Sort(took)
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		fmt.Fprintf(stdout, "result: cordon.known_%s_ms %.2f\n", q.name, float64(took[int(q.at*float64(len(took)-1))])/1e6)
	}
	return set(false)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// A reading says what was used and exchanged up to a time.
type reading struct {
	at           time.Time
	control, own time.Duration // CPU time
	memory       int64         // of the control plane, in bytes
	messages     float64       // requests that the control plane has answered, and changes that it has sent to watches
}

// reading reads the control plane's process and metrics, and this process's time.
func (o options) reading(ctx context.Context) (r reading, err error) {
	r.at, r.own = time.Now(), ownCPU()
	if o.pid > 0 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", o.pid))
		if err != nil {
			return r, err
		}
		// The name, the second field, may have anything in it, and ends with the last ).
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		const user, system, resident = 14 - 3, 15 - 3, 24 - 3 // numbered from 1 in proc(5); the first here is the third
		var n [3]int64
		for i, f := range []int{user, system, resident} {
			if n[i], err = strconv.ParseInt(fields[f], 10, 64); err != nil {
				return r, err
			}
		}
		const tick = time.Second / 100 // USER_HZ
		r.control, r.memory = time.Duration(n[0]+n[1])*tick, n[2]*int64(os.Getpagesize())
	}
	if o.admin == "" {
		return r, nil
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.admin+"/metrics", nil)
	if err != nil {
		return r, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	for in := bufio.NewScanner(answer.Body); in.Scan(); {
		line := in.Text()
		end := max(strings.LastIndexByte(line, ' '), 0) // labels may have spaces
		name, value := line[:end], strings.TrimSpace(line[end:])
		if !strings.HasPrefix(name, "http_request_duration_seconds_count") && name != "control_push_offered_total" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return r, err
		}
		r.messages += n
	}
	return r, nil
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of itself, it does not fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report prints what a phase took.
func (r reading) report(stdout io.Writer, phase string, before reading, agents int) {
	took := r.at.Sub(before.at).Seconds()
	for _, of := range []struct {
		name   string
		format string
		value  float64
	}{
		{"seconds", "%.2f", took},
		{"messages_per_second", "%.0f", (r.messages - before.messages) / took},
		{"messages_per_agent", "%.2f", (r.messages - before.messages) / float64(agents)},
		{"control_cpu", "%.3f", (r.control - before.control).Seconds() / took},
		{"control_mib", "%.0f", float64(r.memory) / (1 << 20)},
		{"agents_cpu", "%.3f", (r.own - before.own).Seconds() / took},
	} {
		fmt.Fprintf(stdout, "result: %s.%s "+of.format+"\n", phase, of.name, of.value)
	}
}
