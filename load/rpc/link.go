package rpc

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/internal/nearest"
	"dyno/load/rpc/diag"
	"dyno/load/rpc/message"
)

// Bounds on descriptors. The largest collections of .proto files that are published stay
// below a tenth of each.
const (
	maxSource    = 64 << 20  // bytes of all descriptors of a source
	maxFiles     = 10_000    // files of a source
	maxElements  = 2_000_000 // messages within the descriptors of a source: fields, comments, …
	maxNameBytes = 256 << 20 // bytes of the full names of all that a source declares
	maxName      = 1024      // bytes of a name, without what it is in
	maxNesting   = 64        // of declarations, and of messages within a descriptor
	maxImports   = 100       // of files that import each other in a chain
	maxPublic    = 100_000   // paths of public imports that lead from a file
)

// A linker makes descriptors of the files that compilers or servers return. Each file is examined when
// it is added, and linked on demand.
type linker struct {
	source string
	protos map[string]*descriptorpb.FileDescriptorProto
	files  *protoregistry.Files
	linked map[string]*link

	bytes, elements, names int // so far

	// Bounds that depend on whose descriptors these are.
	mostElements, mostNames int
}

// A link is what became of a file.
type link struct {
	file   protoreflect.FileDescriptor // nil: failed, or not finished
	err    error
	depth  int // of imports
	public int // paths of public imports that lead from it
}

func newLinker(source string) *linker {
	return &linker{
		source: source,
		protos: map[string]*descriptorpb.FileDescriptorProto{},
		files:  &protoregistry.Files{},
		linked: map[string]*link{},

		mostElements: maxElements,
		mostNames:    maxNameBytes,
	}
}

// fault returns a fault in a file; path may be empty.
func (l *linker) fault(path, format string, args ...any) *diag.Fault {
	return &diag.Fault{Source: l.source, Path: diag.Plain(path), Problem: fmt.Sprintf(format, args...)}
}

// addBytes adds a file in its binary form.
func (l *linker) addBytes(b []byte) error {
	if err := l.admit(b); err != nil {
		return err
	}
	fd := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(b, fd); err != nil {
		return l.fault("", "a file's descriptor is not valid: %s", diag.Cause(err))
	}
	return l.add(fd)
}

// admit holds a file in its binary form to the bounds, before anything is made of it: a
// descriptor of two bytes becomes an object of two hundred.
func (l *linker) admit(b []byte) error {
	if l.bytes += len(b); l.bytes > maxSource {
		return l.fault("", "the descriptors take more than %d MiB", maxSource>>20)
	}
	return l.scan(b, (*descriptorpb.FileDescriptorProto)(nil).ProtoReflect().Descriptor(), 0)
}

// scan counts the messages within one of a known type.
func (l *linker) scan(b []byte, d protoreflect.MessageDescriptor, depth int) error {
	broken := func(n int) error {
		return l.fault("", "a file's descriptor is not valid: %s", diag.Cause(protowire.ParseError(n)))
	}
	if depth > maxNesting {
		return l.fault("", "a file's descriptor nests deeper than %d", maxNesting)
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return broken(n)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return broken(n)
		}
		field := d.Fields().ByNumber(number)
		if field != nil && kind == protowire.BytesType && (field.Message() != nil || field.IsList()) {
			if l.elements++; l.elements > l.mostElements {
				f := l.fault("", "there are more than %d parts in the descriptors", l.mostElements)
				if l.mostElements < maxElements {
					f.Hint = "give --proto or --protoset"
				}
				return f
			}
			if field.Message() != nil {
				inner, _ := protowire.ConsumeBytes(b) // it is valid: see above
				if err := l.scan(inner, field.Message(), depth+1); err != nil {
					return err
				}
			}
		}
		b = b[n:]
	}
	return nil
}

// add adds a file. The same file may be added again, another one of that name may not.
func (l *linker) add(fd *descriptorpb.FileDescriptorProto) error {
	path := fd.GetName()
	if path == "" || len(path) > maxName {
		return l.fault("", "a file's name has %d bytes, and must have 1 to %d", len(path), maxName)
	}
	if before := l.protos[path]; before != nil {
		if !proto.Equal(before, fd) {
			return l.fault(path, "there are two files of this name, which contradict each other")
		}
		return nil
	}
	if len(l.protos) == maxFiles {
		return l.fault("", "there are more than %d files", maxFiles)
	}
	if err := l.measure(fd); err != nil {
		return err
	}
	l.protos[path] = fd
	return nil
}

// measure adds up the bytes of all full names that a file declares. A full name includes its parents'
// names, so nested names could grow with the square of a file's size.
func (l *linker) measure(fd *descriptorpb.FileDescriptorProto) (err error) {
	declare := func(scope int, name string) (full int) {
		full = scope + 1 + len(name)
		l.names += full
		if len(name) > maxName && err == nil {
			err = l.fault(fd.GetName(), "a name has %d bytes, and may have %d", len(name), maxName)
		}
		return full
	}
	fields := func(scope int, list []*descriptorpb.FieldDescriptorProto) {
		for _, f := range list {
			declare(scope, f.GetName())
		}
	}
	enums := func(scope int, list []*descriptorpb.EnumDescriptorProto) {
		for _, e := range list {
			inner := declare(scope, e.GetName())
			for _, v := range e.GetValue() {
				declare(inner, v.GetName())
			}
		}
	}
	var messages func(scope, depth int, list []*descriptorpb.DescriptorProto)
	messages = func(scope, depth int, list []*descriptorpb.DescriptorProto) {
		if len(list) > 0 && depth == maxNesting {
			err = l.fault(fd.GetName(), "messages are declared within each other deeper than %d", maxNesting)
			return
		}
		for _, m := range list {
			inner := declare(scope, m.GetName())
			fields(inner, m.GetField())
			fields(inner, m.GetExtension())
			enums(inner, m.GetEnumType())
			for _, o := range m.GetOneofDecl() {
				declare(inner, o.GetName())
			}
			messages(inner, depth+1, m.GetNestedType())
		}
	}
	scope := declare(0, fd.GetPackage())
	messages(scope, 0, fd.GetMessageType())
	fields(scope, fd.GetExtension())
	enums(scope, fd.GetEnumType())
	for _, s := range fd.GetService() {
		inner := declare(scope, s.GetName())
		for _, m := range s.GetMethod() {
			declare(inner, m.GetName())
		}
	}
	if err == nil && l.names > l.mostNames {
		err = l.fault(fd.GetName(), "the names of all declarations take more than %d MiB", l.mostNames>>20)
	}
	return err
}

// missing returns the files that are imported and were not added, by name, without those
// that everybody has.
func (l *linker) missing() (paths []string) {
	for _, fd := range l.protos {
		for _, path := range fd.GetDependency() {
			if l.protos[path] != nil {
				continue
			}
			if _, err := message.WellKnown().FindFileByPath(path); err != nil {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// link links a file and all that it imports. A file that failed has the same error each
// time.
func (l *linker) link(path string) (protoreflect.FileDescriptor, error) {
	done := l.linkChain(path, nil)
	return done.file, done.err
}

func (l *linker) linkChain(path string, above []string) *link {
	if done := l.linked[path]; done != nil {
		if done.file == nil && done.err == nil { // it is being linked
			cycle := append(above[slices.Index(above, path):], path)
			return &link{err: l.fault(path, "cyclic imports: %s", chain(cycle))}
		}
		return done
	}
	done := &link{}
	l.linked[path] = done
	fd := l.protos[path]
	if fd == nil {
		l.linkKnown(path, above, done)
		return done
	}
	above = append(above, path)
	if len(above) > maxImports {
		done.err = l.fault(path, "files import each other in a chain of more than %d", maxImports)
		return done
	}
	for i, imported := range fd.GetDependency() {
		inner := l.linkChain(imported, above)
		if inner.err != nil {
			done.err = inner.err
			return done
		}
		done.depth = max(done.depth, inner.depth+1)
		if slices.Contains(fd.GetPublicDependency(), int32(i)) {
			done.public += 1 + inner.public
		}
	}
	// Chains of linked files are as long as others, and the module follows each path of public imports:
	// there can be 2ⁿ of them through n files.
	switch {
	case done.depth > maxImports:
		done.err = l.fault(path, "files import each other in a chain of more than %d", maxImports)
	case done.public > maxPublic:
		done.err = l.fault(path, "public imports lead to it by more than %d paths", maxPublic)
	}
	if done.err != nil {
		return done
	}
	file, err := protodesc.NewFile(fd, l.files)
	if err != nil {
		done.err = l.fault(path, "%s", diag.Cause(err))
		return done
	}
	if err := checkWellKnown(file.Messages()); err != "" {
		done.err = l.fault(path, "%s", err)
		return done
	}
	if err := l.files.RegisterFile(file); err != nil {
		done.err = l.fault(path, "it contradicts another file: %s", diag.Cause(err))
		return done
	}
	done.file = file
	return done
}

// linkKnown links a file that everybody has, or says that the file is missing.
func (l *linker) linkKnown(path string, above []string, done *link) {
	file, err := message.WellKnown().FindFileByPath(path)
	if err == nil {
		for i := range file.Imports().Len() {
			if inner := l.linkChain(file.Imports().Get(i).Path(), append(above, path)); inner.err != nil {
				done.err = inner.err
				return
			}
		}
		if err := l.files.RegisterFile(file); err != nil {
			done.err = l.fault(path, "it contradicts another file: %s", diag.Cause(err))
			return
		}
		done.file = file
		return
	}
	fault := l.fault(path, "the file is missing")
	if len(above) > 0 {
		fault = l.fault(above[len(above)-1], "imports %s, which is missing", diag.Quote(path))
		names := make([]string, 0, len(l.protos))
		for name := range l.protos {
			if name != above[len(above)-1] {
				names = append(names, diag.Plain(name))
			}
		}
		slices.Sort(names)
		if meant, found := nearest.Find(path, names); found {
			fault.Hint = fmt.Sprintf("did you mean %q?", meant)
		}
	}
	done.err = fault
}

// linkAll links every file that was added.
func (l *linker) linkAll() error {
	paths := make([]string, 0, len(l.protos))
	for path := range l.protos {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	var faults []error
	reported := map[error]bool{}
	for _, path := range paths {
		if _, err := l.link(path); err != nil && !reported[err] {
			reported[err] = true
			faults = append(faults, err)
		}
	}
	return joinFaults(faults)
}

// chain writes names for people, the middle of long chains left out.
func chain(paths []string) string {
	const shown = 10
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = diag.Plain(p)
	}
	if len(names) > shown {
		names = append(append(names[:shown/2:shown/2], "…"), names[len(names)-shown/2:]...)
	}
	return strings.Join(names, " → ")
}

// checkWellKnown returns what is wrong with messages that have the names of well-known ones, or "".
// JSON is made from their known fields, not from what a schema says of them.
func checkWellKnown(messages protoreflect.MessageDescriptors) string {
	for i := range messages.Len() {
		m := messages.Get(i)
		if problem := checkWellKnown(m.Messages()); problem != "" {
			return problem
		}
		if m.FullName().Parent() != "google.protobuf" {
			continue
		}
		d, err := message.WellKnown().FindDescriptorByName(m.FullName())
		published, ok := d.(protoreflect.MessageDescriptor)
		if err != nil || !ok || published.ParentFile() == descriptorpb.File_google_protobuf_descriptor_proto {
			continue
		}
		for j := range published.Fields().Len() {
			want := published.Fields().Get(j)
			if !sameField(m.Fields().ByNumber(want.Number()), want) {
				return fmt.Sprintf("%s is not the well-known message of that name: its field %d should be %s", m.FullName(), want.Number(), want.Name())
			}
		}
	}
	return ""
}

// sameField tells whether a field holds the same as a well-known one.
func sameField(f, want protoreflect.FieldDescriptor) bool {
	if f == nil || f.Name() != want.Name() || f.Kind() != want.Kind() || f.Cardinality() != want.Cardinality() || f.IsMap() != want.IsMap() {
		return false
	}
	if f.IsMap() {
		return sameField(f.MapKey(), want.MapKey()) && sameField(f.MapValue(), want.MapValue())
	}
	if want.Message() != nil && f.Message().FullName() != want.Message().FullName() || want.Enum() != nil && f.Enum().FullName() != want.Enum().FullName() {
		return false
	}
	if o := want.ContainingOneof(); o != nil {
		return f.ContainingOneof() != nil && f.ContainingOneof().Name() == o.Name()
	}
	return f.ContainingOneof() == nil
}
