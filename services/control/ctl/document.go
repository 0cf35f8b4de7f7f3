package ctl

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"dyno/internal/nesting"
	"dyno/internal/textfile"
	"dyno/services/control/resource"
)

// Bounds of a file. The YAML parser recurses, and takes time with the square of some of these. The bounds keep it
// within its stack and within seconds.
const (
	maxFile   = 8 << 20 // bytes
	maxTokens = 200_000
)

// A parsed document is one of a file's.
type parsed struct {
	file  string
	value any      // of maps with texts as keys, lists, texts, numbers, true and false, and nil
	node  ast.Node // that the value was made of
}

// where returns the place of the value at a JSON Pointer; if there is none, the place of its container.
func (d *parsed) where(pointer string) string {
	if d.node == nil {
		return d.file // an imported entry
	}
	_, at := find(d.node, pointer)
	return place(d.file, at)
}

// find returns the node at a JSON Pointer and its place. Without one it returns nil and the place of the container.
func find(n ast.Node, pointer string) (_ ast.Node, at *token.Token) {
	at = first(n)
	if pointer == "#" {
		return n, at
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch v := n.(type) {
		case ast.MapNode:
			n = nil
			for i := v.MapRange(); n == nil && i.Next(); {
				if i.Key().GetToken().Value == step {
					n, at = i.Value(), i.Key().GetToken()
				}
			}
		case *ast.SequenceNode:
			i, err := strconv.ParseUint(step, 10, 31)
			if n = nil; err == nil && int(i) < len(v.Values) {
				n, at = v.Values[i], first(v.Values[i])
			}
		default:
			n = nil
		}
	}
	return n, at
}

// place returns FILE:LINE:COLUMN of a token.
func place(file string, t *token.Token) string {
	if t == nil || t.Position == nil {
		return file + ":1:1"
	}
	return fmt.Sprintf("%s:%d:%d", file, t.Position.Line, t.Position.Column)
}

// fault makes an error about the value at a pointer.
func (d *parsed) fault(pointer, detail string) error {
	name := strings.TrimPrefix(pointer, "#/")
	if name == "#" || name == "" {
		return fmt.Errorf("%s: %s", d.where(pointer), detail)
	}
	return fmt.Errorf("%s: %s: %s", d.where(pointer), name, detail)
}

// parse reads the YAML documents of a file; JSON is YAML. A list of items, as get writes it, becomes one document for
// each. The error names every fault that can be found.
func parse(file string, text []byte) ([]*parsed, error) {
	text, err := textfile.Decode(file, text)
	if err != nil {
		return nil, err
	}
	nodes, err := parseYAML(text)
	if err != nil {
		var located yaml.Error
		if errors.As(err, &located) {
			return nil, fmt.Errorf("%s: %s", place(file, located.GetToken()), located.GetMessage())
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var docs []*parsed
	var faults []error
	for _, n := range nodes {
		value, err := valueOf(file, n)
		faults = append(faults, err)
		whole := &parsed{file, value, n}
		fields, _ := value.(map[string]any)
		items, list := fields["items"].([]any)
		if !list || fields["kind"] != nil {
			docs = append(docs, whole)
			continue
		}
		for i, item := range items {
			of, _ := find(n, "#/items/"+strconv.Itoa(i))
			docs = append(docs, &parsed{file, item, of})
		}
	}
	return docs, errors.Join(faults...)
}

// parseYAML returns the documents of a file that are not empty.
func parseYAML(text []byte) ([]ast.Node, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("has more than %d bytes", maxFile)
	}
	documents, err := nesting.Parse(text, maxTokens)
	return slices.DeleteFunc(documents, func(n ast.Node) bool { return n.Type() == ast.NullType || n.Type() == ast.CommentType }), err
}

// first returns the token where a value begins: for a mapping, the parser gives its first colon.
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

// valueOf makes a value of a node. It refuses values that JSON cannot express, and references such as anchors and
// aliases.
func valueOf(file string, n ast.Node) (value any, err error) {
	r := refusals{file: file}
	ast.Walk(&r, n)
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults...)
	}
	if err := yaml.NodeToValue(n, &value); err != nil {
		return nil, fmt.Errorf("%s: %w", place(file, first(n)), err)
	}
	return value, nil
}

// refusals collects the nodes that a file may not have.
type refusals struct {
	file   string
	faults []error
}

// Visit implements ast.Visitor.
func (r *refusals) Visit(n ast.Node) ast.Visitor {
	problem := ""
	switch n := n.(type) {
	case *ast.LiteralNode:
		return nil // a block of text has no nodes to check
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		problem = "anchors, aliases and tags are not read: write the value out"
	case *ast.MergeKeyNode, *ast.MappingKeyNode:
		problem = "only plain names are read"
	case *ast.InfinityNode, *ast.NanNode:
		problem = n.GetToken().Value + " is not a number that can be kept"
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			problem = n.GetToken().Value + " is not a number that can be kept"
		}
	}
	if problem == "" {
		return r
	}
	r.faults = append(r.faults, fmt.Errorf("%s: %s", place(r.file, n.GetToken()), problem))
	return nil
}

// A manifest is the wanted state of a resource.
type manifest struct {
	*parsed
	resource.Ref
	body map[string]any // what is sent
}

// applied are the kinds of manifests.
var applied = []resource.Kind{resource.Configs, resource.Policies, resource.Principals, resource.Roles}

const appliedWords = "policy, config, role or principal"

// made lists the fields that the control plane sets.
var made = []string{"version", "changed_at", "changed_by", "tokens"}

// manifests reads the manifests of documents. namespace is the default; all must be in fixed, unless that is "".
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
	switch k, err := kindOf(word, append(applied, services, resource.Instances)...); {
	case fields["kind"] == nil:
		faults = append(faults, d.fault("#/kind", "is missing: "+appliedWords))
	case err != nil:
		faults = append(faults, d.fault("#/kind", fmt.Sprintf("%q: must be %s", word, appliedWords)))
	case k == services || k == resource.Instances:
		faults = append(faults, d.fault("#/kind", "instances are not applied, as they end with their lease: dyno ctl register"))
	default:
		w.Kind = k
	}
	delete(w.body, "kind")
	if w.Name = text("name"); fields["name"] == nil {
		faults = append(faults, d.fault("#/name", "is missing"))
	}
	w.Namespace = text("namespace")
	switch {
	case w.Kind.OfAccess() && w.Namespace == "":
		w.Namespace = resource.Everywhere
	case w.Namespace == "":
		w.Namespace = namespace
	case fixed != "" && w.Namespace != fixed:
		faults = append(faults, d.fault("#/namespace", fmt.Sprintf("is %q, and --namespace says %q", w.Namespace, fixed)))
	}
	for _, name := range made {
		delete(w.body, name)
	}
	if release, ok := w.body["release"].(map[string]any); ok && release["since"] != nil {
		delete(w.body, "release") // get shows it, and a put leaves it unchanged
	}
	if w.Kind == resource.Configs {
		if fields["content"] == nil && fields["content_base64"] == nil {
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

// located returns a refusal with the places of its faults in the file, one line each.
func (w *manifest) located(faults resource.Invalid) error {
	var lines []error
	for _, f := range faults {
		lines = append(lines, w.fault(f.Pointer, f.Detail))
	}
	return errors.Join(lines...)
}
