package resource

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// DefaultNamespace is the namespace of resources that name none.
const DefaultNamespace = "default"

// A Ref names a resource. Name is its own or its ID's, of an instance that of its service. ID is that of an
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

// Path returns the reference as a part of a key. Slashes only separate its parts, as EscapeName escapes those of names.
func (r Ref) Path() string {
	text := Folder(r.Kind, r.Namespace) + EscapeName(r.Name)
	if r.Kind == Instances {
		text += "/" + EscapeName(r.ID)
	}
	return text
}

// Address returns the reference's path in the API. Without a name it is that of all, and without an ID that of a service's
// instances.
func (r Ref) Address() string {
	address := r.Kind.Traits().Folder
	if r.Name != "" {
		address += "/" + url.PathEscape(r.Name)
	}
	if r.Name != "" && r.Kind == Instances {
		address += "/instances"
	}
	if r.ID != "" {
		address += "/" + url.PathEscape(r.ID)
	}
	return address
}

// Folder returns the prefix of the paths of a kind in a namespace. The paths of names with a prefix begin with Folder
// and the escaped prefix.
func Folder(k Kind, namespace string) string { return string(k) + "/" + namespace + "/" }

var (
	nameEscapes   = strings.NewReplacer("%", "%25", "/", "%2F")
	nameUnescapes = strings.NewReplacer("%25", "%", "%2F", "/")
)

// EscapeName returns a name, or a prefix of one, as a part of a path.
func EscapeName(name string) string { return nameEscapes.Replace(name) }

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
	r := Ref{Kind: Kind(parts[0]), Namespace: parts[1], Name: nameUnescapes.Replace(parts[2])}
	if want == 4 {
		r.ID = nameUnescapes.Replace(parts[3])
	}
	if err := r.Check(); err != nil {
		return Ref{}, fmt.Errorf("%q names no resource: %w", path, err)
	}
	if r.Path() != path {
		return Ref{}, fmt.Errorf("%q names no resource: its escapes are not those of a path", path)
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
	traits := r.Kind.Traits()
	known := traits.Kind == r.Kind
	inside := isLabel(r.Namespace)
	if traits.Access {
		inside = r.Namespace == Everywhere
	}
	if known && inside && IsPlain(r.Name) && (r.Kind != Instances || IsPlain(r.ID)) {
		return
	}
	f.check(known, "/kind", "%.40q: must be %s", r.Kind, KindNames())
	f.check(inside, "/namespace", "%.80q: must have 1 to %d of a-z, 0-9 and -, with a letter or digit at both ends (RFC 1123)", r.Namespace, maxNamespace)
	name := "/name"
	if r.Kind == Instances {
		name = "/service"
		fault := nameFault(r.ID, false)
		f.check(fault == "", "/id", "%.80q: %s", r.ID, fault)
	}
	fault := nameFault(r.Name, traits.Slashes)
	if traits.Access && !IsPlain(r.Name) {
		fault = plainRule
	}
	f.check(fault == "", name, "%.80q: %s", r.Name, fault)
}

// nameRule and plainRule describe the names that isName and IsPlain accept.
const (
	nameRule  = "must have 1 to 253 bytes of UTF-8 in form NFC, without slashes and control characters, with no white space at an end, and not be ., .. or *"
	plainRule = "must have 1 to 253 of A-Z, a-z, 0-9, -, _, . and :, and begin with a letter or digit"
)

// nameFault returns what a name must be and is not; "" is nothing. Slashes divide a name into parts, if it may have any.
func nameFault(name string, slashes bool) string {
	switch {
	case IsPlain(name):
		return ""
	case len(name) == 0 || len(name) > maxName:
		return fmt.Sprintf("must have 1 to %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "must be UTF-8 without control characters"
	case strings.TrimSpace(name) != name:
		return "must have no white space at an end"
	case name == "*":
		return "is all names: it cannot be one"
	case !slashes && strings.Contains(name, "/"):
		return "must have no slash"
	case !norm.NFC.IsNormalString(name):
		return fmt.Sprintf("is %+q, and must be in Unicode's form NFC: %+q", name, norm.NFC.String(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return "must have no slash at an end, and no part between slashes that is empty, . or .."
		}
	}
	return ""
}

func isName(text string) bool { return nameFault(text, false) == "" }

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

// IsPlain reports whether a name has only letters, digits and some signs of ASCII. Others cannot be in DNS, in hosts of
// xDS and in identities.
func IsPlain(text string) bool {
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
