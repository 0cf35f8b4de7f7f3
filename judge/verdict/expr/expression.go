package expr

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"dyno/results/rundir"
)

// MaxExpression is how many bytes an expression may have.
const MaxExpression = 4096

// A Kind says what an expression is for.
type Kind int

const (
	// ForThreshold is an expression about any variant. Its metrics and slopes are those
	// of the variant under judgement, each variant in turn.
	ForThreshold Kind = iota
	// ForClaim is an expression about the run: it names the variants, unless
	// there is only one.
	ForClaim
	// ForProbe is a threshold of a search for capacity. It judges each probe by itself, so that
	// it is about the figures of one trial.
	ForProbe
)

// An Expression is a condition on a run's figures.
type Expression struct {
	holds      condition
	measured   typed   // the figure that is compared; nothing if there are several
	effect     *effect // of a claim that has a published size
	bound      *bound  // of the expression, if it compares one metric with a constant
	perVariant bool    // a metric or a gauge stands without a variant
	uses       []use
	leftOut    []rundir.LeftOut // variants that it names and that were not measured
}

// A use is a figure that an expression needs: of a variant, or of its ratio to a base.
type use struct {
	variant      func(judged string) string
	base, metric string
}

// Refs lists the figures that an expression needs when it judges a variant.
func (e *Expression) Refs(judged string) (all []Ref) {
	for _, u := range e.uses {
		all = append(all, Ref{u.metric, u.variant(judged), u.base})
	}
	return all
}

// RefsIn lists the figures that a plan's thresholds and claims use.
func RefsIn(plan rundir.Plan) (all []Ref) {
	names := NamesOf(plan)
	for _, text := range plan.Thresholds {
		if e, err := Compile(text, ForThreshold, names); err == nil {
			for _, name := range names.Variants {
				all = append(all, e.Refs(name)...)
			}
		}
	}
	for _, c := range plan.Claims {
		if e, err := compileClaim(c, names); err == nil {
			all = append(all, e.Refs("")...)
		}
	}
	return all
}

// Unit returns what the measured value of a threshold or claim is in. A metric's value is in
// its own unit, and what was calculated is in that of its dimension.
func (e *Expression) Unit() rundir.Unit {
	if e.measured.unit != rundir.Number {
		return e.measured.unit
	}
	return rundir.UnitOf(e.measured.dim)
}

// LimitIn returns the metric that a threshold of a plan keeps below a constant, and that
// constant. Other thresholds have none.
func LimitIn(text string, plan rundir.Plan) (metric string, limit float64, ok bool) {
	e, err := Compile(text, ForThreshold, NamesOf(plan))
	if err != nil || e.bound == nil || !e.bound.below {
		return "", 0, false
	}
	return e.uses[0].metric, e.bound.limit, true
}

// ThresholdUnit returns the unit of a plan's threshold. It is Number for one that does not
// compile: it did when its value was measured, so the folder was edited.
func ThresholdUnit(text string, plan rundir.Plan) rundir.Unit {
	e, err := Compile(text, ForThreshold, NamesOf(plan))
	if err != nil {
		return rundir.Number
	}
	return e.Unit()
}

// ClaimUnit returns the unit of what a claim of a plan measures, as ThresholdUnit does.
func ClaimUnit(c rundir.Claim, plan rundir.Plan) rundir.Unit {
	e, err := compileClaim(rundir.PlanClaim{Published: c.Published, Measured: c.Measures, Holds: c.Holds}, NamesOf(plan))
	if err != nil {
		return rundir.Number
	}
	return e.Unit()
}

// UnitsOf returns the units of what a run's thresholds and claims measured, by their text.
func UnitsOf(run *rundir.Run) map[string]rundir.Unit {
	units := map[string]rundir.Unit{}
	for _, x := range run.Thresholds {
		units[x.Text] = ThresholdUnit(x.Text, run.Plan)
	}
	for _, x := range run.Claims {
		if text := cmp.Or(x.Measures, x.Holds); text != "" {
			units[text] = ClaimUnit(x, run.Plan)
		}
	}
	return units
}

// Names are those of a plan that expressions may use.
type Names struct {
	Variants, Steps []string
	Latency         string            // the clock of a quantile without one, such as p99; default response
	LeftOut         map[string]string // variants that are not measured, and why they could not be built; empty: the run leaves them out
}

// NamesOf returns the names of a plan: its variants, those left out, and the steps of
// scenarios.
func NamesOf(plan rundir.Plan) (n Names) {
	for _, v := range plan.Variants {
		n.Variants = append(n.Variants, v.Name)
		if v.Subscribers > 0 {
			n.Latency = rundir.TagDelivery
		}
		for _, step := range v.Steps {
			if !slices.Contains(n.Steps, step) {
				n.Steps = append(n.Steps, step)
			}
		}
	}
	for _, l := range plan.LeftOut {
		if n.LeftOut == nil {
			n.LeftOut = map[string]string{}
		}
		n.LeftOut[l.Variant] = l.Why
	}
	return n
}

// An Error is a fault in an expression.
type Error struct {
	Column  int // of the fault in the text, in characters from 1
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

// Compile parses and checks an expression, which may use these names. It reports all faults
// at once, joined, each an *Error.
func Compile(text string, kind Kind, names Names) (*Expression, error) {
	e := &Expression{}
	err := e.compile(text, kind, names, func(c *compiler, i int, n ast.Node) {
		holds, measured := c.condition(n)
		if e.bound = c.bound(n); i > 0 {
			e.holds, e.bound = joined(e.holds, holds, no), nil
			if kind != ForClaim {
				e.measured = typed{}
			}
			return
		}
		e.holds, e.measured = holds, measured
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// compile parses a text. It passes each of its parts to take, and checks the whole.
func (e *Expression) compile(text string, kind Kind, names Names, take func(c *compiler, i int, n ast.Node)) error {
	if len(text) > MaxExpression {
		return &Error{1, fmt.Sprintf("%d bytes; an expression has at most %d", len(text), MaxExpression)}
	}
	if !utf8.ValidString(text) {
		return &Error{1, "not valid UTF-8"}
	}
	runes := []rune(text)
	if strings.TrimSpace(text) == "" {
		return &Error{1, "empty; want a condition such as response.p99 < 80ms"}
	}
	unlabelled, steps, faults := takeSteps(runes)
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	blanked, found, faults := takeUnits(unlabelled)
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	c := compiler{kind: kind, variants: names.Variants, missing: names.LeftOut, known: names.Steps, latency: cmp.Or(names.Latency, rundir.TagResponse), units: found, steps: steps, placed: map[int]bool{}}
	for i, part := range parts([]rune(blanked)) {
		tree, err := parser.Parse(part)
		if err != nil {
			return located(err, len(runes))
		}
		take(&c, i, tree.Node)
	}
	e.perVariant, e.uses, e.leftOut = c.perVariant, c.uses, c.leftOut
	for at, label := range steps {
		if !c.placed[at] && len(c.faults) == 0 {
			c.faultAt(label.at, "%s does not stand behind a metric", rundir.StepMetric("", label.name))
		}
	}
	if len(c.faults) > 0 {
		slices.SortFunc(c.faults, func(a, b *Error) int {
			return cmp.Or(cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
		})
		for i, f := range c.faults {
			// The middle of a < b < c is compiled twice, and so are its faults.
			if i == 0 || *f != *c.faults[i-1] {
				faults = append(faults, f)
			}
		}
		return errors.Join(faults...)
	}
	return nil
}

// Split takes conditions apart that have commas between them.
func Split(text string) (conditions []string) {
	for _, part := range parts([]rune(text)) {
		if c := strings.TrimSpace(part); c != "" {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// parts splits a text at its commas, but for those within brackets and strings. Each part has its place: blanks stand
// before it.
func parts(text []rune) (list []string) {
	depth, from := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == ',' && depth == 0:
			list = append(list, strings.Repeat(" ", from)+string(text[from:i]))
			from = i + 1
		case strings.ContainsRune("({[", text[i]):
			depth++
		case strings.ContainsRune(")}]", text[i]):
			depth--
		case strings.ContainsRune("\"'`", text[i]):
			i = skipString(text, i) - 1
		}
	}
	return list
}

// unexpectedToken is how the parser names what it did not expect.
var unexpectedToken = regexp.MustCompile(`unexpected token \w+\((".*")\)`)

// located turns the parser's error into one of ours. The parser counts
// characters from 0 and may point past the end.
func located(err error, length int) error {
	var fault *file.Error
	if !errors.As(err, &fault) {
		return &Error{1, err.Error()}
	}
	message := fault.Message
	if strings.HasSuffix(message, "unexpected token EOF") {
		message = "the expression ends too early"
	}
	message = unexpectedToken.ReplaceAllString(message, "unexpected $1")
	return &Error{min(max(fault.From, 0)+1, max(length, 1)), message}
}
