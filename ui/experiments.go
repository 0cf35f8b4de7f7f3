package ui

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"dyno/internal/fields"
	"dyno/judge/verdict/expr"
	"dyno/lab/planfile"
	"dyno/results/archive"
)

// Bounds of the folder of experiments.
const (
	maxFiles     = 1000
	maxFileBytes = 1 << 20 // the same limit as in package planfile
)

// An ExperimentList lists the experiments that can be started.
type ExperimentList struct {
	Experiments []Experiment `json:"experiments"`
	Truncated   bool         `json:"truncated,omitempty"` // there are more files than are read
	Startable   bool         `json:"startable"`           // a folder of experiments is configured
}

// experimentKey matches what every experiment has.
var experimentKey = regexp.MustCompile(`(?m)^["']?target["']?[ \t]*:`)

// An Experiment is a file in the folder of experiments.
type Experiment struct {
	ID       string   `json:"id"` // its path below the folder
	Name     string   `json:"name,omitempty"`
	Question string   `json:"question,omitempty"`
	Variants []string `json:"variants"`
	// Variables are the names that can be set, with the value that all variants share, or
	// "".
	Variables map[string]string `json:"variables,omitempty"`
	Rounds    int               `json:"rounds"`
	Seconds   float64           `json:"load_seconds"` // duration of the load in all rounds, without starts and stops; 0 is not known
	// Short is the short form; nil if there is none.
	Short    *Extent `json:"short,omitempty"`
	Warnings []Fault `json:"warnings"`
	Faults   []Fault `json:"faults"` // if there are any, it cannot be started
}

// An Extent is how long a form of an experiment takes.
type Extent struct {
	Rounds  int     `json:"rounds"`
	Seconds float64 `json:"load_seconds"`
}

// A Fault is one thing wrong with an experiment.
type Fault struct {
	Line    int    `json:"line,omitempty"` // from 1; 0: not in a line of the file
	Column  int    `json:"column,omitempty"`
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

// A library holds the experiments below one folder. It reads a file again when the file
// has changed.
type library struct {
	root *os.Root // nil: there is no folder
	dir  string   // its name

	mu   sync.Mutex // guards the following fields
	read map[string]shelved
}

type shelved struct {
	stamp
	experiment *Experiment // nil: the file is something else
}

// list reads what has changed.
func (l *library) list() (ExperimentList, error) {
	all := ExperimentList{Experiments: []Experiment{}, Startable: l.root != nil}
	if l.root == nil {
		return all, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found, truncated, err := findFiles(l.root)
	if err != nil {
		return all, err
	}
	all.Truncated = truncated
	read := map[string]shelved{}
	for id, s := range found {
		known, ok := l.read[id]
		if !ok || known.stamp != s {
			known = shelved{s, l.open(id)}
		}
		read[id] = known
		if known.experiment != nil {
			all.Experiments = append(all.Experiments, *known.experiment)
		}
	}
	l.read = read
	slices.SortFunc(all.Experiments, func(a, b Experiment) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// findFiles returns the YAML files below the folder. It does not follow symbolic links.
func findFiles(root *os.Root) (found map[string]stamp, truncated bool, err error) {
	found = map[string]stamp{}
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == "." {
				return err
			}
			return nil // a folder that cannot be read has nothing to start
		}
		if seen++; seen > archive.MaxFolders || len(found) == maxFiles {
			truncated = true
			return fs.SkipAll
		}
		if d.IsDir() {
			if strings.Count(name, "/") >= archive.MaxDepth || name != "." && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" || !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err == nil {
			found[name] = stampOf(info)
		}
		return nil // a file that was just removed is left out
	})
	return found, truncated, err
}

// source reads a file; its name must be one that findFiles returned.
func (l *library) source(id string) ([]byte, error) {
	f, err := l.root.OpenFile(id, readOnly, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("not a regular file"), err)
	}
	// One byte more than the limit tells Parse that the file is too large.
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// options are those with which the command line reads a file.
func options(short bool, set map[string]string) planfile.Options {
	return planfile.Options{Short: short, Set: set, Expressions: expr.Checks}
}

// open describes a file; nil if it is no experiment, with or without faults.
func (l *library) open(id string) *Experiment {
	x := &Experiment{ID: id, Variants: []string{}, Warnings: []Fault{}, Faults: []Fault{}}
	src, err := l.source(id)
	if err != nil {
		x.Faults = faultsOf(err)
		return x
	}
	if !experimentKey.Match(src) {
		return nil
	}
	e, err := planfile.Parse(id, src, options(false, nil))
	if err != nil {
		x.Faults = faultsOf(err)
		return x
	}
	x.Name, x.Question, x.Rounds, x.Seconds = e.Name, e.Question, e.Design.Rounds, e.LoadTime().Seconds()
	for i := range e.Variants {
		v := &e.Variants[i]
		if v.AliasOf != "" {
			continue
		}
		x.Variants = append(x.Variants, v.Name)
		for name, value := range v.Vars {
			if x.Variables == nil {
				x.Variables = map[string]string{}
			}
			if first, ok := x.Variables[name]; ok && first != value {
				value = ""
			}
			x.Variables[name] = value
		}
	}
	for _, w := range e.Warnings {
		x.Warnings = append(x.Warnings, faultOf(w))
	}
	if short, err := planfile.Parse(id, src, options(true, nil)); err == nil {
		x.Short = &Extent{short.Design.Rounds, short.LoadTime().Seconds()}
	}
	return x
}

// faultsOf lists the faults in an error, one by one if it has several parts.
func faultsOf(err error) []Fault {
	var list *fields.Faults
	if !errors.As(err, &list) {
		return []Fault{{Problem: err.Error()}}
	}
	faults := make([]Fault, len(list.Faults))
	for i, f := range list.Faults {
		faults[i] = faultOf(f)
	}
	return faults
}

func faultOf(f fields.Fault) Fault {
	return Fault{Line: f.Line, Column: f.Column, Field: f.Field, Problem: f.Problem, Hint: f.Hint}
}
