package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// times are durations from several goroutines.
type times struct {
	mu   sync.Mutex // guards what follows
	list []time.Duration
}

func (t *times) add(d time.Duration) {
	t.mu.Lock()
	t.list = append(t.list, d)
	t.mu.Unlock()
}

// into adds the quantiles, in seconds, to figures.
func (t *times) into(figures map[string]float64, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.list)
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}} {
		figures[name+"_"+q.name+"_seconds"] = quantile(t.list, q.q).Seconds()
	}
}

// quantile is the smallest value that a share q of all do not exceed; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	n := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(n, 0), len(sorted)-1)]
}

// A usage is what a process has used.
type usage struct {
	cpu   time.Duration
	bytes float64 // resident
}

// used reads /proc; of process 0 it is nothing.
func used(pid int) (u usage, err error) {
	if pid == 0 {
		return u, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// The name, the second field, may have anything in it, and ends with the last ).
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, resident = 14 - 3, 15 - 3, 24 - 3 // numbered from 1 in proc(5); the first here is the third
	if len(fields) <= resident {
		return u, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	var n [3]int64
	for i, f := range []int{user, system, resident} {
		if n[i], err = strconv.ParseInt(fields[f], 10, 64); err != nil {
			return u, err
		}
	}
	const tick = time.Second / 100 // USER_HZ
	return usage{time.Duration(n[0]+n[1]) * tick, float64(n[2]) * float64(os.Getpagesize())}, nil
}
