package rpc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// maxDescription is the length in bytes after which no further message is described.
const maxDescription = 1 << 20

// Describe returns a service, a method, a message or an enum, by its full name,
// as the text of a .proto file for people to read: with comments where there are any, and
// with all messages and enums that it uses below it, except those of google.protobuf.
// Custom options are left out.
func (s *Schema) Describe(name string) (string, error) {
	name = strings.TrimPrefix(name, "/")
	d, err := s.files.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(name, "/", ".")))
	if err != nil {
		if _, err := s.Service(name); err != nil && s.known(name) {
			return "", err // a service of which a server says nothing
		}
		return "", &Fault{Source: s.source, Problem: "there is neither a service nor a message " + quote(name), Hint: suggest(name, s.names())}
	}
	p := &printer{known: s.files, seen: map[protoreflect.FullName]bool{}}
	p.only, _ = d.(protoreflect.MethodDescriptor)
	p.want(d)
	for len(p.open) > 0 {
		// What is in one file is written together.
		i := max(0, slices.IndexFunc(p.open, func(d protoreflect.Descriptor) bool { return d.ParentFile() == p.file }))
		d := p.open[i]
		p.open = slices.Delete(p.open, i, i+1)
		if p.text.Len() > maxDescription {
			p.line("// There is more, which is left out.")
			break
		}
		p.top(d)
	}
	return p.text.String(), nil
}

// known tells whether a service is listed.
func (s *Schema) known(name string) bool {
	_, ok := s.byName[name]
	return ok
}

// names returns the names of all that can be described.
func (s *Schema) names() (names []string) {
	for _, service := range s.services {
		names = append(names, service.Name)
	}
	return append(names, s.types.messages()...)
}

// A printer writes declarations as a .proto file has them.
type printer struct {
	text   strings.Builder
	indent int
	known  *protoregistry.Files
	file   protoreflect.FileDescriptor // of what was written last
	scope  protoreflect.FullName       // the message that is being written, or its package
	seen   map[protoreflect.FullName]bool
	open   []protoreflect.Descriptor     // to be written
	only   protoreflect.MethodDescriptor // of its service, if it is not nil
}

// want has a declaration written, with what it is declared in.
func (p *printer) want(d protoreflect.Descriptor) {
	for {
		parent := d.Parent()
		if _, isFile := parent.(protoreflect.FileDescriptor); isFile || parent == nil {
			break
		}
		d = parent
	}
	if !p.seen[d.FullName()] {
		p.seen[d.FullName()] = true
		p.open = append(p.open, d)
	}
}

// use has the message or the enum of a field or a method written, unless everybody knows
// it, and returns its name.
func (p *printer) use(d protoreflect.Descriptor) string {
	if d.ParentFile() == nil || d.ParentFile().Package() != "google.protobuf" {
		p.want(d)
	}
	return p.relative(d.FullName())
}

// relative returns a name as it can be written within the scope: as short as it can be
// without meaning something else.
func (p *printer) relative(name protoreflect.FullName) string {
	for scope := p.scope; scope != "" && len(scope) >= len(p.file.Package()); scope = scope.Parent() {
		if short, ok := strings.CutPrefix(string(name), string(scope)+"."); ok {
			if p.unambiguous(short, scope) {
				return short
			}
			break
		}
	}
	if p.unambiguous(string(name), "") {
		return string(name)
	}
	return "." + string(name)
}

// unambiguous tells whether the first part of a name means nothing in the scopes within
// the outer one.
func (p *printer) unambiguous(name string, outer protoreflect.FullName) bool {
	first, _, _ := strings.Cut(name, ".")
	for scope := p.scope; scope != outer && scope != ""; scope = scope.Parent() {
		if _, err := p.known.FindDescriptorByName(scope.Append(protoreflect.Name(first))); err == nil {
			return false
		}
	}
	return true
}

// top writes a declaration that is in no other.
func (p *printer) top(d protoreflect.Descriptor) {
	if file := d.ParentFile(); p.file == nil || file.Path() != p.file.Path() {
		if p.file != nil {
			p.line("")
		}
		p.file = file
		p.head(file)
	}
	p.line("")
	p.scope = p.file.Package()
	switch d := d.(type) {
	case protoreflect.ServiceDescriptor:
		p.service(d)
	case protoreflect.MessageDescriptor:
		p.message(d)
	case protoreflect.EnumDescriptor:
		p.enum(d)
	case protoreflect.ExtensionDescriptor:
		p.line("extend %s {", p.use(d.ContainingMessage()))
		p.indent++
		p.field(d)
		p.indent--
		p.line("}")
	}
}

// head writes what holds for a whole file.
func (p *printer) head(file protoreflect.FileDescriptor) {
	p.line("// %s", plain(file.Path()))
	switch file.Syntax() {
	case protoreflect.Editions:
		edition := "unknown"
		if e, ok := file.(interface{ Edition() int32 }); ok {
			edition = strings.TrimPrefix(descriptorpb.Edition(e.Edition()).String(), "EDITION_")
		}
		p.line("edition = %q;", edition)
	default:
		p.line("syntax = %q;", file.Syntax().String())
	}
	if file.Package() != "" {
		p.line("package %s;", file.Package())
	}
	if o, ok := file.Options().(*descriptorpb.FileOptions); ok && o.GetFeatures() != nil {
		p.options(&descriptorpb.FileOptions{Features: o.GetFeatures()})
	}
}

func (p *printer) service(d protoreflect.ServiceDescriptor) {
	p.comment(d)
	p.line("service %s {", d.Name())
	p.indent++
	p.options(d.Options())
	for i := range d.Methods().Len() {
		m := d.Methods().Get(i)
		if p.only != nil && m.FullName() != p.only.FullName() {
			continue
		}
		p.comment(m)
		stream := func(is bool) string {
			if is {
				return "stream "
			}
			return ""
		}
		head := fmt.Sprintf("rpc %s(%s%s) returns (%s%s)", m.Name(),
			stream(m.IsStreamingClient()), p.use(m.Input()), stream(m.IsStreamingServer()), p.use(m.Output()))
		if settings := settings(m.Options()); len(settings) > 0 {
			p.line("%s {", head)
			p.indent++
			p.options(m.Options())
			p.indent--
			p.line("}")
			continue
		}
		p.line("%s;", head)
	}
	p.indent--
	p.line("}")
}

func (p *printer) message(d protoreflect.MessageDescriptor) {
	p.comment(d)
	if d.Fields().Len()+d.ExtensionRanges().Len()+d.Messages().Len()+d.Enums().Len()+len(settings(d.Options())) == 0 {
		p.line("message %s {}", d.Name())
		return
	}
	p.line("message %s {", d.Name())
	p.body(d)
	p.line("}")
}

// body writes what is between the braces of a message.
func (p *printer) body(d protoreflect.MessageDescriptor) {
	p.indent++
	outer := p.scope
	p.scope = d.FullName()
	start := p.text.Len()
	p.options(d.Options())
	var last protoreflect.OneofDescriptor // whose fields are written together
	groups := map[protoreflect.FullName]bool{}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if f.Kind() == protoreflect.GroupKind && f.ParentFile().Syntax() == protoreflect.Proto2 {
			groups[f.Message().FullName()] = true
		}
		o := f.ContainingOneof()
		switch {
		case o == nil || o.IsSynthetic():
			p.field(f)
		case last == nil || o.Index() != last.Index():
			p.oneof(o)
			last = o
		}
	}
	for i := range d.ExtensionRanges().Len() {
		r := d.ExtensionRanges().Get(i)
		p.line("extensions %s;", numberRange(int(r[0]), int(r[1])-1, 1<<29-1))
	}
	for i := range d.Messages().Len() {
		m := d.Messages().Get(i)
		if m.IsMapEntry() || groups[m.FullName()] {
			continue
		}
		p.part(start)
		p.message(m)
	}
	for i := range d.Enums().Len() {
		p.part(start)
		p.enum(d.Enums().Get(i))
	}
	p.indent--
	p.scope = outer
}

// part writes an empty line, unless nothing has been written since the start.
func (p *printer) part(start int) {
	if p.text.Len() > start {
		p.line("")
	}
}

func (p *printer) oneof(o protoreflect.OneofDescriptor) {
	p.comment(o)
	p.line("oneof %s {", o.Name())
	p.indent++
	for i := range o.Fields().Len() {
		p.field(o.Fields().Get(i))
	}
	p.indent--
	p.line("}")
}

func (p *printer) field(f protoreflect.FieldDescriptor) {
	p.comment(f)
	label := ""
	legacy := f.ParentFile().Syntax() == protoreflect.Proto2
	switch {
	case f.IsMap() || f.ContainingOneof() != nil && !f.ContainingOneof().IsSynthetic():
	case f.IsList():
		label = "repeated "
	case f.Cardinality() == protoreflect.Required && legacy:
		label = "required "
	case f.HasOptionalKeyword(), legacy:
		label = "optional "
	}
	if f.Kind() == protoreflect.GroupKind && legacy {
		p.line("%sgroup %s = %d%s {", label, f.Message().Name(), f.Number(), p.brackets(f))
		p.body(f.Message())
		p.line("}")
		return
	}
	p.line("%s%s %s = %d%s;", label, p.kind(f), f.Name(), f.Number(), p.brackets(f))
}

// kind returns a field's type as it is written.
func (p *printer) kind(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s, %s>", p.kind(f.MapKey()), p.kind(f.MapValue()))
	case f.Message() != nil:
		return p.use(f.Message())
	case f.Enum() != nil:
		return p.use(f.Enum())
	}
	return f.Kind().String()
}

// brackets returns what a field's line says between brackets.
func (p *printer) brackets(f protoreflect.FieldDescriptor) string {
	var list []string
	if f.HasDefault() {
		list = append(list, "default = "+defaultOf(f))
	}
	if f.HasJSONName() && !f.IsExtension() && f.JSONName() != derivedJSONName(string(f.Name())) {
		list = append(list, "json_name = "+quoteProto(f.JSONName()))
	}
	list = append(list, settings(f.Options())...)
	if len(list) == 0 {
		return ""
	}
	return " [" + strings.Join(list, ", ") + "]"
}

func (p *printer) enum(d protoreflect.EnumDescriptor) {
	p.comment(d)
	p.line("enum %s {", d.Name())
	p.indent++
	p.options(d.Options())
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		p.comment(v)
		brackets := ""
		if list := settings(v.Options()); len(list) > 0 {
			brackets = " [" + strings.Join(list, ", ") + "]"
		}
		p.line("%s = %d%s;", v.Name(), v.Number(), brackets)
	}
	p.indent--
	p.line("}")
}

// options writes the options of what is between braces.
func (p *printer) options(options proto.Message) {
	for _, s := range settings(options) {
		p.line("option %s;", s)
	}
}

// settings returns the options that are set, as in deprecated = true: those that Protocol
// Buffers have, not those that somebody has added.
func settings(options proto.Message) (list []string) {
	if options == nil || !options.ProtoReflect().IsValid() {
		return nil
	}
	var add func(prefix string, m protoreflect.Message)
	add = func(prefix string, m protoreflect.Message) {
		for i := range m.Descriptor().Fields().Len() {
			f := m.Descriptor().Fields().Get(i)
			if !m.Has(f) || f.IsList() || f.IsMap() || f.Name() == "map_entry" {
				continue
			}
			name := prefix + string(f.Name())
			switch v := m.Get(f); f.Kind() {
			case protoreflect.MessageKind:
				add(name+".", v.Message())
			case protoreflect.EnumKind:
				if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
					list = append(list, name+" = "+string(value.Name()))
				}
			case protoreflect.StringKind:
				list = append(list, name+" = "+quoteProto(v.String()))
			default:
				list = append(list, fmt.Sprintf("%s = %v", name, v.Interface()))
			}
		}
	}
	add("", options.ProtoReflect())
	return list
}

// comment writes the comment above a declaration.
func (p *printer) comment(d protoreflect.Descriptor) {
	text := comment(d)
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		p.line("%s", strings.TrimRight("// "+strings.TrimRight(line, "\n"), " "))
	}
}

// line writes a line. An empty one is not written at the very beginning.
func (p *printer) line(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if line == "" && p.text.Len() == 0 {
		return
	}
	if line != "" {
		line = strings.Repeat("  ", p.indent) + line
	}
	p.text.WriteString(line + "\n")
}

// comment returns the comment above a declaration, or beside it if there is none above:
// its lines, without the signs of a comment and characters that a terminal would obey.
func comment(d protoreflect.Descriptor) string {
	at := d.ParentFile().SourceLocations().ByDescriptor(d)
	text := at.LeadingComments
	if text == "" {
		text = at.TrailingComments
	}
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ReplaceAll(text, "\r\n", "\n"))
	var lines []string
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		lines = append(lines, strings.TrimRight(strings.TrimPrefix(line, " "), " "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// defaultOf writes the default value of a field of proto2.
func defaultOf(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.EnumKind:
		return string(f.DefaultEnumValue().Name())
	case protoreflect.StringKind:
		return quoteProto(f.Default().String())
	case protoreflect.BytesKind:
		return quoteProto(string(f.Default().Bytes()))
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		bits := 64
		if f.Kind() == protoreflect.FloatKind {
			bits = 32
		}
		text := strconv.FormatFloat(f.Default().Float(), 'g', -1, bits)
		return strings.ToLower(strings.TrimPrefix(text, "+"))
	}
	return fmt.Sprint(f.Default().Interface())
}

// quoteProto writes a string, or bytes, between quotes.
func quoteProto(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + s[:size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == utf8.RuneError || !unicode.IsPrint(r):
			for _, c := range []byte(s[:size]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	b.WriteByte('"')
	return b.String()
}

// derivedJSONName is the name in JSON that follows from a field's name.
func derivedJSONName(name string) string {
	var b strings.Builder
	upper := false
	for _, r := range []byte(name) {
		switch {
		case r == '_':
			upper = true
			continue
		case upper && 'a' <= r && r <= 'z':
			r -= 'a' - 'A'
		}
		upper = false
		b.WriteByte(r)
	}
	return b.String()
}

func numberRange(from, to, most int) string {
	switch {
	case from == to:
		return strconv.Itoa(from)
	case to == most:
		return strconv.Itoa(from) + " to max"
	}
	return strconv.Itoa(from) + " to " + strconv.Itoa(to)
}
