package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"dyno/experiments/subjects/measurement"

	"golang.org/x/sys/unix"
)

// Closed closes connections, waits, and counts those that the kernel still has. It does so in a network namespace of
// its own, which takes the right to make one. A connection that both sides have closed is in TIME_WAIT; one that the
// peer has not closed is in FIN_WAIT_2 (RFC 9293, 3.3.2; tcp_fin_timeout in tcp(7)).
//
// Figures: time_wait and fin_wait, the shares of connections of each kind that are left.
type Closed struct {
	FinTimeout int           `yaml:"fin_timeout" range:"1..120" default:"60" doc:"tcp_fin_timeout in seconds"`
	Wait       time.Duration `yaml:"wait" range:"1us..10m" default:"8s" doc:"how long to wait"`
}

// closedEach is the number of connections of each kind.
const closedEach = 20

// The states in /proc/net/tcp.
const (
	finWait2 = "05"
	timeWait = "06"
)

// Run closes, waits and counts once.
func (c Closed) Run(ctx context.Context) (measurement.Result, error) {
	return onThread(func() (measurement.Result, error) { return c.count(ctx) })
}

func (c Closed) count(ctx context.Context) (measurement.Result, error) {
	if err := enterNamespace(map[string]int{"tcp_fin_timeout": c.FinTimeout}); err != nil {
		return nil, err
	}
	for i := range 2 * closedEach {
		near, far, err := silentPair()
		if err != nil {
			return nil, err
		}
		unix.Close(near)
		if i%2 == 0 {
			unix.Close(far)
		} else {
			defer unix.Close(far)
		}
	}
	select {
	case <-ctx.Done():
		return nil, interrupted(ctx)
	case <-time.After(c.Wait):
	}
	text, err := os.ReadFile("/proc/thread-self/net/tcp")
	if err != nil {
		return nil, fmt.Errorf("count connections: %w", err)
	}
	left := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if column := strings.Fields(line); len(column) > 3 {
			left[column[3]]++
		}
	}
	return measurement.Result{"time_wait": left[timeWait] / closedEach, "fin_wait": left[finWait2] / closedEach}, nil
}
