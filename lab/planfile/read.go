package planfile

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/lab/plan"
	"dyno/lab/protocols"
)

// Options change how a file is read.
type Options struct {
	// Short asks for the file's short form.
	Short bool

	// Set overrides, by name: a variable, in all variants (of a sweep's
	// variable, it replaces the list); or one of Settings, unless a variable is called
	// that.
	Set map[string]string

	// Expressions judge what the experiment expects; nil: it is not judged.
	Expressions Expressions
}

// Expressions judge the expressions of a file. The package that evaluates them implements it. An expression may name
// variants, and steps of their scenarios.
// Its faults (several, when they are joined) are reported with their place in the file.
type Expressions interface {
	CheckThreshold(expression string, variants, steps []string) error
	CheckProbe(expression string, variants, steps []string) error // of a threshold of a search for capacity
	CheckAbort(expression string, variants, steps []string) error // of a threshold that ends a run
	CheckClaim(expression string, variants, steps []string) error
	CheckMeasured(expression string, variants, steps []string) error
	CheckPublished(published, measured string, variants, steps []string) error
	CheckMetric(metric string, steps []string) error // that the design names
	// RequestsNeeded is how many requests a trial needs for a threshold's percentiles to be known; 0 if it has none.
	RequestsNeeded(expression string, variants, steps []string) int
}

// ReadFile reads an experiment from a file. Faults of the experiment are *fields.Faults;
// other errors are about reading the file.
func ReadFile(path string, o Options) (*plan.Experiment, error) {
	src, err := fields.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	return ParseWithFiles(path, src, o)
}

// ParseWithFiles reads an experiment as ReadFile does, from the bytes that are in the file or will be.
func ParseWithFiles(path string, src []byte, o Options) (*plan.Experiment, error) {
	r := newReader(path, o)
	e := r.read(src)
	if e != nil {
		r.findFiles(e)
	}
	if e != nil && len(r.c.Order) == 0 {
		protocols.FindFaults(e, r.c)
	}
	return r.done(e)
}

// Parse reads an experiment from the bytes of a file. It looks at nothing
// else; the file's name is for messages and for the paths that are relative to
// it. The error is *fields.Faults.
func Parse(file string, src []byte, o Options) (*plan.Experiment, error) {
	r := newReader(file, o)
	return r.done(r.read(src))
}

// A reader turns one file into an experiment.
type reader struct {
	file     string
	options  Options
	c        *fields.Collector
	root     *fields.Node
	settings *fields.Node // what the options say of fields, in the form of a file
	places   map[string]*fields.Node
	work     int // bytes of values resolved so far, over all variants

	noLoad   bool            // there is no load, not even a misspelt one
	traits   map[string]bool // of the plan, by which variants have their defaults
	warnings []fields.Fault
}

func newReader(file string, o Options) *reader {
	return &reader{file: file, options: o, c: fields.NewCollector(), places: map[string]*fields.Node{}}
}

func (r *reader) done(e *plan.Experiment) (*plan.Experiment, error) {
	if err := r.c.Err(r.file, r.place); err != nil {
		return nil, err
	}
	return e, nil
}

// place returns where in the file a path is, or the closest path above it.
func (r *reader) place(path string) (line, column int) {
	if strings.HasPrefix(path, "set.") {
		return 0, 0 // given with the options
	}
	for ; path != ""; path = fields.Parent(path) {
		n, ok := r.places[path]
		switch {
		case ok && n.Scalar():
			return n.Line, n.Column
		case ok:
			return n.Where()
		}
	}
	return 1, 1
}

func (r *reader) fault(n *fields.Node, problem, hint string) {
	r.c.Add(fields.Finding{Path: n.Path, Problem: problem, Hint: hint, Line: n.Line, Column: n.Column}, "")
}

// atName reports a fault at the name of a field.
func (r *reader) atName(n *fields.Node, problem, hint string) {
	line, column := n.Where()
	r.c.Add(fields.Finding{Path: n.Path, Problem: problem, Hint: hint, Line: line, Column: column}, "")
}

// warn adds a warning about what is at a path.
func (r *reader) warn(path, problem, hint string) {
	f := fields.Fault{File: r.file, Field: path, Problem: problem, Hint: hint}
	f.Line, f.Column = r.place(path)
	r.warnings = append(r.warnings, f)
}

// judge reports the faults of a value. It reports joined faults one by one.
func (r *reader) judge(n *fields.Node, err error) {
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
func (r *reader) read(src []byte) *plan.Experiment {
	if r.root = fields.ParseTree(src, r.c); r.root == nil {
		return nil
	}
	r.index(r.root)
	file, _ := plan.Declared()
	fields.Check(r.c, r.root, file, "network") // a later version has that section
	r.set()

	e := plan.Empty()
	e.File, e.Source, e.Short = r.file, src, r.options.Short
	if len(r.options.Set) > 0 {
		e.Set = maps.Clone(r.options.Set)
	}
	short := r.short()
	r.plan(e, short)
	r.noLoad = r.root.Get("load") == nil && !r.c.Touched["load"]
	r.traits = e.Traits()
	choices := r.variants(e, short)
	if len(choices) == 0 {
		// Without variables only what holds no template can be judged.
		choices = []variantChoice{{}}
	}
	r.c.Variants = len(choices)
	for _, choice := range choices {
		e.Variants = append(e.Variants, r.variant(choice, short))
	}
	r.design(e)
	r.expressions(e)
	r.unknownSettings()
	r.c.Settle()
	plan.Inspect(e, r.c)
	r.unused()
	r.fewRounds(e)
	r.idlePilot(e)
	r.hurriedSoak(e)
	e.Warnings = r.warnings
	return e
}

// index notes the place of every value.
func (r *reader) index(n *fields.Node) {
	r.places[n.Path] = n
	for _, k := range n.Keys {
		r.index(k.Value)
	}
	for _, item := range n.Items {
		r.index(item)
	}
}

// short returns the overlay when it is asked for, nil otherwise.
func (r *reader) short() *fields.Node {
	n := r.root.Get("short")
	switch {
	case !r.options.Short:
		return nil
	case n == nil && !r.c.Touched["short"]:
		r.c.Add(fields.Finding{Path: "short", Problem: "the experiment has no short form", Hint: "add a section such as short: {rounds: 2, window: 1s}"}, "")
	}
	return n
}

// plan reads what holds for all variants, with what the short form and the options say
// on top.
func (r *reader) plan(e *plan.Experiment, short *fields.Node) {
	v := &view{reader: r}
	d := v.decoder()
	_, parts := plan.Declared()
	into := reflect.ValueOf(e).Elem()
	d.Value(r.root, parts[0], into)
	if rounds := short.Get("rounds"); rounds != nil {
		v.read(rounds, "design.rounds", &e.Design.Rounds)
		e.Design.Stop = plan.StopFixed // a quick look has too few for any other rule
	}
	d.Value(r.settings, parts[0], into)
}

// set notes what the options say of fields, unless a variable of that name is meant.
func (r *reader) set() {
	r.settings = &fields.Node{Kind: fields.IsMapping}
	variables := r.variableNames()
	file, _ := plan.Declared()
	file.Walk("", func(path string, s *fields.Spec) {
		value, ok := r.options.Set[s.Set]
		if !ok || s.Set == "" || slices.Contains(variables, s.Set) {
			return
		}
		leaf := fields.NewLeaf("set."+s.Set, s, value)
		for _, n := range append(leaf.Items, leaf) {
			if n.Kind == fields.IsList {
				continue
			}
			if problem, hint := n.Spec.ScalarFault(n.Text); problem != "" {
				n.Bad = true
				r.c.Add(fields.Finding{Path: n.Path, Problem: problem, Hint: hint}, "")
			}
		}
		r.settings.Insert(path, leaf)
	})
}

// from returns the path of the option that gives a field its value, or the field's own.
func (r *reader) from(path string) string {
	if n := r.settings.Find(path); n != nil {
		return n.Path
	}
	return path
}

// Settings returns the names by which Options.Set changes fields.
func Settings() []string {
	var names []string
	file, _ := plan.Declared()
	file.Walk("", func(_ string, s *fields.Spec) {
		if s.Set != "" {
			names = append(names, s.Set)
		}
	})
	return names
}

// unknownSettings reports options that set nothing.
func (r *reader) unknownSettings() {
	known := append(Settings(), r.variableNames()...)
	for _, name := range slices.Sorted(maps.Keys(r.options.Set)) {
		if !slices.Contains(known, name) {
			r.c.Add(fields.Finding{Path: "set." + name, Problem: "there is no variable of this name", Hint: nearest.Hint(name, known)}, "")
		}
	}
}

// expressions judges thresholds and claims by Options.Expressions.
func (r *reader) expressions(e *plan.Experiment) {
	check := r.options.Expressions
	if check == nil {
		return
	}
	var names []string
	for _, x := range e.Variants {
		names = append(names, x.Name)
	}
	steps := e.Steps()
	judge := func(n *fields.Node, expression string, verify func(expression string, variants, steps []string) error) {
		if expression != "" {
			r.judge(n, verify(expression, names, steps))
		}
	}
	threshold := check.CheckThreshold
	if e.Capacity != nil {
		threshold = check.CheckProbe
	}
	for i, t := range e.Thresholds {
		n := r.root.Get("thresholds").Items[i]
		verify := threshold
		if t.Abort {
			verify = check.CheckAbort
		}
		judge(n, t.Holds, verify)
		if e.Capacity != nil {
			r.searchable(n, e, check.RequestsNeeded(t.Holds, names, steps))
		}
	}
	names = append(names, e.LeftOut...) // a claim about one of them is not settled
	for i, c := range e.Claims {
		if n := r.root.Get("claims").Items[i]; c.NotTestable == "" {
			judge(n.Get("holds"), c.Holds, check.CheckClaim)
			judge(n.Get("measured"), c.Measured, check.CheckMeasured)
			judge(n.Get("published"), c.Published, func(published string, variants, steps []string) error {
				return check.CheckPublished(published, c.Measured, variants, steps)
			})
		}
	}
}

// findFiles reports files the experiment names that are not there.
func (r *reader) findFiles(e *plan.Experiment) {
	for i := range e.Variants {
		if v := &e.Variants[i]; v.AliasOf == "" {
			protocols.EachFile(v, func(field, file string) { r.findFile(field, file, v.Name) })
		}
	}
}

// findFile reports a file that is named and not there.
func (r *reader) findFile(path, file, variant string) {
	if fields.HasTemplate(file) {
		return
	}
	if err := regular(file); err != nil {
		r.c.Add(fields.Finding{Path: path, Problem: err.Error(), Hint: "paths are relative to the experiment's file"}, variant)
	}
}

// regular says why something is no file that can be read.
func regular(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return fmt.Errorf("cannot be read: %w", err)
	case !info.Mode().IsRegular():
		return errors.New("not a regular file: " + strconv.Quote(file))
	}
	return nil
}
