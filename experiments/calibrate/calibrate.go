package calibrate

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"dyno/host/awake"
	"dyno/host/target"
	"dyno/observe"
)

// A Result holds the findings of a calibration. Tables that were not asked for, or not
// reached, are empty.
type Result struct {
	Config      Config
	Started     time.Time
	Finished    time.Time
	Environment observe.Environment
	ServerCPU   int
	LoadCPU     int

	Oracles     []Reading
	Noisy       []Noisy
	Comparisons []Comparison
	Trials      []Trial // of the flags' table
	Explained   []Explained

	Notes []string // what was not possible, and why
	Files []string // raw CSV files written, names within Config.Raw
}

// Missed returns how many figures missed their limit.
func (r *Result) Missed() int {
	n := 0
	for i := range r.Oracles {
		if r.Oracles[i].Outcome() == Missed {
			n++
		}
	}
	for _, t := range r.Tallies() {
		for _, f := range t.judged() {
			if f.outcome == Missed {
				n++
			}
		}
	}
	for _, s := range r.NoiseShares() {
		if s.Outcome() == Missed {
			n++
		}
	}
	for _, s := range r.FlagShares() {
		if s.Outcome() == Missed {
			n++
		}
	}
	for _, j := range r.explanations() {
		if j.outcome == Missed {
			n++
		}
	}
	return n
}

// A calibrator is the state of one Run.
type calibrator struct {
	Config
	result *Result
	server []int  // CPUs of servers
	load   []int  // CPUs of the generator
	temp   string // folder for files that are not kept
}

// Run makes the tables that the configuration names. It takes minutes to hours.
// When the context ends, or a measurement fails, it returns what it has, together with the
// error. Only one Run may be under way in a process: it places the process's threads on
// CPUs.
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	cpus, err := target.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	k := &calibrator{
		Config: c,
		server: cpus[:1],
		load:   cpus[len(cpus)-1:],
		result: &Result{Config: c, Started: time.Now(), Environment: observe.ReadEnvironment(), ServerCPU: cpus[0], LoadCPU: cpus[len(cpus)-1]},
	}
	if len(cpus) < 2 {
		k.note("only one CPU: servers and generator disturb each other")
	}
	if k.temp, err = os.MkdirTemp("", "dyno-calibrate-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(k.temp)) }()
	if c.Raw != "" {
		if err := os.MkdirAll(c.Raw, 0o755); err != nil {
			return nil, err
		}
	}
	for _, table := range []struct {
		names []string
		make  func(context.Context) error
	}{
		{[]string{Search, Delays, Oracles}, k.oracles},
		{[]string{Stalls}, k.stalls},
		{[]string{Noise}, k.noise},
		{[]string{AA, Power}, k.compare},
		{[]string{Flags}, k.flags},
		{[]string{Explain}, k.explain},
	} {
		if !slices.ContainsFunc(table.names, k.wanted) {
			continue
		}
		if err = table.make(ctx); err != nil {
			break
		}
	}
	k.result.Finished = time.Now()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return k.result, err
}

func (k *calibrator) wanted(table string) bool { return slices.Contains(k.Only, table) }

// note records something that a reader must know.
func (k *calibrator) note(format string, args ...any) {
	k.result.Notes = append(k.result.Notes, fmt.Sprintf(format, args...))
}

// step announces the next step.
func (k *calibrator) step(format string, args ...any) {
	if k.Progress != nil {
		fmt.Fprintf(k.Progress, format+"\n", args...)
	}
}

// A sheet is a raw CSV file that is being written. Rows are on disk when write returns.
type sheet struct {
	file *os.File
	csv  *csv.Writer
}

// sheet begins a raw file, or returns one that keeps nothing when none is wanted.
func (k *calibrator) sheet(name string, columns ...string) (*sheet, error) {
	if k.Raw == "" {
		return &sheet{}, nil
	}
	f, err := os.Create(filepath.Join(k.Raw, name))
	if err != nil {
		return nil, err
	}
	k.result.Files = append(k.result.Files, name)
	s := &sheet{f, csv.NewWriter(f)}
	if err := s.write(columns...); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

func (s *sheet) write(fields ...string) error {
	if s.file == nil {
		return nil
	}
	if err := s.csv.Write(fields); err != nil {
		return err
	}
	s.csv.Flush()
	return s.csv.Error()
}

func (s *sheet) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// withServers calls do, which loads servers of this process. Meanwhile the CPUs are kept
// from halting, if that is wanted. Go's scheduler has a processor for each
// thread that must not wait for another, whatever the number of CPUs.
func (k *calibrator) withServers(do func() error) (err error) {
	if k.Awake {
		p, err := awake.Start(slices.Concat(k.server, k.load)...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Stop()) }()
	}
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + 4) // for server, worker, tap, and everything else
	defer runtime.GOMAXPROCS(before)
	return do()
}
