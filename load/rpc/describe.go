package rpc

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/load/rpc/diag"
)

// Bounds on a description, after which no further message is described.
const (
	maxDescription = 1 << 20 // bytes
	maxDescribed   = 1000    // messages, enums and services
)

// Describe returns a service, method, message or enum, by its full name, as the text of a .proto file:
// with its comments, and followed by all messages and enums that it uses, except those of
// google.protobuf.
func (s *Schema) Describe(name string) (string, error) {
	name = strings.TrimPrefix(name, "/")
	d, err := s.files.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(name, "/", ".")))
	if err != nil {
		if _, err := s.Service(name); err != nil && s.hasService(name) {
			return "", err // a service that the server does not describe
		}
		return "", &diag.Fault{Source: s.source, Problem: "there is neither a service nor a message " + diag.Quote(name), Hint: diag.Suggest(name, s.names())}
	}
	p := &describer{seen: map[protoreflect.FullName]bool{}}
	p.want(d)
	for n := 0; len(p.open) > 0; n++ {
		// Elements of one file are written together.
		i := max(0, slices.IndexFunc(p.open, func(d protoreflect.Descriptor) bool { return d.ParentFile() == p.file }))
		d := p.open[i]
		p.open = slices.Delete(p.open, i, i+1)
		if p.text.Len() > maxDescription || n == maxDescribed {
			p.text.WriteString("// There is more, which is left out.\n")
			break
		}
		if err := p.write(d); err != nil {
			return "", &diag.Fault{Source: s.source, Path: name, Problem: diag.Plain(err.Error())}
		}
	}
	return printable(p.text.String()), nil
}

// hasService tells whether a service is listed.
func (s *Schema) hasService(name string) bool {
	_, ok := s.byName[name]
	return ok
}

// names returns the names of all that can be described.
func (s *Schema) names() (names []string) {
	for _, service := range s.services {
		names = append(names, service.Name)
	}
	return append(names, s.types.Names()...)
}

// A describer writes declarations as .proto files have them.
type describer struct {
	text strings.Builder
	file protoreflect.FileDescriptor // the file of the last written element
	seen map[protoreflect.FullName]bool
	open []protoreflect.Descriptor // to be written
}

// printer leaves out comments that belong to no declaration.
var printer = protoprint.Printer{Compact: true, OmitComments: protoprint.CommentsDetached | protoprint.CommentsTokens}

// want has a declaration written: the outermost that it is in, or a method alone.
func (p *describer) want(d protoreflect.Descriptor) {
	for _, isMethod := d.(protoreflect.MethodDescriptor); !isMethod && d.Parent() != d.ParentFile(); {
		d = d.Parent()
	}
	if !p.seen[d.FullName()] {
		p.seen[d.FullName()] = true
		p.open = append(p.open, d)
	}
}

// write writes a declaration, and wants those that it uses.
func (p *describer) write(d protoreflect.Descriptor) error {
	if file := d.ParentFile(); p.file == nil || file.Path() != p.file.Path() {
		head, err := head(file)
		if err != nil {
			return err
		}
		if p.file != nil {
			p.text.WriteByte('\n')
		}
		p.text.WriteString(head)
		p.file = file
	}
	text, err := printer.PrintProtoToString(d)
	if err != nil {
		return err
	}
	if m, ok := d.(protoreflect.MethodDescriptor); ok {
		text = fmt.Sprintf("service %s {\n  %s\n}\n", m.Parent().Name(), strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  "))
	}
	p.text.WriteString("\n" + strings.TrimSpace(text) + "\n")
	p.uses(d)
	return nil
}

// head returns what holds for a whole file.
func head(file protoreflect.FileDescriptor) (string, error) {
	whole := protodesc.ToFileDescriptorProto(file)
	bare := &descriptorpb.FileDescriptorProto{Name: whole.Name, Package: whole.Package, Syntax: whole.Syntax, Edition: whole.Edition}
	if features := whole.GetOptions().GetFeatures(); features != nil {
		bare.Options = &descriptorpb.FileOptions{Features: features}
	}
	d, err := protodesc.NewFile(bare, &protoregistry.Files{})
	if err != nil {
		return "", err
	}
	text, err := printer.PrintProtoToString(d)
	return "// " + diag.Plain(file.Path()) + "\n" + text, err
}

// uses wants the messages and enums of a declaration, unless everybody knows them.
func (p *describer) uses(d protoreflect.Descriptor) {
	use := func(d protoreflect.Descriptor) {
		if d != nil && d.ParentFile().Package() != "google.protobuf" {
			p.want(d)
		}
	}
	switch d := d.(type) {
	case protoreflect.ServiceDescriptor:
		for i := range d.Methods().Len() {
			p.uses(d.Methods().Get(i))
		}
	case protoreflect.MethodDescriptor:
		use(d.Input())
		use(d.Output())
	case protoreflect.MessageDescriptor:
		for i := range d.Fields().Len() {
			p.uses(d.Fields().Get(i))
		}
		for i := range d.Messages().Len() {
			p.uses(d.Messages().Get(i))
		}
	case protoreflect.FieldDescriptor:
		if d.IsExtension() {
			use(d.ContainingMessage())
		}
		if d.Message() != nil {
			use(d.Message())
		}
		if d.Enum() != nil {
			use(d.Enum())
		}
	}
}

// comment returns the comment above a declaration, or on its line if there is none above:
// its lines, without the signs of a comment and characters that a terminal would obey.
func comment(d protoreflect.Descriptor) string {
	at := d.ParentFile().SourceLocations().ByDescriptor(d)
	text := at.LeadingComments
	if text == "" {
		text = at.TrailingComments
	}
	text = printable(strings.ReplaceAll(text, "\r\n", "\n"))
	var lines []string
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		lines = append(lines, strings.TrimRight(strings.TrimPrefix(line, " "), " "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// printable replaces the characters of a text that a terminal would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
