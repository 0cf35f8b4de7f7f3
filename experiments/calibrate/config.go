package calibrate

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"dyno/experiments/disturb"
)

// The tables, in the order in which they are made.
const (
	Oracles = "oracles"
	Stalls  = "stalls"
	AA      = "aa"
	Power   = "power"
	Flags   = "flags"
	Explain = "explain"
	Noise   = "noise"
)

// Tables lists all tables.
func Tables() []string { return []string{Oracles, Stalls, Noise, AA, Power, Flags, Explain} }

// A Config says what to measure, and how long.
type Config struct {
	Program string   // dyno's own program, which is started for servers and limited generators
	Command []string // how the calibration was called, for the record
	Version string   // dyno's
	Only    []string // tables to make
	Raw     string   // folder for the raw data, which is made; empty: none are written

	Window  time.Duration // of an oracle
	Repeats int           // of the oracle that needs several, M/M/1
	Periods int           // of the freezing server, a second each

	Comparisons int           // how many
	Slow        []float64     // the planted slowdowns, shares
	Rounds      int           // of a comparison
	Warmup      time.Duration // of its trials
	Trial       time.Duration // their window
	Connections int           // closed loop
	// Work is the CPU time of a request. Much of it is the server's own computing,
	// which a neighbour on the same machine disturbs less than system calls.
	Work time.Duration

	NoiseRuns   int           // with a noise; those without come on top, one to three
	NoiseWindow time.Duration // of each
	NoiseRates  []float64     // stalls per second of each CPU, of which each run draws one
	Duet        bool          // the comparisons' servers are measured two at once
	// Noises are made during comparisons, in turn; empty: none.
	Noises []string
	Seed   uint64 // of noises and of the order of runs

	Awake bool // the CPUs are kept from halting: see package awake

	FlagTrials int           // for each kind of trouble and loop
	FlagWindow time.Duration // of each

	Explained     int           // runs, each of which explains two differences
	Hot           float64       // the planted function's share of the CPU time
	ProfileWindow time.Duration // of a profiled trial

	Progress io.Writer // a line for each step; nil: none
}

// Quick returns what takes some minutes.
func Quick() Config {
	return Config{
		Only: Tables(), Window: 3 * time.Second, Repeats: 3, Periods: 5,
		Comparisons: 10, Slow: []float64{0.05}, Rounds: 8, Warmup: 100 * time.Millisecond, Trial: 250 * time.Millisecond,
		Connections: 16, Work: time.Millisecond,
		FlagTrials: 5, FlagWindow: time.Second,
		NoiseRuns: 36, NoiseWindow: 2 * time.Second, NoiseRates: []float64{0.5, 2, 10}, Seed: 1,
		Explained: 3, Hot: 0.03, ProfileWindow: time.Second,
	}
}

// Long returns what takes some hours and is published.
func Long() Config {
	c := Quick()
	c.Window, c.Repeats, c.Periods = 20*time.Second, 20, 20
	c.Comparisons, c.Slow = 200, []float64{0.01, 0.02, 0.05, 0.10}
	c.FlagTrials, c.Explained, c.NoiseRuns = 100, 60, 200
	return c
}

// Validate reports every fault of the configuration, or nil.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("calibrate: "+format, args...)) }
	if c.Program == "" {
		fault("program: want dyno's own")
	}
	if len(c.Only) == 0 {
		fault("tables: want at least one of %s", strings.Join(Tables(), ", "))
	}
	for _, t := range c.Only {
		if !slices.Contains(Tables(), t) {
			fault("table %q: want one of %s", t, strings.Join(Tables(), ", "))
		}
	}
	for _, d := range []struct {
		name     string
		value    time.Duration
		min, max time.Duration
	}{
		{"window of an oracle", c.Window, 100 * time.Millisecond, time.Hour},
		{"warm-up of a comparison", c.Warmup, 0, time.Minute},
		{"window of a comparison", c.Trial, 100 * time.Millisecond, time.Hour},
		{"work of a request", c.Work, time.Microsecond, 10 * time.Millisecond},
		{"window of a flag's trial", c.FlagWindow, 100 * time.Millisecond, time.Hour},
		{"window of a noisy run", c.NoiseWindow, 100 * time.Millisecond, time.Hour},
		{"window of a profiled trial", c.ProfileWindow, 100 * time.Millisecond, time.Hour},
	} {
		if d.value < d.min || d.value > d.max {
			fault("%s: %v: want %v to %v", d.name, d.value, d.min, d.max)
		}
	}
	for _, n := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"repeats", c.Repeats, 2, 1000},
		{"periods of the freezing server", c.Periods, 1, 3600},
		{"comparisons", c.Comparisons, 1, 100_000},
		{"rounds", c.Rounds, 2, 1000},
		{"connections", c.Connections, 1, 10_000},
		{"trials for each flag", c.FlagTrials, 1, 100_000},
		{"noisy runs", c.NoiseRuns, 1, 100_000},
		{"explained runs", c.Explained, 1, 100_000},
	} {
		if n.value < n.min || n.value > n.max {
			fault("%s: %d: want %d to %d", n.name, n.value, n.min, n.max)
		}
	}
	if len(c.Slow) == 0 && slices.Contains(c.Only, Power) {
		fault("slowdowns: want at least one")
	}
	for _, n := range c.Noises {
		if !slices.Contains(Noises(), n) {
			fault("noise %q: want one of %s", n, strings.Join(Noises(), ", "))
		}
	}
	if len(c.NoiseRates) == 0 {
		fault("rates of stalls: want at least one")
	}
	most := disturb.MaxShare / ((shortestStall + longestStall).Seconds() / 2)
	for _, r := range c.NoiseRates {
		if !(r > 0 && r <= most) {
			fault("%v stalls per second: want more than 0 and at most %.4g", r, most)
		}
	}
	if !(c.Hot > 0 && c.Hot <= 0.5) {
		fault("hot function: %v: want more than 0 and at most 50 %%", c.Hot)
	}
	seen := map[float64]bool{}
	for _, s := range c.Slow {
		if !(s > 0 && s <= 1) {
			fault("slowdown %v: want more than 0 and at most 100 %%", s)
		}
		if seen[s] {
			fault("slowdown %v: is listed twice", s)
		}
		seen[s] = true
	}
	return errors.Join(faults...)
}
