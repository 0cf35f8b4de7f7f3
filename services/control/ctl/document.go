package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"dyno/internal/nesting"
	"dyno/internal/textfile"
	"dyno/services/control/resource"
)

// Bounds of a file. They keep the YAML parser, which recurses and takes time with the
// square of some of these, within its stack and within seconds.
const (
	maxFile   = 4 << 20 // bytes
	maxTokens = 200_000
)

// A place is where something stands in a file, from 1.
type place struct{ line, column int }

// A parsed document is one of a file's.
type parsed struct {
	file   string
	value  any              // of maps with texts as keys, lists, texts, numbers, true and false, and nil
	places map[string]place // by JSON Pointer in URI fragment form; "#" is the whole
	at     string           // the pointer of the document within its file's
}

// where says where a pointer's value stands; of what is not there, what it would be in.
func (d *parsed) where(pointer string) string {
	full := d.at + strings.TrimPrefix(pointer, "#")
	for {
		if p, ok := d.places[full]; ok {
			return fmt.Sprintf("%s:%d:%d", d.file, p.line, p.column)
		}
		i := strings.LastIndexByte(full, '/')
		if i < 0 {
			return d.file
		}
		full = full[:i]
	}
}

// fault is what is wrong at a pointer.
func (d *parsed) fault(pointer, detail string) error {
	name := strings.TrimPrefix(pointer, "#/")
	if name == "#" || name == "" {
		return fmt.Errorf("%s: %s", d.where(pointer), detail)
	}
	return fmt.Errorf("%s: %s: %s", d.where(pointer), name, detail)
}

// parse reads the YAML documents of a file; JSON is YAML. A document that is a list of items,
// as get writes it, is each of them. The error names every fault that can be found.
func parse(file string, text []byte) ([]*parsed, error) {
	text, err := textfile.Decode(file, text)
	if err != nil {
		return nil, err
	}
	nodes, err := parseYAML(text)
	if err != nil {
		var located yaml.Error
		if errors.As(err, &located) && located.GetToken() != nil && located.GetToken().Position != nil {
			p := located.GetToken().Position
			return nil, fmt.Errorf("%s:%d:%d: %s", file, p.Line, p.Column, located.GetMessage())
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var docs []*parsed
	var faults []error
	for _, n := range nodes {
		b := builder{file: file, places: map[string]place{}}
		value := b.build(n, "#")
		faults = append(faults, b.faults...)
		whole := &parsed{file, value, b.places, "#"}
		fields, _ := value.(map[string]any)
		items, list := fields["items"].([]any)
		if !list || fields["kind"] != nil {
			docs = append(docs, whole)
			continue
		}
		for i, item := range items {
			docs = append(docs, &parsed{file, item, b.places, "#/items/" + strconv.Itoa(i)})
		}
	}
	return docs, errors.Join(faults...)
}

// parseYAML returns the documents of a file that are not empty. The YAML package is not
// ours: should it panic on a file, the file is at fault, not the program.
func parseYAML(text []byte) (nodes []ast.Node, err error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("has more than %d bytes", maxFile)
	}
	defer func() {
		if p := recover(); p != nil {
			nodes, err = nil, fmt.Errorf("not a YAML file: the parser failed: %v", p)
		}
	}()
	tokens := lexer.Tokenize(string(text))
	if err := nesting.Check(tokens, maxTokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.NullType && d.Body.Type() != ast.CommentType {
			nodes = append(nodes, d.Body)
		}
	}
	return nodes, nil
}

// A builder makes values of the parser's nodes, and notes their places.
type builder struct {
	file   string
	places map[string]place
	faults []error
}

func (b *builder) fault(pointer, format string, args ...any) any {
	p := b.places[pointer]
	b.faults = append(b.faults, fmt.Errorf("%s:%d:%d: %s", b.file, p.line, p.column, fmt.Sprintf(format, args...)))
	return nil
}

func (b *builder) note(pointer string, t *token.Token) {
	if _, ok := b.places[pointer]; ok {
		return // where its name stands
	}
	p := place{1, 1}
	if t != nil && t.Position != nil {
		p = place{t.Position.Line, t.Position.Column}
	}
	b.places[pointer] = p
}

// first is where a value begins: the parser says of a mapping where its first colon is.
func first(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && n.Values[0].Key != nil && !n.IsFlowStyle {
			return n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		if n.Key != nil {
			return n.Key.GetToken()
		}
	}
	return n.GetToken()
}

func (b *builder) build(n ast.Node, pointer string) any {
	if n == nil {
		return nil
	}
	b.note(pointer, first(n))
	switch n := n.(type) {
	case *ast.NullNode:
		return nil
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		if n.Value == nil {
			return ""
		}
		return n.Value.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			return b.fault(pointer, "%s is not a number that can be kept", n.GetToken().Value)
		}
		return n.Value
	case *ast.InfinityNode, *ast.NanNode:
		return b.fault(pointer, "%s is not a number that can be kept", n.GetToken().Value)
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, v := range n.Values {
			list[i] = b.build(v, pointer+"/"+strconv.Itoa(i))
		}
		return list
	case *ast.MappingNode:
		return b.mapping(n.Values, pointer)
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{n}, pointer)
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return b.fault(pointer, "anchors, aliases and tags are not read: write the value out")
	}
	return b.fault(pointer, "is not read: %s", n.Type())
}

func (b *builder) mapping(values []*ast.MappingValueNode, pointer string) any {
	fields := make(map[string]any, len(values))
	for _, v := range values {
		var name string
		switch k := v.Key.(type) {
		case *ast.StringNode:
			name = k.Value
		case *ast.MergeKeyNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MappingKeyNode:
			b.note(pointer, v.Key.GetToken())
			b.fault(pointer, "only plain names are read")
			continue
		default:
			name = v.Key.GetToken().Value
		}
		at := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		b.note(at, v.Key.GetToken())
		if _, twice := fields[name]; twice {
			b.fault(at, "%s is given twice", name)
			continue
		}
		fields[name] = b.build(v.Value, at)
	}
	return fields
}

// A manifest is a resource as somebody wants it.
type manifest struct {
	*parsed
	resource.Ref
	body map[string]any // what is sent
}

// made are the fields that the control plane makes, and that its answers have.
var made = []string{"version", "changed_at", "changed_by"}

// manifests reads what documents ask for, in a namespace where they name none; fixed is the
// one that all must be in, "" is any.
func manifests(docs []*parsed, namespace, fixed string) ([]*manifest, error) {
	var list []*manifest
	var faults []error
	for _, d := range docs {
		w, err := manifestOf(d, namespace, fixed)
		faults = append(faults, err)
		list = append(list, w)
	}
	seen := map[resource.Ref]*manifest{}
	for _, w := range list {
		if w == nil {
			continue
		}
		if first, ok := seen[w.Ref]; ok {
			faults = append(faults, w.fault("#", fmt.Sprintf("%s is at %s already", w.Ref, first.where("#"))))
		}
		seen[w.Ref] = w
	}
	return list, errors.Join(faults...)
}

func manifestOf(d *parsed, namespace, fixed string) (*manifest, error) {
	fields, ok := d.value.(map[string]any)
	if !ok {
		return nil, d.fault("#", "want a mapping of fields, such as kind: policy")
	}
	w := &manifest{parsed: d, body: map[string]any{}}
	for name, value := range fields {
		w.body[name] = value
	}
	var faults []error
	text := func(name string) string {
		value, given := fields[name]
		text, ok := value.(string)
		if given && !ok {
			faults = append(faults, d.fault("#/"+name, "must be a text"))
		}
		return text
	}
	word := text("kind")
	switch k, err := kindOf(word, configs, policies, services, instances); {
	case fields["kind"] == nil:
		faults = append(faults, d.fault("#/kind", "is missing: policy or config"))
	case err != nil:
		faults = append(faults, d.fault("#/kind", fmt.Sprintf("%q: must be policy or config", word)))
	case k == services || k == instances:
		faults = append(faults, d.fault("#/kind", "instances are not applied, as they end with their lease: dyno ctl register"))
	default:
		w.Kind = resource.Kind(k)
	}
	delete(w.body, "kind")
	if w.Name = text("name"); fields["name"] == nil {
		faults = append(faults, d.fault("#/name", "is missing"))
	}
	w.Namespace = text("namespace")
	switch {
	case w.Namespace == "":
		w.Namespace = namespace
	case fixed != "" && w.Namespace != fixed:
		faults = append(faults, d.fault("#/namespace", fmt.Sprintf("is %q, and --namespace says %q", w.Namespace, fixed)))
	}
	for _, name := range made {
		delete(w.body, name)
	}
	if release, ok := w.body["release"].(map[string]any); ok && release["since"] != nil {
		delete(w.body, "release") // as it was shown: it is kept as it is
	}
	if w.Kind == resource.Configs {
		if _, given := fields["content"]; !given {
			detail := "is missing"
			if secret, _ := fields["secret"].(bool); secret {
				detail = "is missing: lists do not show that of a secret configuration"
			}
			faults = append(faults, d.fault("#/content", detail))
		}
	}
	if len(faults) == 0 {
		var names resource.Invalid
		if errors.As(w.Check(), &names) {
			faults = append(faults, w.located(names))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return w, nil
}

// located is a refusal with the places of its faults in the file, a line each.
func (w *manifest) located(faults resource.Invalid) error {
	var lines []error
	for _, f := range faults {
		lines = append(lines, w.fault(f.Pointer, f.Detail))
	}
	return errors.Join(lines...)
}

// sent is what is sent.
func (w *manifest) sent() json.RawMessage {
	raw, err := json.Marshal(w.body)
	must(err) // it is of what JSON can say
	return raw
}
