package fields

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"dyno/internal/nearest"
	"dyno/internal/nesting"
	"dyno/internal/textfile"
)

// Bounds of a file. They keep the YAML parser within its stack and within seconds: it recurses, and
// some of these take quadratic time.
const (
	MaxFile   = 1 << 20 // bytes
	MaxLines  = 10_000
	MaxLine   = 64 << 10 // bytes
	maxTokens = 50_000
)

// A nodeKind is what a YAML value is.
type nodeKind uint8

// The kinds of nodes.
const (
	isNull nodeKind = iota
	IsText
	IsNumber
	IsBool
	IsList
	IsMapping
)

// A Node is a YAML value with its place in the file.
type Node struct {
	Kind         nodeKind
	Text         string // of a scalar, as written (quotes and folding undone)
	Keys         []Key  // of a mapping, in the file's order
	Items        []*Node
	Line, Column int
	Path         string // such as load.stages[2].rate

	keyLine, keyColumn int // where its field's name is; 0 in a list

	Note string // a comment that YAML writes above it; not of the first field of a list's item

	Spec *Spec // what is declared of it; nil when the file may not have it
	Bad  bool  // a fault was found in it; for a scalar only
}

// A Key is one entry of a mapping.
type Key struct {
	Name  string
	Value *Node
}

// Get returns the value of a key, or nil. It may be called on a nil node.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	for _, k := range n.Keys {
		if k.Name == name {
			return k.Value
		}
	}
	return nil
}

// Find returns the value at a path below a mapping, which may lead through lists, or nil.
func (n *Node) Find(path string) *Node {
	for step := range strings.SplitSeq(path, ".") {
		name, index, item := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		if n = n.Get(name); item {
			at, err := strconv.Atoi(index)
			if n == nil || err != nil || at >= len(n.Items) {
				return nil
			}
			n = n.Items[at]
		}
	}
	return n
}

// Insert gives a mapping a value at a path below it.
func (n *Node) Insert(path string, value *Node) {
	step, rest, below := strings.Cut(path, ".")
	if !below {
		n.Keys = append(n.Keys, Key{step, value})
		return
	}
	next := n.Get(step)
	if next == nil {
		next = &Node{Kind: IsMapping}
		n.Insert(step, next)
	}
	next.Insert(rest, value)
}

// NewLeaf returns a node for what options and flags say of a field. Words of a list have
// commas between, and names of a mapping a colon each.
func NewLeaf(path string, s *Spec, texts ...string) *Node {
	n := &Node{Kind: IsText, Path: path, Spec: s}
	switch {
	case s.Kind == List:
		if n.Kind = IsList; s.Item.Kind == Choice {
			texts = strings.Split(strings.Join(texts, ","), ",")
		}
		for _, t := range texts {
			n.Items = append(n.Items, NewLeaf(path, s.Item, t))
		}
		return n
	case s.Names != nil:
		n.Kind = IsMapping
		for _, t := range texts {
			name, value, _ := strings.Cut(t, ":")
			n.Keys = append(n.Keys, Key{name, NewLeaf(Join(path, name), s.Item, strings.TrimSpace(value))})
		}
		return n
	case s.Short != nil:
		n.Spec = s.Short
	}
	n.Text = texts[len(texts)-1]
	return n
}

// Scalar tells whether the node is text, a number or true or false.
func (n *Node) Scalar() bool { return n.Kind == IsText || n.Kind == IsNumber || n.Kind == IsBool }

// String names the value in a message.
func (n *Node) String() string {
	switch n.Kind {
	case IsText:
		return fmt.Sprintf("the text %q", nearest.Clip(n.Text))
	case IsNumber:
		return "the number " + nearest.Clip(n.Text)
	case IsBool:
		return n.Text
	case IsList:
		return "a list"
	case IsMapping:
		return "a mapping"
	}
	return "nothing"
}

// ReadFile returns what a file holds. A byte more than allowed tells ParseTree that it is too large.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// ParseTree reads one YAML document whose root is a mapping. Faults go to the collector; nil means that
// there is nothing to go on with.
func ParseTree(src []byte, c *Collector) *Node {
	at := func(line, column int, problem, hint string) {
		c.Add(Finding{Problem: problem, Hint: hint, Line: max(1, line), Column: max(1, column)}, "")
	}
	if len(src) > MaxFile {
		at(1, 1, "the file is larger than 1 MiB", "")
		return nil
	}
	src, err := textfile.Decode("", src)
	if fault := (*textfile.Fault)(nil); errors.As(err, &fault) {
		at(fault.Line, fault.Column, fault.Problem, fault.Hint)
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
	case n.Kind != IsMapping:
		at(n.Line, n.Column, "want a mapping of fields, have "+n.String(), "such as name: my-experiment")
		return nil
	default:
		return n
	}
}

// textFault returns the first line that is too long, not UTF-8, or has a control character that YAML
// forbids.
func textFault(src []byte) (line int, problem string) {
	line = 1
	start := 0
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		switch {
		case r < ' ' && r != '\t' && r != '\n', r == 0x7f:
			return line, "a control character"
		case i-start >= MaxLine:
			return line, "the line is longer than 64 KiB"
		case r == '\n':
			if line++; line > MaxLines {
				return line, fmt.Sprintf("more than %d lines", MaxLines)
			}
			start = i + size
		}
		i += size
	}
	return line, ""
}

// parseYAML returns the body of the file's only document, nil when it is empty.
func parseYAML(src []byte) (body ast.Node, err error) {
	// Duplicate keys are let through here, so that all of them are reported.
	documents, err := nesting.Parse(src, maxTokens, parser.AllowDuplicateMapKey())
	switch {
	case err != nil || len(documents) == 0:
		return nil, err
	case len(documents) > 1:
		return nil, &yaml.SyntaxError{Message: "a second document", Token: documents[1].GetToken()}
	}
	return documents[0], nil
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
type treeBuilder struct{ c *Collector }

func (t *treeBuilder) fault(n *Node, problem, hint string) {
	t.c.Add(Finding{Path: n.Path, Problem: problem, Hint: hint, Line: n.Line, Column: n.Column}, "")
}

// build returns nil after reporting parts that have no place in such a file.
func (t *treeBuilder) build(y ast.Node, path string) *Node {
	n := &Node{Path: path, Line: 1, Column: 1}
	if y == nil {
		return n
	}
	n.place(y)
	switch y := y.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		n.Kind, n.Text = IsText, y.Value
	case *ast.LiteralNode:
		n.Kind = IsText
		if y.Value != nil {
			n.Text = y.Value.Value
		}
	case *ast.IntegerNode:
		n.Kind, n.Text = IsNumber, y.Token.Value
	case *ast.FloatNode:
		n.Kind, n.Text = IsNumber, y.Token.Value
	case *ast.InfinityNode:
		n.Kind, n.Text = IsNumber, y.Token.Value
	case *ast.NanNode:
		n.Kind, n.Text = IsNumber, y.Token.Value
	case *ast.BoolNode:
		n.Kind, n.Text = IsBool, y.Token.Value
	case *ast.SequenceNode:
		n.Kind = IsList
		for i, v := range y.Values {
			if item := t.build(v, fmt.Sprintf("%s[%d]", path, i)); item != nil {
				n.Items = append(n.Items, item)
			}
		}
	case *ast.MappingNode:
		n.Kind = IsMapping
		t.mapping(n, y.Values)
	case *ast.MappingValueNode:
		n.Kind = IsMapping
		t.mapping(n, []*ast.MappingValueNode{y})
	case *ast.AnchorNode, *ast.AliasNode:
		t.fault(n, "anchors and aliases are not supported", "write the value out")
		return nil
	case *ast.TagNode:
		t.fault(n, "tags are not supported", "remove "+nearest.Clip(y.Start.Value))
		return nil
	default:
		t.fault(n, "not supported: "+y.Type().String(), "")
		return nil
	}
	if strings.ContainsRune(n.Text, 0) {
		t.fault(n, "the text holds a NUL byte", "")
		return nil
	}
	return n
}

func (t *treeBuilder) mapping(n *Node, values []*ast.MappingValueNode) {
	lines := map[string]int{}
	for i, v := range values {
		k := Node{Path: n.Path, Line: n.Line, Column: n.Column}
		k.place(v.Key)
		if i == 0 && k.Line <= n.Line {
			// The YAML package places a mapping at its first colon.
			n.Line, n.Column = k.Line, min(k.Column, n.Column)
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
		k.Path = Join(n.Path, nearest.Clip(name))
		if first, again := lines[name]; again {
			t.fault(&k, "the field is there twice", fmt.Sprintf("the first is in line %d", first))
			continue
		}
		lines[name] = k.Line
		if value := t.build(v.Value, k.Path); value != nil {
			value.keyLine, value.keyColumn = k.Line, k.Column
			n.Keys = append(n.Keys, Key{Name: name, Value: value})
		}
	}
}

// place takes the position of a YAML node's first token.
func (n *Node) place(y ast.Node) {
	if tk := y.GetToken(); tk != nil && tk.Position != nil {
		n.Line, n.Column = max(1, tk.Position.Line), max(1, tk.Position.Column)
	}
}
