package experiment

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Options change how a file is read.
type Options struct {
	// Short asks for the file's short form.
	Short bool

	// Set overrides, by name: a variable, in all variants (of a sweep's
	// variable, it replaces the list); or rounds, seed, stop, margin, metric, warmup
	// or window, unless a variable is called that.
	Set map[string]string

	// CheckThreshold and CheckClaim, if not nil, judge an expression, so that its
	// faults (several, when they are joined) are reported with their place in the
	// file. They belong to whoever
	// evaluates the expressions.
	CheckThreshold func(expression string, variants []string) error
	CheckClaim     func(expression string, variants []string) error

	// CheckMetric, if not nil, judges the metric that the design names. It belongs
	// to whoever knows the metrics.
	CheckMetric func(metric string) error
}

// ReadFile reads an experiment from a file. Faults of the experiment are *Faults;
// other errors are about reading the file.
func ReadFile(path string, o Options) (*Experiment, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	// One byte more than allowed tells Parse that the file is too large.
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	r := newReader(path, o)
	e := r.read(src)
	if e != nil {
		r.findFiles(e)
	}
	return r.done(e)
}

// Parse reads an experiment from the bytes of a file. It looks at nothing
// else; the file's name is for messages and for the paths that are relative to
// it. The error is *Faults.
func Parse(file string, src []byte, o Options) (*Experiment, error) {
	r := newReader(file, o)
	return r.done(r.read(src))
}

// A reader turns one file into an experiment.
type reader struct {
	file    string
	options Options
	c       *collector
	root    *node
	places  map[string]*node
	work    int // bytes of values resolved so far, over all variants

	noLoad   bool // there is no load, not even a misspelt one
	soak     bool // the default window is a soak's
	pilots   int  // variants whose warm-up is left to a pilot
	warnings []Fault
}

func newReader(file string, o Options) *reader {
	return &reader{file: file, options: o, c: newCollector(), places: map[string]*node{}}
}

func (r *reader) done(e *Experiment) (*Experiment, error) {
	if err := r.c.err(r.file, r.place); err != nil {
		return nil, err
	}
	return e, nil
}

// place returns where in the file a path is, or the closest path above it.
func (r *reader) place(path string) (line, column int) {
	if strings.HasPrefix(path, "set.") {
		return 0, 0 // given with the options
	}
	for ; path != ""; path = parent(path) {
		n, ok := r.places[path]
		switch {
		case ok && n.scalar():
			return n.line, n.column
		case ok:
			return n.where()
		}
	}
	return 1, 1
}

func (r *reader) fault(n *node, problem, hint string) {
	r.c.add(finding{path: n.path, problem: problem, hint: hint, line: n.line, column: n.column}, "")
}

// atName reports a fault at the name of a field.
func (r *reader) atName(n *node, problem, hint string) {
	line, column := n.where()
	r.c.add(finding{path: n.path, problem: problem, hint: hint, line: line, column: column}, "")
}

// warn adds a warning about what is at a path.
func (r *reader) warn(path, problem, hint string) {
	f := Fault{File: r.file, Field: path, Problem: problem, Hint: hint}
	f.Line, f.Column = r.place(path)
	r.warnings = append(r.warnings, f)
}

// judge reports what whoever knows a value finds wrong with it; faults that are
// joined, one by one.
func (r *reader) judge(n *node, err error) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			r.fault(n, e.Error(), "")
		}
	} else if err != nil {
		r.fault(n, err.Error(), "")
	}
}

// read returns the experiment, of use only if nothing was found wrong.
func (r *reader) read(src []byte) *Experiment {
	if r.root = parseTree(src, r.c); r.root == nil {
		return nil
	}
	r.index(r.root)
	root := table()
	checker{r.c, root}.check(r.root, root, false)

	e := &Experiment{File: r.file, Source: src, Short: r.options.Short}
	if len(r.options.Set) > 0 {
		e.Set = maps.Clone(r.options.Set)
	}
	plain := &view{reader: r, vars: map[string]string{}}
	plain.text(r.root.get("name"), &e.Name)
	plain.text(r.root.get("question"), &e.Question)
	short := r.short()

	plain.boolean(r.root.get("soak"), &e.Soak)
	plain.boolean(r.root.get("awake"), &e.Awake)
	plain.boolean(r.setting("awake", "awake"), &e.Awake)
	if settings := r.root.get("sysctl"); settings != nil {
		e.Sysctl = map[string]string{}
		for _, k := range settings.keys {
			var value string
			plain.text(k.value, &value)
			e.Sysctl[k.name] = value
		}
	}
	r.soak = e.Soak
	r.noLoad = r.root.get("load") == nil && !r.c.touched["load"]
	e.Capacity = r.capacity(plain)
	e.Profile = r.profile(plain)
	choices := r.variants(e, short)
	if len(choices) == 0 {
		// Without variables only what holds no template can be judged.
		choices = []variantChoice{{}}
	}
	r.c.variants = len(choices)
	for _, choice := range choices {
		e.Variants = append(e.Variants, r.variant(choice, short))
	}
	r.design(e, plain, short)
	if p := e.Profile; p != nil && p.Rounds == 0 {
		p.Rounds = e.Design.Rounds
	}
	r.expressions(e, plain)
	r.unknownSettings()
	r.c.settle()
	inspect(e, r.c)
	r.unused()
	r.fewRounds(e)
	r.idlePilot(e)
	r.hurriedSoak(e)
	e.Warnings = r.warnings
	return e
}

// index notes the place of every value.
func (r *reader) index(n *node) {
	r.places[n.path] = n
	for _, k := range n.keys {
		r.index(k.value)
	}
	for _, item := range n.items {
		r.index(item)
	}
}

// short returns the overlay when it is asked for, nil otherwise.
func (r *reader) short() *node {
	n := r.root.get("short")
	switch {
	case !r.options.Short:
		return nil
	case n == nil && !r.c.touched["short"]:
		r.c.add(finding{path: "short", problem: "the experiment has no short form", hint: "add a section such as short: {rounds: 2, window: 1s}"}, "")
	}
	return n
}

// setting returns the value that the options give to a field, unless a
// variable of that name is meant.
func (r *reader) setting(name, path string) *node {
	value, ok := r.options.Set[name]
	if !ok || slices.Contains(r.variableNames(), name) {
		return nil
	}
	n := &node{kind: isText, text: value, path: "set." + name, spec: table().at(path)}
	if problem, hint := n.spec.scalarFault(value); problem != "" {
		n.bad = true
		r.c.add(finding{path: n.path, problem: problem, hint: hint}, "")
	}
	return n
}

func settable() []string {
	return []string{"rounds", "seed", "stop", "margin", "metric", "remeasure", "warmup", "window", "awake", "duet", profileSetting}
}

// unknownSettings reports options that set nothing.
func (r *reader) unknownSettings() {
	known := append(settable(), r.variableNames()...)
	for _, name := range slices.Sorted(maps.Keys(r.options.Set)) {
		if !slices.Contains(known, name) {
			r.c.add(finding{path: "set." + name, problem: "there is no variable of this name", hint: suggest(name, known)}, "")
		}
	}
}

func (r *reader) expressions(e *Experiment, v *view) {
	var names []string
	for _, x := range e.Variants {
		names = append(names, x.Name)
	}
	if list := r.root.get("thresholds"); list != nil {
		for _, n := range list.items {
			var t string
			if v.text(n, &t); t != "" {
				e.Thresholds = append(e.Thresholds, t)
				if r.options.CheckThreshold != nil {
					r.judge(n, r.options.CheckThreshold(t, names))
				}
			}
		}
	}
	list := r.root.get("claims")
	if list == nil {
		return
	}
	for _, n := range list.items {
		var c Claim
		v.text(n.get("id"), &c.ID)
		v.text(n.get("says"), &c.Says)
		v.text(n.get("holds"), &c.Holds)
		v.text(n.get("direction"), &c.Direction)
		v.text(n.get("testable"), &c.NotTestable)
		e.Claims = append(e.Claims, c)
		if r.options.CheckClaim == nil || c.NotTestable != "" {
			continue
		}
		for name, expression := range map[string]string{"holds": c.Holds, "direction": c.Direction} {
			if expression != "" {
				r.judge(n.get(name), r.options.CheckClaim(expression, names))
			}
		}
	}
}

// findFiles reports files the experiment names that are not there.
func (r *reader) findFiles(e *Experiment) {
	for _, v := range e.Variants {
		if v.AliasOf != "" {
			continue
		}
		if req := v.Load.Request; req != nil {
			r.findFile("load.request.body_file", req.BodyFile, v.Name)
		}
		if t := v.Target.TLS; t != nil {
			r.findFile("target.tls.ca", t.CA, v.Name)
			r.findFile("target.tls.certificate", t.Certificate, v.Name)
			r.findFile("target.tls.key", t.Key, v.Name)
		}
	}
}

// findFile reports a file that is named and not there.
func (r *reader) findFile(path, file, variant string) {
	if file == "" || hasTemplate(file) {
		return
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		problem := "not a regular file: " + strconv.Quote(file)
		if err != nil {
			problem = "cannot be read: " + err.Error()
		}
		r.c.add(finding{path: path, problem: problem, hint: "paths are relative to the experiment's file"}, variant)
	}
}
