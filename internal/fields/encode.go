package fields

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/lazyregexp"
	"dyno/internal/terminal"
	"dyno/internal/units"
)

// An Encoder makes trees of Go values: what a Decoder reads as these values.
type Encoder struct {
	Folder string // that paths become relative to

	// Protocol says which fields there are, and Protocol and Traits which defaults hold.
	Protocol string
	Traits   map[string]bool
}

// Value returns what a file says of a value. Fields equal to like's are left out; like is the Decoder's
// starting value. Fields that have another form in the file are left out, too.
func (e *Encoder) Value(s *Spec, value, like reflect.Value) *Node {
	if value.Kind() == reflect.Interface {
		value, like = value.Elem(), like.Elem()
	}
	if value.Kind() == reflect.Pointer {
		if like.IsNil() {
			like = e.fresh(value.Type().Elem(), s).Addr()
		}
		value, like = value.Elem(), like.Elem()
	}
	n := &Node{Kind: IsMapping}
	switch {
	case s.Kind == List:
		n.Kind = IsList
		for i := range value.Len() {
			n.Items = append(n.Items, e.Value(s.Item, value.Index(i), e.fresh(value.Type().Elem(), s.Item)))
		}
		if s.Item.single && len(n.Items) == 1 {
			return n.Items[0]
		}
	case s.Kind != Mapping:
		return e.Scalar(s, value)
	case value.Kind() == reflect.Map:
		for _, key := range slices.Sorted(maps.Keys(value.Interface().(map[string]string))) {
			n.Keys = append(n.Keys, Key{key, e.Scalar(s.Item, value.MapIndex(reflect.ValueOf(key)))})
		}
	case value.Kind() == reflect.Slice:
		for i := range value.Len() {
			entry, like := value.Index(i), e.fresh(value.Type().Elem(), s.Item)
			name := entry.FieldByIndex(s.key).String()
			n.Keys = append(n.Keys, Key{name, e.Value(s.Item, entry.FieldByIndex(s.Item.At), like.FieldByIndex(s.Item.At))})
		}
	default:
		for _, f := range s.Fields {
			if f.Spec.form || !f.Spec.Of(e.Protocol) {
				continue
			}
			field, otherwise := value.FieldByIndex(f.Spec.At), like.FieldByIndex(f.Spec.At)
			if f.required || !reflect.DeepEqual(field.Interface(), otherwise.Interface()) {
				n.Keys = append(n.Keys, Key{f.Name, e.Value(f.Spec, field, otherwise)})
			}
		}
		if s.Short != nil && len(n.Keys) == 1 && slices.Equal(s.Field(n.Keys[0].Name).At, s.Short.At) {
			return n.Keys[0].Value
		}
	}
	return n
}

// fresh returns a new value in which everything has its default that has one.
func (e *Encoder) fresh(t reflect.Type, s *Spec) reflect.Value {
	return (&Decoder{Protocol: e.Protocol, Traits: e.Traits}).fresh(t, s)
}

// Scalar returns a value of a kind that is neither a list nor a mapping as a file has it.
func (e *Encoder) Scalar(s *Spec, v reflect.Value) *Node {
	n := &Node{Kind: IsNumber}
	switch s.Kind {
	case Text, Word, Choice:
		n.Kind, n.Text = IsText, v.String()
		if rel, err := filepath.Rel(cleanFolder(e.Folder), n.Text); s.path && err == nil && !filepath.IsAbs(n.Text) {
			n.Text = rel
		}
	case Boolean:
		n.Kind, n.Text = IsBool, strconv.FormatBool(v.Bool() != s.inverted)
	case CPUs:
		n.Kind, n.Text = IsText, units.FormatCPUs(v.Interface().([]int))
	case Duration:
		if n.Text = units.FormatDuration(time.Duration(v.Int())); v.Int() == int64(Auto) {
			n.Text = s.Choices[0]
		}
	case Rate, Share, Size:
		n.Text = s.Format(Numeric(v))
	default:
		n.Text = strconv.FormatFloat(Numeric(v), 'f', -1, 64)
	}
	return n
}

// cleanFolder is a folder as paths below it begin.
func cleanFolder(folder string) string {
	if folder == "" {
		return "."
	}
	return folder
}

// YAML returns the file of a mapping.
func (n *Node) YAML() []byte {
	var b bytes.Buffer
	n.write(&b, "")
	return b.Bytes()
}

// write writes the lines of a mapping or a list that is not empty.
func (n *Node) write(b *bytes.Buffer, indent string) {
	for _, k := range n.Keys {
		k.Value.writeNote(b, indent)
		b.WriteString(indent + quoteText(k.Name) + ":")
		k.Value.writeAfter(b, indent+"  ")
	}
	for _, item := range n.Items {
		item.writeNote(b, indent)
		if len(item.Keys) == 0 {
			b.WriteString(indent + "-")
			item.writeAfter(b, indent+"  ")
			continue
		}
		start := b.Len() + len(indent)
		item.write(b, indent+"  ")
		copy(b.Bytes()[start:], "- ")
	}
}

// writeNote writes the comment above a value.
func (n *Node) writeNote(b *bytes.Buffer, indent string) {
	if n.Note != "" {
		b.WriteString(indent + "# " + terminal.Line(n.Note) + "\n")
	}
}

// writeAfter writes a value after the name of its field, or after the mark of its item.
func (n *Node) writeAfter(b *bytes.Buffer, indent string) {
	switch {
	case n.Kind == IsMapping && len(n.Keys) == 0:
		b.WriteString(" {}\n")
	case n.Kind == IsMapping, n.Kind == IsList:
		b.WriteByte('\n')
		n.write(b, indent)
	case n.Kind == IsText && isBlock(n.Text):
		text, ends := strings.CutSuffix(n.Text, "\n")
		b.WriteString(" |")
		if !ends {
			b.WriteByte('-')
		}
		for line := range strings.SplitSeq("\n"+text, "\n") {
			if line != "" {
				b.WriteString(indent + line)
			}
			b.WriteByte('\n')
		}
	case n.Kind == IsText:
		b.WriteString(" " + quoteText(n.Text) + "\n")
	default:
		b.WriteString(" " + n.Text + "\n")
	}
}

// plainText matches texts that can stand without quotes; typedText matches those among them that mean
// another type. quotedText matches those that single quotes keep, where double quotes would not.
var (
	plainText  = lazyregexp.New(`^[A-Za-z/_$][\w /.$+=&?%,@()<>-]*$`)
	quotedText = lazyregexp.New(`^[ -~]*["\\][ -~]*$`)
	typedText  = lazyregexp.New(`(?i)^(true|false|null|yes|no|on|off|y|n)$| $`)
)

// quoteText writes a text on one line.
func quoteText(text string) string {
	if plainText().MatchString(text) && !typedText().MatchString(text) {
		return text
	}
	if quotedText().MatchString(text) {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string always can be
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

// notInBlock matches what a block of lines cannot say: characters that must be escaped, blanks at the
// ends of lines, and empty or indented lines at the ends.
var notInBlock = lazyregexp.New(`[^\n\x20-\x7e\x{a1}-\x{d7ff}]| \n| $|^[\n ]|\n\n$`)

// isBlock tells whether a text is written as a block of lines.
func isBlock(text string) bool {
	return strings.Contains(strings.TrimSuffix(text, "\n"), "\n") && !notInBlock().MatchString(text) && terminal.IsClean([]byte(text))
}
