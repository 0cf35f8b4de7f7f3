package expr

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"

	"dyno/internal/nearest"
	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/results/rundir"
)

// A number and a condition are compiled expressions. A number fails when a figure that it
// needs is missing. A condition is then undecided.
type (
	number    func(*evaluation) (Quantity, error)
	condition func(*evaluation) ruling
)

// An evaluation is the context in which an expression is evaluated.
type evaluation struct {
	Evidence
	variant    string // whose metrics bare names are
	byEstimate bool   // a figure without an interval is decided by its estimate
}

// A typed number knows its dimension. Its number is nil when it had a fault.
type typed struct {
	number
	dim      dimension
	unit     rundir.Unit // of a metric's value, or of a number in percent; otherwise Number
	form     form
	constant bool // it has no figure in it
}

type compiler struct {
	kind       Kind
	variants   []string
	missing    map[string]string // as in Names.LeftOut
	known      []string          // the steps of scenarios
	latency    string            // the clock of quantiles without one
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

// A bound is the constant with which an expression compares one metric.
type bound struct {
	limit float64
	below bool // it keeps the metric below
}

// bound returns that of an expression which is nothing else.
func (c *compiler) bound(n ast.Node) *bound {
	b, ok := n.(*ast.BinaryNode)
	if !ok || !isComparison(b.Operator) || len(c.uses) != 1 {
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
	return &bound{v, b.Operator == "<" || b.Operator == "<="}
}

func isComparison(operator string) bool {
	return slices.Contains([]string{"<", "<=", ">", ">=", "==", "!="}, operator)
}

// condition compiles an expression that is true or false. It also returns what was measured: the
// figure of a comparison. Of several comparisons that a claim joins by "and", it is the first one's.
func (c *compiler) condition(n ast.Node) (condition, typed) {
	switch n := n.(type) {
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			operand, _ := c.condition(n.Node)
			return func(e *evaluation) ruling {
				r := operand(e)
				return ruling{-r.is, r.why}
			}, typed{}
		}
	case *ast.BinaryNode:
		switch {
		case isComparison(n.Operator):
			return c.comparison(n)
		case n.Operator == "and" || n.Operator == "&&":
			left, measured := c.condition(n.Left)
			right, _ := c.condition(n.Right)
			if c.kind != ForClaim {
				measured = typed{}
			}
			return joined(left, right, no), measured
		case n.Operator == "or" || n.Operator == "||":
			left, _ := c.condition(n.Left)
			right, _ := c.condition(n.Right)
			return joined(left, right, yes), typed{}
		}
	}
	c.fault(n, "%s is not a condition; want a comparison such as response.p99 < 80ms", describe(n))
	return nil, typed{}
}

func joined(left, right condition, decisive truth) condition {
	return func(e *evaluation) ruling { return both(left(e), right(e), decisive) }
}

func (c *compiler) comparison(n *ast.BinaryNode) (condition, typed) {
	left, right := c.number(n.Left), c.number(n.Right)
	if left.number == nil || right.number == nil {
		return nil, typed{}
	}
	dim := c.compatible(n, left.dim, right.dim)
	measured, limit := left, right
	if left.constant {
		measured, limit = right, left
	}
	// What a program prints has no unit of its own.
	if limit.unit == rundir.Share && (measured.unit == rundir.Number || measured.unit == rundir.Count) {
		measured.unit = rundir.Share
	}
	return func(e *evaluation) ruling {
		l, lerr := left.number(e)
		r, rerr := right.number(e)
		if err := errors.Join(lerr, rerr); err != nil {
			return ruling{undecided, []rundir.Message{texts.Together(texts.Reasons(err)...)}}
		}
		is, known := l.compare(n.Operator, r), l.Bounded && r.Bounded
		switch {
		case is == undecided && l.Low < l.High && r.Low < r.High:
			return ruling{is, []rundir.Message{texts.New("range.overlaps").With("range", l.spelled(dim.Write)).With("other", r.spelled(dim.Write))}}
		case is == undecided && l.Low < l.High:
			return ruling{is, []rundir.Message{straddles(l.spelled(dim.Write), r.spelled(dim.Write))}}
		case is == undecided:
			return ruling{is, []rundir.Message{straddles(r.spelled(dim.Write), l.spelled(dim.Write))}}
		case !known && e.byEstimate:
			return ruling{is, []rundir.Message{texts.New("undecided.estimate")}}
		case !known:
			return ruling{undecided, []rundir.Message{texts.New("undecided.rounds")}}
		}
		return ruling{is: is}
	}, measured
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
	c.fault(n, "%s is not a number; want a metric, a number with its unit, or %s", describe(n), strings.Join(functions(), "(…), ")+"(…)")
	return typed{}
}

func (c *compiler) literal(n ast.Node, v float64) typed {
	t := typed{dim: plain, constant: true}
	if u, ok := c.units[n.Location().From]; ok {
		if v, t.dim = u.Of(v), u.Dimension; u.Name == "%" {
			t.unit = rundir.Share
		}
	}
	t.number = func(*evaluation) (Quantity, error) { return sound(exactly(v), nil) }
	return t
}

// bare compiles a metric without a variant.
func (c *compiler) bare(n ast.Node, m rundir.Metric) typed {
	if c.kind == ForProbe && m.Name == rundir.MetricCapacity {
		c.fault(n, "%s is what the search is to find", m.Name)
		return typed{}
	}
	variant, ok := c.ofWhich(n, m.Name, "value", m.Name)
	if !ok {
		return typed{}
	}
	c.uses = append(c.uses, use{variant: variant, metric: m.Name})
	return typed{number: func(e *evaluation) (Quantity, error) { return sound(e.Value(variant(e.variant), m.Name)) }, dim: m.Dimension(), unit: m.Unit}
}

// ofWhich returns the variant of a figure that names none: in a threshold the variant
// under judgement, in a claim the only one.
func (c *compiler) ofWhich(n ast.Node, what, function, argument string) (variant func(judged string) string, ok bool) {
	if c.kind != ForClaim {
		c.perVariant = true
		return func(judged string) string { return judged }, true
	}
	if len(c.variants) != 1 {
		c.fault(n, "%s of which variant? write %s(%s, %s)", what, function, c.example(), argument)
		return nil, false
	}
	return named(c.variants[0]), true
}

func named(variant string) func(string) string {
	return func(string) string { return variant }
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
	of := operand.number
	if operand.hasSign() {
		operand.form = formDifference
	} else {
		operand.form = formValue
	}
	operand.number = func(e *evaluation) (Quantity, error) {
		v, err := of(e)
		return v.negated(), err
	}
	return operand
}

func (c *compiler) arithmetic(n *ast.BinaryNode) typed {
	left, right := c.number(n.Left), c.number(n.Right)
	if left.number == nil || right.number == nil {
		return typed{}
	}
	var dim dimension
	var possible bool
	var combine func(a, b Quantity) Quantity
	switch n.Operator {
	case "+":
		dim, combine = c.compatible(n, left.dim, right.dim), Quantity.plus
	case "-":
		dim, combine = c.compatible(n, left.dim, right.dim), Quantity.minus
	case "*":
		combine = Quantity.times
		if dim, possible = left.dim.Times(right.dim); !possible {
			c.faultAt(n.Location().From, "%s times %s makes no figure", left.dim, right.dim)
		}
	case "/":
		combine = Quantity.over
		if dim, possible = left.dim.Over(right.dim); !possible {
			c.faultAt(n.Location().From, "%s over %s makes no figure", left.dim, right.dim)
		}
	}
	return typed{number: func(e *evaluation) (Quantity, error) {
		l, lerr := left.number(e)
		r, rerr := right.number(e)
		if err := errors.Join(lerr, rerr); err != nil {
			return Quantity{}, err
		}
		v := combine(l, r)
		if math.IsNaN(v.Estimate) || math.IsInf(v.Estimate, 0) {
			return Quantity{}, texts.NewError("lacks.arithmetic", "left", fmt.Sprintf("%g", l.Estimate), "operator", n.Operator, "right", fmt.Sprintf("%g", r.Estimate))
		}
		return v, nil
	}, dim: dim, form: formOf(n.Operator, left, right), constant: left.constant && right.constant}
}

// builtin compiles min, max and abs, which the parser knows as its own.
func (c *compiler) builtin(n *ast.BuiltinNode) typed {
	var combine func(a, b Quantity) Quantity
	switch n.Name {
	case "min":
		combine = Quantity.smaller
	case "max":
		combine = Quantity.larger
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
	constant := true
	for i, a := range n.Arguments {
		operand := c.number(a)
		if operand.number == nil {
			return typed{}
		}
		constant = constant && operand.constant
		if i == 0 {
			dim = operand.dim
		} else {
			dim = c.unified(start(a), n.Arguments[0], dim, a, operand.dim)
		}
		operands = append(operands, operand.number)
	}
	return typed{number: func(e *evaluation) (Quantity, error) {
		result, err := operands[0](e)
		if combine == nil {
			return result.magnitude(), err
		}
		for _, operand := range operands[1:] {
			v, missing := operand(e)
			result, err = combine(result, v), errors.Join(err, missing)
		}
		return result, err
	}, dim: dim, constant: constant}
}

// A Function is what an expression can call.
type Function struct{ Name, Usage, About string }

// Functions lists them.
func Functions() []Function {
	return []Function{
		{"ratio", "ratio(variant, base, metric)", "a metric of one variant over that of another, paired by rounds"},
		{"change", "change(variant, base, metric)", "the same as a change: -42% where the ratio is 0.58; metric may be a sum, such as handshake.p50 + service.p50"},
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
	if c.kind == ForProbe && slices.Contains([]string{"ratio", "change", "value", "slope", "spread"}, callee.Value) {
		c.fault(n, "%s is of a whole run: a search judges each of its trials by itself", callee.Value)
		return typed{}
	}
	switch callee.Value {
	case "ratio":
		return typed{number: c.ratio(n, callee.Value), form: formRatio}
	case "change":
		over := c.ratio(n, callee.Value)
		if over == nil {
			return typed{}
		}
		return typed{number: func(e *evaluation) (Quantity, error) {
			v, err := over(e)
			return v.minus(exactly(1)), err
		}, unit: rundir.Share, form: formChange}
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
		c.uses = append(c.uses, use{variant: named(variant), metric: m.Name})
		return typed{number: func(e *evaluation) (Quantity, error) { return sound(e.Value(variant, m.Name)) }, dim: m.Dimension(), unit: m.Unit}
	case "slope":
		return c.slope(n)
	case "spread":
		return c.spread(n)
	}
	if callee.Value == "p" { // as k6 writes it
		c.fault(n, "unknown function %s; a percentile is written p95, p99 or p99.9", quote(callee.Value))
		return typed{}
	}
	c.fault(n, "unknown function %s%s", quote(callee.Value), meant(callee.Value, functions()))
	return typed{}
}

// ratio compiles what a metric, or a sum of metrics, of a variant is over that of a base. A sum is not
// paired by rounds.
func (c *compiler) ratio(n *ast.CallNode, function string) number {
	if len(n.Arguments) != 3 {
		c.fault(n, "%s of %d arguments; want %s(variant, base, metric)", function, len(n.Arguments), function)
		return nil
	}
	variant, variantOK := c.variant(n.Arguments[0])
	base, baseOK := c.variant(n.Arguments[1])
	metrics, metricsOK := c.summands(n.Arguments[2])
	if !variantOK || !baseOK || !metricsOK {
		return nil
	}
	if len(metrics) == 1 {
		name := metrics[0]
		c.uses = append(c.uses, use{named(variant), base, name})
		return func(e *evaluation) (Quantity, error) { return sound(e.Ratio(variant, base, name)) }
	}
	for _, name := range metrics {
		c.uses = append(c.uses, use{named(variant), "", name}, use{named(base), "", name})
	}
	sum := func(e *evaluation, of string) (total Quantity, err error) {
		for i, name := range metrics {
			v, missing := sound(e.Value(of, name))
			if err = errors.Join(err, missing); i > 0 {
				v = total.plus(v)
			}
			total = v
		}
		return total, err
	}
	return func(e *evaluation) (Quantity, error) {
		over, err := sum(e, variant)
		under, missing := sum(e, base)
		if err = errors.Join(err, missing); err != nil {
			return Quantity{}, err
		}
		return sound(over.over(under), nil)
	}
}

// summands returns the names of the metrics of a sum.
func (c *compiler) summands(n ast.Node) (names []string, ok bool) {
	b, isSum := n.(*ast.BinaryNode)
	if !isSum || b.Operator != "+" {
		m, ok := c.metric(n)
		return []string{m.Name}, ok
	}
	left, leftOK := c.summands(b.Left)
	right, rightOK := c.summands(b.Right)
	if !leftOK || !rightOK {
		return nil, false
	}
	of := func(name string) dimension { return rundir.MetricOf(name).Dimension() }
	c.compatible(b, of(left[0]), of(right[0]))
	return append(left, right...), true
}

func (c *compiler) slope(n *ast.CallNode) typed {
	if len(n.Arguments) != 1 && len(n.Arguments) != 2 {
		c.fault(n, "slope of %d arguments; want slope(gauge) or slope(variant, gauge)", len(n.Arguments))
		return typed{}
	}
	var variant func(judged string) string
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
	return typed{number: func(e *evaluation) (Quantity, error) { return sound(e.Slope(variant(e.variant), gauge)) }, dim: growthRate}
}

func (c *compiler) spread(n *ast.CallNode) typed {
	if len(n.Arguments) != 1 && len(n.Arguments) != 2 {
		c.fault(n, "spread of %d arguments; want spread(metric) or spread(variant, metric)", len(n.Arguments))
		return typed{}
	}
	last := n.Arguments[len(n.Arguments)-1]
	var variant func(judged string) string
	variantOK := true
	if len(n.Arguments) == 2 {
		var name string
		name, variantOK = c.variant(n.Arguments[0])
		variant = named(name)
	}
	m, metricOK := c.metric(last)
	switch {
	case metricOK && m.IsFact():
		c.fault(last, "%s is a count or an extreme of the run, which has no spread", m.Name)
		return typed{}
	case metricOK && variant == nil:
		variant, variantOK = c.ofWhich(n, "the spread of "+m.Name, "spread", m.Name)
	}
	if !variantOK || !metricOK {
		return typed{}
	}
	c.uses = append(c.uses, use{variant: variant, metric: m.Name})
	return typed{number: func(e *evaluation) (Quantity, error) { return sound(e.Spread(variant(e.variant), m.Name)) }, unit: rundir.Share}
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

// shortName is a summary of times without its clock.
var shortName = regexp.MustCompile(`^(p\d+|mean|max)$`)

// metric reads the name of a metric: words joined by dots. A quantile alone is one of response times.
func (c *compiler) metric(n ast.Node) (rundir.Metric, bool) {
	name, ok := dotted(n)
	if !ok {
		c.fault(n, "want the name of a metric here, such as throughput or response.p99")
		return rundir.Metric{}, false
	}
	if shortName.MatchString(name) {
		name = c.latency + "." + name
	}
	m, ok := rundir.FindMetric(name)
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
	return rundir.Metric{}, false
}

// stepMetric is a metric of a step.
func (c *compiler) stepMetric(n ast.Node, of rundir.Metric, label stepLabel) (rundir.Metric, bool) {
	c.placed[start(n)] = true
	m, ok := rundir.FindMetric(rundir.StepMetric(of.Name, label.name))
	switch {
	case !ok:
		c.faultAt(label.at, "%s", withoutSteps(of.Name))
	case !slices.Contains(c.known, label.name):
		c.faultAt(label.at, "%s", unknownStep(label.name, c.known))
	default:
		return m, true
	}
	return rundir.Metric{}, false
}

func unknownMetric(name string) string {
	names := []string{"capacity", rundir.OfPrograms + "NAME", rundir.OfObservers + "NAME"}
	for i, m := range rundir.Metrics() {
		names = slices.Insert(names, i, m.Name)
	}
	// A group or a quantile without its other half is completed rather than corrected.
	var partial []string
	for _, m := range names {
		if strings.HasPrefix(m, name+".") || strings.HasSuffix(m, "."+name) {
			partial = append(partial, m)
		}
	}
	best, near := map[string]string{"avg": "mean", "med": "p50"}[name], true
	switch {
	case best != "":
	case len(partial) == 1:
		best = partial[0]
	case len(partial) > 0:
		return "unknown metric " + quote(name) + meant(name, partial)
	default:
		best, near = nearest.Find(name, names)
	}
	if !near {
		return "unknown metric " + quote(name) + "; dyno help metrics lists them"
	}
	return "unknown metric " + quote(name) + "; did you mean " + best + "?"
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
