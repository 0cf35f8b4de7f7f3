package conformance

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// namespace is where the suite's messages and its service are.
const namespace = "connectrpc.conformance.v1."

// A schema is what the suite's .proto files say.
type schema struct{ resolver linker.Resolver }

// newSchema compiles the suite's .proto files.
func newSchema(folder string) (*schema, error) {
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}})}
	const place = "connectrpc/conformance/v1/"
	files, err := compiler.Compile(context.Background(),
		place+"client_compat.proto", place+"service.proto", "google/protobuf/any.proto")
	if err != nil {
		return nil, err
	}
	return &schema{resolver: files.AsResolver()}, nil
}

// make returns a new message of a type.
func (s *schema) make(name string) (message, error) {
	found, err := s.resolver.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return message{}, fmt.Errorf("%s: %w", name, err)
	}
	d, ok := found.(protoreflect.MessageDescriptor)
	if !ok {
		return message{}, fmt.Errorf("%s is no message", name)
	}
	return message{dynamicpb.NewMessage(d)}, nil
}

// method returns a method by the names of its service and of itself.
func (s *schema) method(service, name string) (protoreflect.MethodDescriptor, error) {
	found, err := s.resolver.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", service, err)
	}
	d, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no service", service)
	}
	m := d.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return nil, fmt.Errorf("%s has no method %s", service, name)
	}
	return m, nil
}

// unpack returns what is in a google.protobuf.Any.
func (s *schema) unpack(packed message) (message, error) {
	url := packed.text("type_url")
	m, err := s.make(url[strings.LastIndexByte(url, '/')+1:])
	if err != nil {
		return m, err
	}
	return m, proto.Unmarshal(packed.bytes("value"), m.Interface())
}

// maxMessage bounds a message of the suite, in bytes.
const maxMessage = 64 << 20

// read reads a message as the suite writes it: after its length.
func (s *schema) read(r io.Reader, name string) (message, error) {
	m, err := s.make(name)
	if err != nil {
		return m, err
	}
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return m, err // io.EOF is the end
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxMessage {
		return m, fmt.Errorf("a message of %d bytes", size)
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(r, content); err != nil {
		return m, fmt.Errorf("a message is cut short: %w", err)
	}
	return m, proto.Unmarshal(content, m.Interface())
}

// write writes a message as the suite reads it.
func write(w io.Writer, m message) error {
	content, err := proto.Marshal(m.Interface())
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(content))), content...)) //nolint:gosec // of this test's making
	return err
}

// A message is one whose fields go by their names. A name that it does not have is a fault of
// this program.
type message struct{ protoreflect.Message }

func (m message) field(name string) protoreflect.FieldDescriptor {
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if f == nil {
		panic(fmt.Sprintf("%s has no field %s", m.Descriptor().FullName(), name))
	}
	return f
}

func (m message) value(name string) protoreflect.Value { return m.Get(m.field(name)) }
func (m message) text(name string) string              { return m.value(name).String() }
func (m message) has(name string) bool                 { return m.Has(m.field(name)) }
func (m message) bytes(name string) []byte             { return m.value(name).Bytes() }
func (m message) number(name string) int               { return int(m.value(name).Uint()) } //nolint:gosec // the suite's numbers are small
func (m message) enum(name string) int                 { return int(m.value(name).Enum()) }
func (m message) message(name string) message          { return message{m.value(name).Message()} }
func (m message) set(name string, v any)               { m.Set(m.field(name), protoreflect.ValueOf(v)) }

// make returns the message in a field, which is set by it.
func (m message) make(name string) message { return message{m.Mutable(m.field(name)).Message()} }

// all returns the messages of a list.
func (m message) all(name string) (all []message) {
	list := m.value(name).List()
	for i := range list.Len() {
		all = append(all, message{list.Get(i).Message()})
	}
	return all
}

// add adds a message to a list, and returns it.
func (m message) add(name string) message {
	return message{m.Mutable(m.field(name)).List().AppendMutable().Message()}
}

// copy makes a message the same as another.
func (m message) copy(from message) { proto.Merge(m.Interface(), from.Interface()) }

// fields are what the suite calls headers: names, each with its values.
type fields []field

type field struct {
	name   string
	values []string
}

// add adds a value to a name's.
func (all *fields) add(name, value string) {
	for i := range *all {
		if f := &(*all)[i]; f.name == name {
			f.values = append(f.values, value)
			return
		}
	}
	*all = append(*all, field{name, []string{value}})
}

// get returns the first value of a name.
func (all fields) get(name string) string {
	for _, f := range all {
		if f.name == name {
			return f.values[0]
		}
	}
	return ""
}

// fields returns those of a list of headers, their names in lower case.
func (m message) fields(name string) (all fields) {
	for _, h := range m.all(name) {
		values := h.value("value").List()
		for i := range values.Len() {
			all.add(strings.ToLower(h.text("name")), values.Get(i).String())
		}
	}
	return all
}

// setFields sets a list of headers.
func (m message) setFields(name string, all fields) {
	for _, f := range all {
		h := m.add(name)
		h.set("name", f.name)
		values := h.Mutable(h.field("value")).List()
		for _, v := range f.values {
			values.Append(protoreflect.ValueOfString(v))
		}
	}
}
