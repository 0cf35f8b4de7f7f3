package calibrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
)

// resultFile is the file of the result in a folder of raw data.
const resultFile = "result.json"

// save writes the result beside its raw data, so that Read finds it.
func (r *Result) save() error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("calibrate: %s: %w", resultFile, err)
	}
	return os.WriteFile(filepath.Join(r.Config.Raw, resultFile), append(data, '\n'), 0o644) //nolint:gosec // it is published
}

// Read reads the result of a calibration from the folder of its raw data.
func Read(folder string) (*Result, error) {
	data, err := os.ReadFile(filepath.Join(folder, resultFile))
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, resultFile), err)
	}
	r.Config.Raw = folder
	return r, nil
}

// A setting must be the same in all results whose rows are pooled in a table.
type setting struct {
	name string
	of   func(*Config) any // a pointer to it
}

// measured lists the tables of a result, each with the settings that decide the meaning
// of its rows.
func (r *Result) measured() map[string][]setting {
	connections := setting{"connections", func(c *Config) any { return &c.Connections }}
	rounds := setting{"rounds", func(c *Config) any { return &c.Rounds }}
	awake := setting{"awake", func(c *Config) any { return &c.Awake }}
	of := map[string][]setting{}
	if len(r.Oracles) > 0 {
		of["oracles"] = []setting{awake}
	}
	if len(r.Noisy) > 0 {
		of["noise"] = []setting{
			awake,
			{"window of a noisy run", func(c *Config) any { return &c.NoiseWindow }},
			{"rates of stalls", func(c *Config) any { return &c.NoiseRates }},
		}
	}
	if len(r.Comparisons) > 0 {
		of["comparisons"] = []setting{
			awake, rounds, connections,
			{"warm-up of a comparison", func(c *Config) any { return &c.Warmup }},
			{"window of a comparison", func(c *Config) any { return &c.Trial }},
			{"work of a request", func(c *Config) any { return &c.Work }},
			{"noises beside comparisons", func(c *Config) any { return &c.Beside }},
		}
	}
	if len(r.Trials) > 0 {
		of["flags"] = []setting{awake, connections, {"window of a flag's trial", func(c *Config) any { return &c.FlagWindow }}}
	}
	if len(r.Explained) > 0 {
		of["explain"] = []setting{
			awake, rounds,
			{"hot function", func(c *Config) any { return &c.Hot }},
			{"window of a profiled trial", func(c *Config) any { return &c.ProfileWindow }},
		}
	}
	return of
}

// Pool returns one result with the rows of several, which must come from the same
// machine. Tables that two of them have must have been made with the same settings, but
// for seeds and numbers of runs; servers with a known answer may be in one of them only.
func Pool(parts ...*Result) (*Result, error) {
	if len(parts) == 0 {
		return nil, errors.New("calibrate: want at least one result")
	}
	first := parts[0]
	all := &Result{Config: first.Config, Started: first.Started, Finished: first.Finished, Environment: first.Environment, ServerCPU: first.ServerCPU, LoadCPU: first.LoadCPU, Parts: parts}
	from := map[string]*Result{} // by table: the first part with it
	var faults []error
	fault := func(p, other *Result, what string) {
		faults = append(faults, fmt.Errorf("%s and %s: want the same %s", other.Config.Raw, p.Config.Raw, what))
	}
	for _, p := range parts {
		if !p.sameMachine(first) {
			fault(p, first, "machine")
		}
		for table, settings := range p.measured() {
			other := from[table]
			switch {
			case other == nil:
				from[table] = p
			case table == "oracles":
				faults = append(faults, fmt.Errorf("%s and %s: want the table %s in one of them only", other.Config.Raw, p.Config.Raw, table))
			}
			for _, s := range settings {
				own := reflect.ValueOf(s.of(&p.Config)).Elem()
				if other != nil && !reflect.DeepEqual(own.Interface(), reflect.ValueOf(s.of(&other.Config)).Elem().Interface()) {
					fault(p, other, s.name+" for the table "+table)
				}
				reflect.ValueOf(s.of(&all.Config)).Elem().Set(own)
			}
		}
		all.Oracles = append(all.Oracles, p.Oracles...)
		all.Noisy, all.Comparisons = append(all.Noisy, p.Noisy...), append(all.Comparisons, p.Comparisons...)
		all.Trials, all.Explained = append(all.Trials, p.Trials...), append(all.Explained, p.Explained...)
		all.Notes = append(all.Notes, p.Notes...)
		if p.Started.Before(all.Started) {
			all.Started = p.Started
		}
		if p.Finished.After(all.Finished) {
			all.Finished = p.Finished
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return all, nil
}

// sameMachine tells whether two results are of the same machine, as far as they describe
// it.
func (r *Result) sameMachine(other *Result) bool {
	a, b := &r.Environment, &other.Environment
	return a.CPUs == b.CPUs && a.CPUModel == b.CPUModel && a.Kernel == b.Kernel && r.ServerCPU == other.ServerCPU && r.LoadCPU == other.LoadCPU
}

// measurements are the parts of a pooled result, or the result itself.
func (r *Result) measurements() []*Result {
	if len(r.Parts) > 0 {
		return r.Parts
	}
	return []*Result{r}
}

// MarshalJSON writes an unknown figure as null, because JSON has no number for it.
func (r Reading) MarshalJSON() ([]byte, error) {
	type plain Reading
	out := struct {
		plain
		Measured *float64
	}{plain: plain(r)}
	if !math.IsNaN(r.Measured) && !math.IsInf(r.Measured, 0) {
		out.Measured = &r.Measured
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Reading) UnmarshalJSON(data []byte) error {
	type plain Reading
	in := struct {
		*plain
		Measured *float64
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	r.Measured = math.NaN()
	if in.Measured != nil {
		r.Measured = *in.Measured
	}
	return nil
}
