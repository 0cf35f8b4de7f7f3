package calibrate

import (
	"fmt"
	"io"
	"slices"
	"time"

	"dyno/internal/fields"
)

// The tables, in the order in which they are made.
const (
	Search  = "search"
	Delays  = "delays"
	Oracles = "oracles"
	Stalls  = "stalls"
	AA      = "aa"
	Power   = "power"
	Flags   = "flags"
	Explain = "explain"
	Noise   = "noise"
)

// Tables lists all tables.
func Tables() []string {
	return []string{Search, Delays, Oracles, Stalls, Noise, AA, Power, Flags, Explain}
}

// A Config says what to measure, and how long. Fields with tags have flags.
type Config struct {
	Program string   // dyno's own program, which is started for servers and limited generators
	Command []string // how the calibration was called, for the record
	Version string   // dyno's
	Only    []string `yaml:"only" doc:"tables to make, of search, delays, oracles, stalls, noise, aa, power, flags and explain"`
	Raw     string   `yaml:"raw" otherwise:"with --long DOCS/calibration" doc:"folder for the raw data"`

	Window  time.Duration `yaml:"window" range:"100ms..1h" default:"3s" doc:"of an oracle; with --long 20s"`
	Repeats int           // of the oracle that needs several, M/M/1
	Periods int           // of the freezing server, a second each

	Comparisons int           `yaml:"comparisons" range:"1..100000" default:"10" doc:"runs for the tables aa and power; with --long 200"`
	Slow        []float64     `yaml:"slow" kind:"share" range:"0.01%..100%" doc:"planted slowdowns, such as 1%,2%,5%,10%"`
	Rounds      int           `yaml:"rounds" range:"2..1000" default:"8" doc:"of each of them"`
	Warmup      time.Duration // of its trials
	Trial       time.Duration `yaml:"trial_window" range:"100ms..1h" default:"250ms" doc:"of a comparison's trial"`
	Connections int           // closed loop
	// Work is the CPU time of a request. Much of it is the server's own computing,
	// which a neighbour on the same machine disturbs less than system calls.
	Work time.Duration

	NoiseRuns   int           `yaml:"noise_runs" range:"1..100000" default:"36" doc:"disturbed runs of the table noise; with --long 200; those without noise come on top"`
	NoiseWindow time.Duration // of each
	NoiseRates  []float64     // stalls per second of each CPU, of which each run draws one
	Duet        bool          `yaml:"duet" doc:"measure two servers of a comparison at the same time, on CPUs that they exchange"`
	Noises      []string      `yaml:"noises" doc:"noises during the comparisons of aa and power, in turn, or all"`
	Seed        uint64        `yaml:"seed" range:"0..9007199254740992" default:"1" doc:"of noises and of the order of runs"`

	Awake bool `yaml:"awake" doc:"keep the CPUs from halting, for virtual machines whose host takes halted CPUs away"`

	FlagTrials int           `yaml:"flag_trials" range:"1..100000" default:"5" doc:"trials of each kind in the table flags; with --long 100"`
	FlagWindow time.Duration // of each

	Explained     int           `yaml:"explained" range:"1..100000" default:"3" doc:"runs of the table explain, of two differences each; with --long 60"`
	Hot           float64       // the planted function's share of the CPU time
	ProfileWindow time.Duration // of a profiled trial

	Progress io.Writer // a line for each step; nil: none
}

// Quick returns what takes some minutes.
func Quick() Config {
	c := fields.Default[Config]()
	c.Only, c.Slow, c.Repeats, c.Periods = Tables(), []float64{0.05}, 3, 5
	c.Warmup, c.Connections, c.Work = 100*time.Millisecond, 16, time.Millisecond
	c.FlagWindow, c.NoiseWindow, c.NoiseRates = time.Second, 2*time.Second, []float64{0.5, 2, 10}
	c.Hot, c.ProfileWindow = 0.03, time.Second
	return c
}

// Long returns what takes some hours and is published.
func Long() Config {
	c := Quick()
	c.Window, c.Repeats, c.Periods = 20*time.Second, 20, 20
	c.Comparisons, c.Slow = 200, []float64{0.01, 0.02, 0.05, 0.10}
	c.FlagTrials, c.Explained, c.NoiseRuns = 100, 60, 200
	return c
}

// Check reports what the tags do not: unknown tables and noises, and slowdowns that are listed twice.
func (c Config) Check(r *fields.Report) {
	for _, list := range []struct {
		field        string
		given, known []string
	}{{"only", c.Only, Tables()}, {"noises", c.Noises, Noises()}} {
		for _, name := range list.given {
			r.Check(slices.Contains(list.known, name), list.field, fmt.Sprintf("%q is unknown", name), fields.ChoiceHint(name, list.known))
		}
	}
	for i, s := range c.Slow {
		r.Check(!slices.Contains(c.Slow[:i], s), "slow", fmt.Sprintf("%v is listed twice", s), "")
	}
}
