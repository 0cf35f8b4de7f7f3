package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// MaxExpression is how many bytes an expression may have.
const MaxExpression = 4096

// A Kind says what an expression is for.
type Kind int

const (
	// ForThreshold is an expression about any variant: its metrics are those of
	// the variant under judgement, which is each in turn.
	ForThreshold Kind = iota
	// ForClaim is an expression about the run: it names the variants, unless
	// there is only one.
	ForClaim
)

// An Expression is a condition on a run's figures.
type Expression struct {
	text       string
	holds      condition
	left       typed // of the comparison that is the whole expression; or nothing
	perVariant bool  // a metric stands without a variant
}

// Text returns the expression as it was written.
func (e *Expression) Text() string { return e.text }

// Unit returns what the measured value of a threshold or claim is in: "s", "B",
// "/s", or "" for a plain number and where nothing is measured.
func (e *Expression) Unit() string {
	return [...]string{plain: "", duration: "s", size: "B", rate: "/s"}[e.left.dim]
}

// An Error is a fault in an expression.
type Error struct {
	Column  int // of the fault in the text, in characters from 1
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

// Compile parses and checks an expression. Variants are the names it may use.
// All faults are reported at once, joined, each an *Error.
func Compile(text string, kind Kind, variants []string) (*Expression, error) {
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
	blanked, units, faults := takeUnits(runes)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	tree, err := parser.Parse(blanked)
	if err != nil {
		return nil, located(err, len(runes))
	}
	c := compiler{kind: kind, variants: variants, units: units, metrics: metrics()}
	e := &Expression{text: text}
	e.holds, e.left = c.top(tree.Node)
	e.perVariant = c.perVariant
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
	return &Error{min(max(fault.From, 0)+1, max(length, 1)), message}
}

// A number and a condition are compiled expressions. They fail when a figure
// they need is missing.
type (
	number    func(*scene) (float64, error)
	condition func(*scene) (bool, error)
)

// A typed number knows its dimension. Its number is nil when it had a fault.
type typed struct {
	number
	dim dimension
}

type compiler struct {
	kind       Kind
	variants   []string
	units      map[int]unit
	metrics    []metric
	perVariant bool
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

func isComparison(operator string) bool {
	return slices.Contains([]string{"<", "<=", ">", ">=", "==", "!="}, operator)
}

// condition compiles what is true or false.
func (c *compiler) condition(n ast.Node) condition {
	switch n := n.(type) {
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			operand := c.condition(n.Node)
			return func(s *scene) (bool, error) {
				v, err := operand(s)
				return !v, err
			}
		}
	case *ast.BinaryNode:
		switch {
		case isComparison(n.Operator):
			holds, _ := c.comparison(n)
			return holds
		case n.Operator == "and" || n.Operator == "&&":
			return both(c.condition(n.Left), c.condition(n.Right), false)
		case n.Operator == "or" || n.Operator == "||":
			return both(c.condition(n.Left), c.condition(n.Right), true)
		}
	}
	c.fault(n, "%s is not a condition; want a comparison such as response.p99 < 80ms", describe(n))
	return nil
}

// both joins two conditions. One that is decisive (false for "and", true for
// "or") settles the matter even when the other is not known.
func both(left, right condition, decisive bool) condition {
	return func(s *scene) (bool, error) {
		l, lerr := left(s)
		if lerr == nil && l == decisive {
			return decisive, nil
		}
		r, rerr := right(s)
		if rerr == nil && r == decisive {
			return decisive, nil
		}
		return !decisive, errors.Join(lerr, rerr)
	}
}

func (c *compiler) comparison(n *ast.BinaryNode) (condition, typed) {
	left, right := c.number(n.Left), c.number(n.Right)
	if left.number == nil || right.number == nil {
		return nil, typed{}
	}
	c.compatible(n, left.dim, right.dim)
	return func(s *scene) (bool, error) {
		l, lerr := left.number(s)
		r, rerr := right.number(s)
		if lerr != nil || rerr != nil {
			return false, errors.Join(lerr, rerr)
		}
		switch n.Operator {
		case "<":
			return l < r, nil
		case "<=":
			return l <= r, nil
		case ">":
			return l > r, nil
		case ">=":
			return l >= r, nil
		case "==":
			return l == r, nil
		default:
			return l != r, nil
		}
	}, left
}

// compatible reports a fault unless the operands can be compared or added. A
// plain number may stand for bytes or for a rate, but not for a time: 80 could
// be meant as any unit, and read as seconds it makes a threshold that never
// breaks.
func (c *compiler) compatible(n *ast.BinaryNode, left, right dimension) dimension {
	return c.unified(n.Location().From, n.Left, left, n.Right, right)
}

func (c *compiler) unified(position int, leftNode ast.Node, left dimension, rightNode ast.Node, right dimension) dimension {
	switch {
	case left == right:
		return left
	case left == plain && right != duration:
		return right
	case right == plain && left != duration:
		return left
	case left == plain:
		c.fault(leftNode, "a time needs a unit, such as 80ms")
	case right == plain:
		c.fault(rightNode, "a time needs a unit, such as 80ms")
	default:
		c.faultAt(position, "%s and %s do not go together", left, right)
	}
	return left
}

// number compiles what has a value.
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
	c.fault(n, "%s is not a number; want a metric, a number with its unit, or ratio(…), value(…), min(…), max(…), abs(…)", describe(n))
	return typed{}
}

func (c *compiler) literal(n ast.Node, v float64) typed {
	t := typed{dim: plain}
	if u, ok := c.units[n.Location().From]; ok {
		v, t.dim = u.of(v), u.dim
	}
	t.number = func(*scene) (float64, error) { return v, nil }
	return t
}

// bare compiles a metric without a variant.
func (c *compiler) bare(n ast.Node, m metric) typed {
	if c.kind == ForClaim {
		if len(c.variants) != 1 {
			c.fault(n, "%s of which variant? write value(%s, %s)", m.name, c.example(), m.name)
			return typed{}
		}
		variant := c.variants[0]
		return typed{func(s *scene) (float64, error) { return s.value(variant, m) }, m.dim}
	}
	c.perVariant = true
	return typed{func(s *scene) (float64, error) { return s.value(s.variant, m) }, m.dim}
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
	return typed{func(s *scene) (float64, error) {
		v, err := operand.number(s)
		return -v, err
	}, operand.dim}
}

func (c *compiler) arithmetic(n *ast.BinaryNode) typed {
	left, right := c.number(n.Left), c.number(n.Right)
	if left.number == nil || right.number == nil {
		return typed{}
	}
	dim := left.dim
	switch n.Operator {
	case "+", "-":
		dim = c.compatible(n, left.dim, right.dim)
	case "*":
		switch {
		case left.dim == plain:
			dim = right.dim
		case right.dim != plain:
			c.faultAt(n.Location().From, "%s times %s makes no figure", left.dim, right.dim)
		}
	case "/":
		switch {
		case left.dim == right.dim:
			dim = plain
		case right.dim != plain:
			c.faultAt(n.Location().From, "%s over %s makes no figure", left.dim, right.dim)
		}
	}
	return typed{func(s *scene) (float64, error) {
		l, lerr := left.number(s)
		r, rerr := right.number(s)
		if lerr != nil || rerr != nil {
			return 0, errors.Join(lerr, rerr)
		}
		switch n.Operator {
		case "+":
			l += r
		case "-":
			l -= r
		case "*":
			l *= r
		case "/":
			l /= r
		}
		if math.IsNaN(l) || math.IsInf(l, 0) {
			return 0, fmt.Errorf("%s by %g has no value", n.Operator, r)
		}
		return l, nil
	}, dim}
}

// builtin compiles min, max and abs, which the parser knows as its own.
func (c *compiler) builtin(n *ast.BuiltinNode) typed {
	var combine func(a, b float64) float64
	switch n.Name {
	case "min":
		combine = func(a, b float64) float64 { return min(a, b) }
	case "max":
		combine = func(a, b float64) float64 { return max(a, b) }
	case "abs":
		combine = func(a, _ float64) float64 { return math.Abs(a) }
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
	return typed{func(s *scene) (float64, error) {
		result, err := operands[0](s)
		result = combine(result, result)
		for _, operand := range operands[1:] {
			v, e := operand(s)
			result, err = combine(result, v), errors.Join(err, e)
		}
		return result, err
	}, dim}
}

func functions() []string { return []string{"ratio", "value", "min", "max", "abs"} }

func (c *compiler) call(n *ast.CallNode) typed {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		c.fault(n.Callee, "%s is not a function; want one of %s", describe(n.Callee), strings.Join(functions(), ", "))
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
		return typed{func(s *scene) (float64, error) { return s.ratio(variant, base, m) }, plain}
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
		return typed{func(s *scene) (float64, error) { return s.value(variant, m) }, m.dim}
	}
	c.fault(n, "unknown function %s%s", quote(callee.Value), meant(callee.Value, functions()))
	return typed{}
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
	var names []string
	for _, m := range c.metrics {
		if m.name == name {
			return m, true
		}
		names = append(names, m.name)
	}
	if slices.Contains(c.variants, name) {
		c.fault(n, "%s is a variant, not a metric; write value(%s, metric)", quote(name), strconv.Quote(name))
		return metric{}, false
	}
	// A group or a quantile alone is completed rather than corrected.
	var partial []string
	for _, m := range names {
		if strings.HasPrefix(m, name+".") || strings.HasSuffix(m, "."+name) {
			partial = append(partial, m)
		}
	}
	if len(partial) > 0 {
		names = partial
	}
	c.fault(n, "unknown metric %s%s", quote(name), meant(name, names))
	return metric{}, false
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
