package planfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"dyno/internal/nesting"
	"dyno/lab/plan"
	"dyno/lab/schema"
)

// Bounds of a file. They keep the YAML parser, which recurses and takes time
// with the square of some of these, within its stack and within seconds.
const (
	maxFile   = 1 << 20 // bytes
	maxLines  = 10_000
	maxLine   = 64 << 10 // bytes
	maxTokens = 50_000
)

// A nodeKind is what a YAML value is.
type nodeKind uint8

const (
	isNull nodeKind = iota
	isText
	isNumber
	isBool
	isList
	isMapping
)

// A node is a YAML value with its place in the file.
type node struct {
	kind         nodeKind
	text         string // of a scalar, as written (quotes and folding undone)
	keys         []key  // of a mapping, in the file's order
	items        []*node
	line, column int
	path         string // such as load.stages[2].rate

	keyLine, keyColumn int // where its field's name is; 0 in a list

	spec *schema.Spec // what it has to be; nil when it has no place in an experiment
	bad  bool         // a fault was found in it; for a scalar only
}

// A key is one entry of a mapping.
type key struct {
	name  string
	value *node
}

// get returns the value of a key, or nil. It may be called on a nil node.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, k := range n.keys {
		if k.name == name {
			return k.value
		}
	}
	return nil
}

// find returns the value at a path below a mapping, or nil.
func (n *node) find(path string) *node {
	for n != nil && path != "" {
		var step string
		step, path, _ = strings.Cut(path, ".")
		n = n.get(step)
	}
	return n
}

// insert gives a mapping a value at a path below it.
func (n *node) insert(path string, value *node) {
	step, rest, below := strings.Cut(path, ".")
	if !below {
		n.keys = append(n.keys, key{step, value})
		return
	}
	next := n.get(step)
	if next == nil {
		next = &node{kind: isMapping}
		n.insert(step, next)
	}
	next.insert(rest, value)
}

// newLeaf returns a node for what options and flags say of a field. Words of a list have
// commas between, and names of a mapping a colon each.
func newLeaf(path string, s *schema.Spec, texts ...string) *node {
	n := &node{kind: isText, path: path, spec: s}
	switch {
	case s.Kind == schema.List:
		if n.kind = isList; s.Item.Kind == schema.Choice {
			texts = strings.Split(strings.Join(texts, ","), ",")
		}
		for _, t := range texts {
			n.items = append(n.items, newLeaf(path, s.Item, t))
		}
		return n
	case s.Names != nil:
		n.kind = isMapping
		for _, t := range texts {
			name, value, _ := strings.Cut(t, ":")
			n.keys = append(n.keys, key{name, newLeaf(schema.Join(path, name), s.Item, strings.TrimSpace(value))})
		}
		return n
	case s.Short != nil:
		n.spec = s.Short
	}
	n.text = texts[len(texts)-1]
	return n
}

// scalar tells whether the node is text, a number or true or false.
func (n *node) scalar() bool { return n.kind == isText || n.kind == isNumber || n.kind == isBool }

// String names the value in a message.
func (n *node) String() string {
	switch n.kind {
	case isText:
		return fmt.Sprintf("the text %q", schema.Clip(n.text))
	case isNumber:
		return "the number " + schema.Clip(n.text)
	case isBool:
		return n.text
	case isList:
		return "a list"
	case isMapping:
		return "a mapping"
	}
	return "nothing"
}

// parseTree reads one YAML document whose root is a mapping. What is wrong
// goes to the collector; nil means that there is nothing to go on with.
func parseTree(src []byte, c *plan.Collector) *node {
	at := func(line, column int, problem, hint string) {
		c.Add(plan.Finding{Problem: problem, Hint: hint, Line: max(1, line), Column: max(1, column)}, "")
	}
	if len(src) > maxFile {
		at(1, 1, "the file is larger than 1 MiB", "")
		return nil
	}
	if line, problem := textFault(src); problem != "" {
		at(line, 1, problem, "")
		return nil
	}
	root, err := parseYAML(src)
	if err != nil {
		var located yaml.Error
		if errors.As(err, &located) && located.GetToken() != nil && located.GetToken().Position != nil {
			p := located.GetToken().Position
			at(p.Line, p.Column, located.GetMessage(), templateHint(src, p))
		} else {
			at(1, 1, err.Error(), "")
		}
		return nil
	}
	t := &treeBuilder{c: c}
	switch n := t.build(root, ""); {
	case n == nil:
		return nil
	case n.kind != isMapping:
		at(n.line, n.column, "want a mapping of fields, have "+n.String(), "such as name: my-experiment")
		return nil
	default:
		return n
	}
}

// textFault returns the first line that is too long, that is not UTF-8 or that
// holds a control character YAML does not allow.
func textFault(src []byte) (line int, problem string) {
	line = 1
	start := 0
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return line, "the line is not UTF-8 text"
		case i-start >= maxLine:
			return line, "the line is longer than 64 KiB"
		case r == '\n', r == '\r':
			if line++; line > maxLines {
				return line, fmt.Sprintf("more than %d lines", maxLines)
			}
			start = i + size
			if r == '\r' && start < len(src) && src[start] == '\n' {
				start, size = start+1, size+1
			}
		}
		i += size
	}
	return line, ""
}

// parseYAML returns the body of the file's only document, nil when it is
// empty. The YAML package is not ours: should it panic on a file, the file is
// at fault, not the program.
func parseYAML(src []byte) (body ast.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			body, err = nil, fmt.Errorf("not a YAML file: the parser failed: %v", p)
		}
	}()
	tokens := lexer.Tokenize(string(src))
	if err := nesting.Check(tokens, maxTokens); err != nil {
		return nil, err
	}
	// Duplicate keys are let through here, so that all of them are reported.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if body != nil {
			return nil, &yaml.SyntaxError{Message: "a second document", Token: d.Body.GetToken()}
		}
		body = d.Body
	}
	return body, nil
}

// templateHint recognizes a template that YAML reads as a mapping in a
// mapping.
func templateHint(src []byte, p *token.Position) string {
	lines := strings.SplitN(string(src), "\n", p.Line+1)
	if p.Line <= len(lines) && strings.Contains(lines[p.Line-1], "{{") {
		return `put quotes around a value that begins with a template: "{{name}}"`
	}
	return ""
}

// A treeBuilder turns the YAML package's nodes into ours.
type treeBuilder struct{ c *plan.Collector }

func (t *treeBuilder) fault(n *node, problem, hint string) {
	t.c.Add(plan.Finding{Path: n.path, Problem: problem, Hint: hint, Line: n.line, Column: n.column}, "")
}

// build returns nil after reporting what has no place in an experiment.
func (t *treeBuilder) build(y ast.Node, path string) *node {
	n := &node{path: path, line: 1, column: 1}
	if y == nil {
		return n
	}
	n.place(y)
	switch y := y.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		n.kind, n.text = isText, y.Value
	case *ast.LiteralNode:
		n.kind = isText
		if y.Value != nil {
			n.text = y.Value.Value
		}
	case *ast.IntegerNode:
		n.kind, n.text = isNumber, y.Token.Value
	case *ast.FloatNode:
		n.kind, n.text = isNumber, y.Token.Value
	case *ast.InfinityNode:
		n.kind, n.text = isNumber, y.Token.Value
	case *ast.NanNode:
		n.kind, n.text = isNumber, y.Token.Value
	case *ast.BoolNode:
		n.kind, n.text = isBool, y.Token.Value
	case *ast.SequenceNode:
		n.kind = isList
		for i, v := range y.Values {
			if item := t.build(v, fmt.Sprintf("%s[%d]", path, i)); item != nil {
				n.items = append(n.items, item)
			}
		}
	case *ast.MappingNode:
		n.kind = isMapping
		t.mapping(n, y.Values)
	case *ast.MappingValueNode:
		n.kind = isMapping
		t.mapping(n, []*ast.MappingValueNode{y})
	case *ast.AnchorNode, *ast.AliasNode:
		t.fault(n, "anchors and aliases are not supported", "write the value out")
		return nil
	case *ast.TagNode:
		t.fault(n, "tags are not supported", "remove "+schema.Clip(y.Start.Value))
		return nil
	default:
		t.fault(n, "not supported: "+y.Type().String(), "")
		return nil
	}
	if strings.ContainsRune(n.text, 0) {
		t.fault(n, "the text holds a NUL byte", "")
		return nil
	}
	return n
}

func (t *treeBuilder) mapping(n *node, values []*ast.MappingValueNode) {
	lines := map[string]int{}
	for i, v := range values {
		k := node{path: n.path, line: n.line, column: n.column}
		k.place(v.Key)
		if i == 0 && k.line <= n.line {
			// The YAML package places a mapping at its first colon.
			n.line, n.column = k.line, min(k.column, n.column)
		}
		var name string
		switch y := v.Key.(type) {
		case *ast.StringNode:
			name = y.Value
		case *ast.IntegerNode:
			name = y.Token.Value
		case *ast.FloatNode:
			name = y.Token.Value
		case *ast.BoolNode:
			name = y.Token.Value
		default:
			t.fault(&k, "a field's name must be plain text", "")
			continue
		}
		k.path = schema.Join(n.path, schema.Clip(name))
		if first, again := lines[name]; again {
			t.fault(&k, "the field is there twice", fmt.Sprintf("the first is in line %d", first))
			continue
		}
		lines[name] = k.line
		if value := t.build(v.Value, k.path); value != nil {
			value.keyLine, value.keyColumn = k.line, k.column
			n.keys = append(n.keys, key{name: name, value: value})
		}
	}
}

// place takes the position of a YAML node's first token.
func (n *node) place(y ast.Node) {
	if tk := y.GetToken(); tk != nil && tk.Position != nil {
		n.line, n.column = max(1, tk.Position.Line), max(1, tk.Position.Column)
	}
}
