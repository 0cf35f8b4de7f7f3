package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"dyno/internal/texts"
	"dyno/internal/units"
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
	left       typed    // of the comparison that is the whole expression; or nothing
	limit      *float64 // the right side, if the whole expression keeps one metric below a constant
	perVariant bool     // a metric or a gauge stands without a variant
	uses       []use
	leftOut    []rundir.LeftOut // variants that it names and that were not measured
}

// A use is a figure that an expression needs: of a variant, or of its ratio to a base.
type use struct {
	variant      func(*evaluation) string
	base, metric string
}

// places lists the figures that an expression needs.
func (e *Expression) places(on *evaluation) (all []place) {
	for _, u := range e.uses {
		all = append(all, place{u.metric, u.variant(on), u.base})
	}
	return all
}

// Unit returns what the measured value of a threshold or claim is in. A metric's value is in
// its own unit, and what was calculated is in that of its dimension.
func (e *Expression) Unit() rundir.Unit {
	if e.left.unit != rundir.Number {
		return e.left.unit
	}
	return rundir.UnitOf(e.left.dim)
}

// LimitIn returns the metric that a threshold of a plan keeps below a constant, and that
// constant. Other thresholds have none.
func LimitIn(text string, plan rundir.Plan) (metric string, limit float64, ok bool) {
	e, err := Compile(text, ForThreshold, NamesOf(plan))
	if err != nil || e.limit == nil {
		return "", 0, false
	}
	return e.uses[0].metric, *e.limit, true
}

// UnitIn returns the unit of an expression of a plan. It is Number for one that does not
// compile: it did when its value was measured, so the folder was edited.
func UnitIn(text string, kind Kind, plan rundir.Plan) rundir.Unit {
	e, err := Compile(text, kind, NamesOf(plan))
	if err != nil {
		return rundir.Number
	}
	return e.Unit()
}

// UnitsOf returns the units of what a run's thresholds and claims measured, by their text.
func UnitsOf(run *rundir.Run) map[string]rundir.Unit {
	units := map[string]rundir.Unit{}
	for _, x := range run.Thresholds {
		units[x.Text] = UnitIn(x.Text, ForThreshold, run.Plan)
	}
	for _, x := range run.Claims {
		if x.Holds != "" {
			units[x.Holds] = UnitIn(x.Holds, ForClaim, run.Plan)
		}
	}
	return units
}

// Names are those of a plan that expressions may use.
type Names struct {
	Variants, Steps []string
	LeftOut         map[string]string // variants that could not be built on this machine, and why
}

// NamesOf returns the names of a plan: its variants, those left out, and the steps of
// scenarios.
func NamesOf(plan rundir.Plan) (n Names) {
	for _, v := range plan.Variants {
		n.Variants = append(n.Variants, v.Name)
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

// Compile parses and checks an expression, which may use these names.
// All faults are reported at once, joined, each an *Error.
//
// Thresholds and claims are written in one language:
//
//	response.p99 < 80ms and errors.ratio < 0.1%
//	throughput >= 5000/s
//	slope(rss) < 5%/30min
//	spread(throughput) < 5%
//	ratio(goroutine, pool, throughput) >= 1.36
//	value("pool-500", response.p99) < min(10ms, 2 * value("pool-100", response.p99))
//	ratio(thread, goroutine, program.switch_seconds) > 4
//
// # Figures
//
// A metric alone is that of each variant in turn in a threshold. In a claim the
// variant is named, unless there is only one. Functions lists what can be called.
//
// In a threshold slope(gauge) and spread(metric) stand for each variant in turn, and so
// they do in a claim for the only one. A variant's name stands bare when it is an
// identifier, and in quotes otherwise.
//
// Behind a metric {step=NAME} stands for the requests of one step of a scenario:
//
//	response.p99{step=login} < 200ms and errors.ratio{step=list} < 0.1%
//	ratio(new, old, service.p50{step=list}) < 1.02
//
// Throughput, response, service, errors.ratio and errors.total are known of each step, and
// of one whose responses are answers of language models first_token, token_time,
// tokens_per_second, prompt_tokens_per_second and goodput.
//
// The operators are < <= > >= == != + - * / and, or, not. Comparisons may be chained: 1ms < response.p99 <
// 1s.
//
// # Units
//
// A unit stands right behind its number: ns us µs ms s m min h; B KB MB GB KiB
// MiB GiB; %; /s /min /h. A share over a time is a rate as well, as 2%/h and
// 5%/30min are. A time over a time is a plain number, a plain number over a time a
// rate, a rate times a time a plain number again. Figures of different dimensions
// are neither compared nor added. A plain number may stand for a size or a rate,
// but a time and a slope need their unit: without, 80 would be 80 seconds and 5%
// would be 5 % in each second, limits that nothing breaks.
//
// # Intervals
//
// Every figure is an estimate with its interval, and arithmetic is that of
// intervals: the result holds all values that the operands can give. A figure
// named twice counts as two, so the ratio of two variants is narrower by ratio()
// than by a division. A comparison is true when the whole interval keeps it, false
// when none of it does, and undecided when the interval straddles the limit. Two
// figures are equal only where both are exact; they differ where their intervals
// do not meet. A figure that is missing leaves what needs it undecided. "And" and
// "or" are Kleene's: a side that settles the matter does, whatever the other is.
//
// A figure without an interval, as of a single trial, decides a threshold by its
// estimate, and leaves a claim undecided.
func Compile(text string, kind Kind, names Names) (*Expression, error) {
	if len(text) > MaxExpression {
		return nil, &Error{1, fmt.Sprintf("%d bytes; an expression has at most %d", len(text), MaxExpression)}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{1, "not valid UTF-8"}
	}
	runes := []rune(text)
	if strings.TrimSpace(text) == "" {
		return nil, &Error{1, "empty; want a condition such as response.p99 < 80ms"}
	}
	unlabelled, steps, faults := takeSteps(runes)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	blanked, behind, faults := takeUnits(unlabelled)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	tree, err := parser.Parse(blanked)
	if err != nil {
		return nil, located(err, len(runes))
	}
	c := compiler{kind: kind, variants: names.Variants, missing: names.LeftOut, known: names.Steps, units: behind, steps: steps, placed: map[int]bool{}}
	e := &Expression{}
	e.holds, e.left = c.top(tree.Node)
	e.limit = c.limit(tree.Node)
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
		return nil, errors.Join(faults...)
	}
	return e, nil
}

// unexpectedToken is how the parser names what it did not expect.
var unexpectedToken = regexp.MustCompile(`unexpected token \w+\((".*")\)`)

// located turns the parser's error into one of ours. The parser counts
// characters from 0 and may point behind the end.
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

// A number and a condition are compiled expressions. A number fails when a figure that it
// needs is missing. A condition is then undecided.
type (
	number    func(*evaluation) (figure, error)
	condition func(*evaluation) ruling
)

// An evaluation is the context in which an expression is evaluated.
type evaluation struct {
	evidence
	variant    string // whose metrics bare names are
	byEstimate bool   // a figure without an interval is decided by its estimate
}

// A typed number knows its dimension. Its number is nil when it had a fault.
type typed struct {
	number
	dim  dimension
	unit rundir.Unit // of a metric's value; otherwise Number
}

type compiler struct {
	kind       Kind
	variants   []string
	missing    map[string]string // variants that could not be built, and why
	known      []string          // the steps of scenarios
	units      map[int]units.Unit
	steps      map[int]stepLabel // by the position of their metric
	placed     map[int]bool      // those of them that a metric has
	perVariant bool
	uses       []use
	leftOut    []rundir.LeftOut
	faults     []*Error
}

func (c *compiler) fault(n ast.Node, format string, args ...any) {
	c.faultAt(start(n), format, args...)
}

func (c *compiler) faultAt(position int, format string, args ...any) {
	c.faults = append(c.faults, &Error{position + 1, fmt.Sprintf(format, args...)})
}

// start returns where the text of a node begins; the node's own location is
// that of its operator.
func start(n ast.Node) int {
	switch n := n.(type) {
	case *ast.BinaryNode:
		return min(n.Location().From, start(n.Left))
	case *ast.MemberNode:
		return min(n.Location().From, start(n.Node))
	}
	return n.Location().From
}

// top compiles the whole expression. When it is one comparison, its left side
// is what was measured.
func (c *compiler) top(n ast.Node) (condition, typed) {
	if b, ok := n.(*ast.BinaryNode); ok && isComparison(b.Operator) {
		holds, left := c.comparison(b)
		return holds, left
	}
	return c.condition(n), typed{}
}

// limit returns the constant below which an expression keeps one metric.
func (c *compiler) limit(n ast.Node) *float64 {
	b, ok := n.(*ast.BinaryNode)
	if !ok || b.Operator != "<" && b.Operator != "<=" || len(c.uses) != 1 {
		return nil
	}
	switch b.Left.(type) {
	case *ast.IdentifierNode, *ast.MemberNode:
	default:
		return nil
	}
	var v float64
	switch right := b.Right.(type) {
	case *ast.IntegerNode:
		v = float64(right.Value)
	case *ast.FloatNode:
		v = right.Value
	default:
		return nil
	}
	if u, ok := c.units[b.Right.Location().From]; ok {
		v = u.Of(v)
	}
	return &v
}

func isComparison(operator string) bool {
	return slices.Contains([]string{"<", "<=", ">", ">=", "==", "!="}, operator)
}

// condition compiles an expression that is true or false.
func (c *compiler) condition(n ast.Node) condition {
	switch n := n.(type) {
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			operand := c.condition(n.Node)
			return func(e *evaluation) ruling {
				r := operand(e)
				return ruling{-r.is, r.why}
			}
		}
	case *ast.BinaryNode:
		switch {
		case isComparison(n.Operator):
			holds, _ := c.comparison(n)
			return holds
		case n.Operator == "and" || n.Operator == "&&":
			return c.joined(n, no)
		case n.Operator == "or" || n.Operator == "||":
			return c.joined(n, yes)
		}
	}
	c.fault(n, "%s is not a condition; want a comparison such as response.p99 < 80ms", describe(n))
	return nil
}

func (c *compiler) joined(n *ast.BinaryNode, decisive truth) condition {
	left, right := c.condition(n.Left), c.condition(n.Right)
	return func(e *evaluation) ruling { return both(left(e), right(e), decisive) }
}

func (c *compiler) comparison(n *ast.BinaryNode) (condition, typed) {
	left, right := c.number(n.Left), c.number(n.Right)
	if left.number == nil || right.number == nil {
		return nil, typed{}
	}
	dim := c.compatible(n, left.dim, right.dim)
	return func(e *evaluation) ruling {
		l, lerr := left.number(e)
		r, rerr := right.number(e)
		if err := errors.Join(lerr, rerr); err != nil {
			return ruling{undecided, []rundir.Message{texts.Together(texts.Reasons(err)...)}}
		}
		is, known := l.compare(n.Operator, r), l.bounded && r.bounded
		switch {
		case is == undecided && l.low < l.high && r.low < r.high:
			return ruling{is, []rundir.Message{texts.New("range.overlaps").With("range", l.spelled(dim)).With("other", r.spelled(dim))}}
		case is == undecided && l.low < l.high:
			return ruling{is, []rundir.Message{straddles(l.spelled(dim), r.spelled(dim))}}
		case is == undecided:
			return ruling{is, []rundir.Message{straddles(r.spelled(dim), l.spelled(dim))}}
		case !known && e.byEstimate:
			return ruling{is, []rundir.Message{texts.New("undecided.estimate")}}
		case !known:
			return ruling{undecided, []rundir.Message{texts.New("undecided.rounds")}}
		}
		return ruling{is: is}
	}, left
}

func straddles(wide, edge rundir.Message) rundir.Message {
	return texts.New("range.straddles").With("range", wide).With("edge", edge)
}

// compatible reports a fault unless the operands can be compared or added, and returns
// the dimension of both. A plain number may stand for bytes or for a rate, but not for a
// time: 80 could be meant in any unit, and read as seconds it makes a threshold that
// never breaks. Nor may 5% stand for a growth: it would be the growth in each second.
func (c *compiler) compatible(n *ast.BinaryNode, left, right dimension) dimension {
	return c.unified(n.Location().From, n.Left, left, n.Right, right)
}

func (c *compiler) unified(position int, leftNode ast.Node, left dimension, rightNode ast.Node, right dimension) dimension {
	needs := map[dimension]string{duration: "a time needs a unit, such as 80ms", growthRate: "a slope needs a time, such as 5%/30min"}
	switch {
	case left == right:
		return left
	case left == plain && needs[right] != "":
		c.fault(leftNode, "%s", needs[right])
	case right == plain && needs[left] != "":
		c.fault(rightNode, "%s", needs[left])
	case left == plain || left == rate && right == growthRate:
		return right
	case right == plain || left == growthRate && right == rate:
		return left
	default:
		c.faultAt(position, "%s and %s do not go together", left, right)
	}
	return left
}

// number compiles an expression with a value.
func (c *compiler) number(n ast.Node) typed {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return c.literal(n, float64(n.Value))
	case *ast.FloatNode:
		return c.literal(n, n.Value)
	case *ast.IdentifierNode, *ast.MemberNode:
		if m, ok := c.metric(n); ok {
			return c.bare(n, m)
		}
		return typed{}
	case *ast.UnaryNode:
		if n.Operator == "-" || n.Operator == "+" {
			return c.sign(n)
		}
	case *ast.BinaryNode:
		if slices.Contains([]string{"+", "-", "*", "/"}, n.Operator) {
			return c.arithmetic(n)
		}
	case *ast.CallNode:
		return c.call(n)
	case *ast.BuiltinNode:
		return c.builtin(n)
	}
	c.fault(n, "%s is not a number; want a metric, a number with its unit, or ratio(…), value(…), slope(…), spread(…), min(…), max(…), abs(…)", describe(n))
	return typed{}
}

func (c *compiler) literal(n ast.Node, v float64) typed {
	t := typed{dim: plain}
	if u, ok := c.units[n.Location().From]; ok {
		v, t.dim = u.Of(v), u.Dimension
	}
	t.number = func(*evaluation) (figure, error) { return sound(exactly(v), nil) }
	return t
}

// bare compiles a metric without a variant.
func (c *compiler) bare(n ast.Node, m metric) typed {
	if c.kind == ForProbe && m.name == rundir.MetricCapacity {
		c.fault(n, "%s is what the search is to find", m.name)
		return typed{}
	}
	variant, ok := c.ofWhich(n, m.name, "value", m.name)
	if !ok {
		return typed{}
	}
	c.uses = append(c.uses, use{variant: variant, metric: m.name})
	return typed{func(e *evaluation) (figure, error) { return sound(e.value(variant(e), m)) }, m.dim(), rundir.MetricOf(m.name).Unit}
}

// ofWhich returns the variant of a figure that names none: in a threshold the variant
// under judgement, in a claim the only one.
func (c *compiler) ofWhich(n ast.Node, what, function, argument string) (variant func(*evaluation) string, ok bool) {
	if c.kind != ForClaim {
		c.perVariant = true
		return func(e *evaluation) string { return e.variant }, true
	}
	if len(c.variants) != 1 {
		c.fault(n, "%s of which variant? write %s(%s, %s)", what, function, c.example(), argument)
		return nil, false
	}
	return named(c.variants[0]), true
}

func named(variant string) func(*evaluation) string {
	return func(*evaluation) string { return variant }
}

func (c *compiler) example() string {
	if len(c.variants) == 0 {
		return `"name"`
	}
	return strconv.Quote(c.variants[0])
}

func (c *compiler) sign(n *ast.UnaryNode) typed {
	operand := c.number(n.Node)
	if operand.number == nil || n.Operator == "+" {
		return operand
	}
	return typed{func(e *evaluation) (figure, error) {
		v, err := operand.number(e)
		return v.negated(), err
	}, operand.dim, operand.unit}
}

func (c *compiler) arithmetic(n *ast.BinaryNode) typed {
	left, right := c.number(n.Left), c.number(n.Right)
	if left.number == nil || right.number == nil {
		return typed{}
	}
	var dim dimension
	var possible bool
	var combine func(a, b figure) figure
	switch n.Operator {
	case "+":
		dim, combine = c.compatible(n, left.dim, right.dim), figure.plus
	case "-":
		dim, combine = c.compatible(n, left.dim, right.dim), figure.minus
	case "*":
		combine = figure.times
		if dim, possible = left.dim.Times(right.dim); !possible {
			c.faultAt(n.Location().From, "%s times %s makes no figure", left.dim, right.dim)
		}
	case "/":
		combine = figure.over
		if dim, possible = left.dim.Over(right.dim); !possible {
			c.faultAt(n.Location().From, "%s over %s makes no figure", left.dim, right.dim)
		}
	}
	return typed{func(e *evaluation) (figure, error) {
		l, lerr := left.number(e)
		r, rerr := right.number(e)
		if err := errors.Join(lerr, rerr); err != nil {
			return figure{}, err
		}
		v := combine(l, r)
		if math.IsNaN(v.estimate) || math.IsInf(v.estimate, 0) {
			return figure{}, texts.NewError("lacks.arithmetic", "left", fmt.Sprintf("%g", l.estimate), "operator", n.Operator, "right", fmt.Sprintf("%g", r.estimate))
		}
		return v, nil
	}, dim, rundir.Number}
}

// builtin compiles min, max and abs, which the parser knows as its own.
func (c *compiler) builtin(n *ast.BuiltinNode) typed {
	var combine func(a, b figure) figure
	switch n.Name {
	case "min":
		combine = figure.smaller
	case "max":
		combine = figure.larger
	case "abs":
	default:
		c.fault(n, "unknown function %s%s", quote(n.Name), meant(n.Name, functions()))
		return typed{}
	}
	if n.Name == "abs" && len(n.Arguments) != 1 || n.Name != "abs" && len(n.Arguments) < 2 {
		c.fault(n, "%s of %d arguments; want abs(a), min(a, b, …) or max(a, b, …)", n.Name, len(n.Arguments))
		return typed{}
	}
	var operands []number
	var dim dimension
	for i, a := range n.Arguments {
		operand := c.number(a)
		if operand.number == nil {
			return typed{}
		}
		if i == 0 {
			dim = operand.dim
		} else {
			dim = c.unified(start(a), n.Arguments[0], dim, a, operand.dim)
		}
		operands = append(operands, operand.number)
	}
	return typed{func(e *evaluation) (figure, error) {
		result, err := operands[0](e)
		if combine == nil {
			return result.magnitude(), err
		}
		for _, operand := range operands[1:] {
			v, missing := operand(e)
			result, err = combine(result, v), errors.Join(err, missing)
		}
		return result, err
	}, dim, rundir.Number}
}

// A Function is what an expression can call.
type Function struct{ Name, Usage, About string }

// Functions lists them.
func Functions() []Function {
	return []Function{
		{"ratio", "ratio(variant, base, metric)", "a metric of one variant over that of another, paired by rounds"},
		{"value", "value(variant, metric)", "a metric of one variant"},
		{"slope", "slope(gauge) or slope(variant, gauge)", "how fast a gauge of the target grows over the window, relative to its beginning: " + strings.Join(gauges(), ", ")},
		{"spread", "spread(metric) or spread(variant, metric)", "how much a metric varies between trials: standard deviation over mean"},
		{"min", "min(a, b, …)", "the least of several figures"},
		{"max", "max(a, b, …)", "the largest"},
		{"abs", "abs(a)", "a figure without its sign"},
	}
}

func functions() (names []string) {
	for _, f := range Functions() {
		names = append(names, f.Name)
	}
	return names
}

// gauges are the names that slope accepts.
func gauges() (names []string) {
	for _, g := range rundir.Gauges() {
		names = append(names, g.Name)
	}
	return names
}

func (c *compiler) call(n *ast.CallNode) typed {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		c.fault(n.Callee, "%s is not a function; want one of %s", describe(n.Callee), strings.Join(functions(), ", "))
		return typed{}
	}
	if c.kind == ForProbe && slices.Contains([]string{"ratio", "value", "slope", "spread"}, callee.Value) {
		c.fault(n, "%s is of a whole run: a search judges each of its trials by itself", callee.Value)
		return typed{}
	}
	switch callee.Value {
	case "ratio":
		if len(n.Arguments) != 3 {
			c.fault(n, "ratio of %d arguments; want ratio(variant, base, metric)", len(n.Arguments))
			return typed{}
		}
		variant, variantOK := c.variant(n.Arguments[0])
		base, baseOK := c.variant(n.Arguments[1])
		m, metricOK := c.metric(n.Arguments[2])
		if !variantOK || !baseOK || !metricOK {
			return typed{}
		}
		c.uses = append(c.uses, use{named(variant), base, m.name})
		return typed{func(e *evaluation) (figure, error) { return sound(e.ratio(variant, base, m)) }, plain, rundir.Number}
	case "value":
		if len(n.Arguments) != 2 {
			c.fault(n, "value of %d arguments; want value(variant, metric)", len(n.Arguments))
			return typed{}
		}
		variant, variantOK := c.variant(n.Arguments[0])
		m, metricOK := c.metric(n.Arguments[1])
		if !variantOK || !metricOK {
			return typed{}
		}
		c.uses = append(c.uses, use{variant: named(variant), metric: m.name})
		return typed{func(e *evaluation) (figure, error) { return sound(e.value(variant, m)) }, m.dim(), rundir.MetricOf(m.name).Unit}
	case "slope":
		return c.slope(n)
	case "spread":
		return c.spread(n)
	}
	c.fault(n, "unknown function %s%s", quote(callee.Value), meant(callee.Value, functions()))
	return typed{}
}

func (c *compiler) slope(n *ast.CallNode) typed {
	if len(n.Arguments) != 1 && len(n.Arguments) != 2 {
		c.fault(n, "slope of %d arguments; want slope(gauge) or slope(variant, gauge)", len(n.Arguments))
		return typed{}
	}
	var variant func(*evaluation) string
	variantOK := true
	if len(n.Arguments) == 2 {
		var name string
		name, variantOK = c.variant(n.Arguments[0])
		variant = named(name)
	}
	last := n.Arguments[len(n.Arguments)-1]
	gauge, isName := dotted(last)
	switch {
	case !isName:
		c.fault(last, "want the name of a gauge here: one of %s", strings.Join(gauges(), ", "))
		return typed{}
	case !slices.Contains(gauges(), gauge):
		c.fault(last, "unknown gauge %s%s", quote(gauge), meant(gauge, gauges()))
		return typed{}
	}
	if variant == nil {
		variant, variantOK = c.ofWhich(n, "the slope of "+gauge, "slope", gauge)
	}
	if !variantOK {
		return typed{}
	}
	return typed{func(e *evaluation) (figure, error) { return sound(e.slope(variant(e), gauge)) }, growthRate, rundir.Number}
}

func (c *compiler) spread(n *ast.CallNode) typed {
	if len(n.Arguments) != 1 && len(n.Arguments) != 2 {
		c.fault(n, "spread of %d arguments; want spread(metric) or spread(variant, metric)", len(n.Arguments))
		return typed{}
	}
	last := n.Arguments[len(n.Arguments)-1]
	var variant func(*evaluation) string
	variantOK := true
	if len(n.Arguments) == 2 {
		var name string
		name, variantOK = c.variant(n.Arguments[0])
		variant = named(name)
	}
	m, metricOK := c.metric(last)
	switch {
	case metricOK && m.fact:
		c.fault(last, "%s is a count or an extreme of the run, which has no spread", m.name)
		return typed{}
	case metricOK && variant == nil:
		variant, variantOK = c.ofWhich(n, "the spread of "+m.name, "spread", m.name)
	}
	if !variantOK || !metricOK {
		return typed{}
	}
	c.uses = append(c.uses, use{variant: variant, metric: m.name})
	return typed{func(e *evaluation) (figure, error) { return sound(e.spread(variant(e), m)) }, plain, rundir.Share}
}

// variant reads a variant's name: bare when it is an identifier, or a string.
func (c *compiler) variant(n ast.Node) (string, bool) {
	var name string
	switch n := n.(type) {
	case *ast.IdentifierNode:
		name = n.Value
	case *ast.StringNode:
		name = n.Value
	default:
		c.fault(n, `want the name of a variant here, in quotes when it is more than letters and digits, as in "pool-100"`)
		return "", false
	}
	if slices.Contains(c.variants, name) {
		return name, true
	}
	if why, ok := c.missing[name]; ok {
		c.leftOut = append(c.leftOut, rundir.LeftOut{Variant: name, Why: why})
		return name, true
	}
	if len(c.variants) == 0 {
		c.fault(n, "unknown variant %s; there is none", quote(name))
	} else {
		c.fault(n, "unknown variant %s%s", quote(name), meant(name, c.variants))
	}
	return "", false
}

// metric reads the name of a metric: words joined by dots.
func (c *compiler) metric(n ast.Node) (metric, bool) {
	name, ok := dotted(n)
	if !ok {
		c.fault(n, "want the name of a metric here, such as throughput or response.p99")
		return metric{}, false
	}
	m, ok := lookup(name)
	label, labelled := c.steps[start(n)]
	switch {
	case ok && !labelled:
		return m, true
	case ok:
		return c.stepMetric(n, m, label)
	case slices.Contains(c.variants, name):
		c.fault(n, "%s is a variant, not a metric; write value(%s, metric)", quote(name), strconv.Quote(name))
	default:
		c.fault(n, "%s", unknownMetric(name))
	}
	return metric{}, false
}

// stepMetric is a metric with a step behind it.
func (c *compiler) stepMetric(n ast.Node, of metric, label stepLabel) (metric, bool) {
	c.placed[start(n)] = true
	m, ok := lookup(rundir.StepMetric(of.name, label.name))
	switch {
	case !ok:
		c.faultAt(label.at, "%s", withoutSteps(of.name))
	case !slices.Contains(c.known, label.name):
		c.faultAt(label.at, "%s", unknownStep(label.name, c.known))
	default:
		return m, true
	}
	return metric{}, false
}

func unknownMetric(name string) string {
	names := []string{"capacity", rundir.OfPrograms + "NAME", rundir.OfObservers + "NAME"}
	for i, m := range metrics() {
		names = slices.Insert(names, i, m.name)
	}
	// A group or a quantile without its other half is completed rather than corrected.
	var partial []string
	for _, m := range names {
		if strings.HasPrefix(m, name+".") || strings.HasSuffix(m, "."+name) {
			partial = append(partial, m)
		}
	}
	switch len(partial) {
	case 0:
	case 1:
		return "unknown metric " + quote(name) + "; did you mean " + partial[0] + "?"
	default:
		names = partial
	}
	return "unknown metric " + quote(name) + meant(name, names)
}

func dotted(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return n.Value, true
	case *ast.MemberNode:
		left, ok := dotted(n.Node)
		property, isName := n.Property.(*ast.StringNode)
		if !ok || !isName || n.Optional || n.Method {
			return "", false
		}
		return left + "." + property.Value, true
	}
	return "", false
}

// describe names a node in the reader's words.
func describe(n ast.Node) string {
	if name, ok := dotted(n); ok {
		return quote(name)
	}
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.StringNode:
		return "a string"
	case *ast.BoolNode:
		return strconv.FormatBool(n.Value)
	case *ast.UnaryNode:
		return "operator " + quote(n.Operator)
	case *ast.BinaryNode:
		return "operator " + quote(n.Operator)
	case *ast.CallNode, *ast.BuiltinNode:
		return "a function's value"
	}
	return "this"
}

// quote makes a name safe and recognisable in a message.
func quote(name string) string { return strconv.Quote(name) }
