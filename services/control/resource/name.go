package resource

import (
	"fmt"
	"strings"
)

// A Kind is a kind of resource.
type Kind string

// The kinds.
const (
	Policies  Kind = "policy"
	Configs   Kind = "config"
	Instances Kind = "instance"
)

// Kinds are all kinds.
func Kinds() []Kind { return []Kind{Policies, Configs, Instances} }

// DefaultNamespace is the namespace of resources that name none.
const DefaultNamespace = "default"

// A Ref names a resource. Name is that of a policy, of a configuration or of an instance's service. ID is that of an
// instance, and "" for the others.
type Ref struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	ID        string `json:"id,omitempty"`
}

func (r Ref) String() string {
	text := string(r.Kind) + " " + r.Namespace + "/" + r.Name
	if r.ID != "" {
		text += "/" + r.ID
	}
	return text
}

// Path returns the reference as a part of a key; Under returns the prefix of a kind's paths.
func (r Ref) Path() string {
	text := string(r.Kind) + "/" + r.Namespace + "/" + r.Name
	if r.Kind == Instances {
		text += "/" + r.ID
	}
	return text
}

// ParsePath parses the result of Path.
func ParsePath(path string) (Ref, error) {
	parts := strings.Split(path, "/")
	want := 3
	if Kind(parts[0]) == Instances {
		want = 4
	}
	if len(parts) != want {
		return Ref{}, fmt.Errorf("%q names no resource", path)
	}
	r := Ref{Kind: Kind(parts[0]), Namespace: parts[1], Name: parts[2]}
	if want == 4 {
		r.ID = parts[3]
	}
	if err := r.Check(); err != nil {
		return Ref{}, fmt.Errorf("%q names no resource: %w", path, err)
	}
	return r, nil
}

// Limits of names, in bytes.
const (
	maxNamespace = 63
	maxName      = 253
)

// Check returns Invalid if a name is not valid.
func (r Ref) Check() error {
	var f faults
	r.check(&f)
	return f.err()
}

// check finds the faults of the names. Without faults it allocates no text: each request that names a resource passes
// here.
func (r Ref) check(f *faults) {
	known := r.Kind == Policies || r.Kind == Configs || r.Kind == Instances
	if known && isLabel(r.Namespace) && isName(r.Name) && (r.Kind != Instances || isName(r.ID)) {
		return
	}
	f.check(known, "/kind", "%.40q: must be policy, config or instance", r.Kind)
	f.check(isLabel(r.Namespace), "/namespace", "%.80q: must have 1 to %d of a-z, 0-9 and -, with a letter or digit at both ends (RFC 1123)", r.Namespace, maxNamespace)
	name := "/name"
	if r.Kind == Instances {
		name = "/service"
		f.check(isName(r.ID), "/id", "%.80q: %s", r.ID, nameRule)
	}
	f.check(isName(r.Name), name, "%.80q: %s", r.Name, nameRule)
}

const nameRule = "must have 1 to 253 of A-Z, a-z, 0-9, -, _, . and :, and begin with a letter or digit"

// isLabel reports whether text is a label of RFC 1123, section 2.1, in lower case.
func isLabel(text string) bool {
	if len(text) == 0 || len(text) > maxNamespace || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// isName reports whether text is a name: it has no slash, and no special meaning in a path.
func isName(text string) bool {
	if len(text) == 0 || len(text) > maxName {
		return false
	}
	for i := range len(text) {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.' && c != ':') {
			return false
		}
	}
	return true
}
