package rpc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// file is a descriptor of proto3 with imports.
func file(name string, imports ...string) *descriptorpb.FileDescriptorProto {
	return &descriptorpb.FileDescriptorProto{Name: &name, Syntax: proto.String("proto3"), Dependency: imports}
}

// declaring adds a package and messages to a file.
func declaring(f *descriptorpb.FileDescriptorProto, pkg string, messages ...string) *descriptorpb.FileDescriptorProto {
	f.Package = &pkg
	for _, m := range messages {
		f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String(m)})
	}
	return f
}

// publicly makes all imports of a file public.
func publicly(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	for i := range f.GetDependency() {
		f.PublicDependency = append(f.PublicDependency, int32(i))
	}
	return f
}

// withField adds a field of a message type to a file's first message.
func withField(f *descriptorpb.FileDescriptorProto, name, kind string) *descriptorpb.FileDescriptorProto {
	m := f.MessageType[0]
	m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
		Name:     &name,
		Number:   proto.Int32(int32(len(m.Field) + 1)),
		Label:    descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		Type:     descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		TypeName: &kind,
	})
	return f
}

func TestFromProtoset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.binpb")
	if err := os.WriteFile(path, protoset(t, fileProtos(shop(t))...), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := FromProtoset(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(find(t, s, "shop.v1.Shop/Buy").Service); n == 0 {
		t.Error("no service")
	}
	_, err = FromProtoset(path + ".none")
	expect(t, err, path+".none", "no such file")
	_, err = FromProtoset(filepath.Dir(path))
	expect(t, err, filepath.Dir(path), "this is a folder")
	if err := os.Truncate(path, maxProtoset+1); err != nil {
		t.Fatal(err)
	}
	_, err = FromProtoset(path)
	expect(t, err, path, "the file has more than 64 MiB")
}

// chained returns files that import each other in a chain of that length.
func chained(n int) (files []*descriptorpb.FileDescriptorProto) {
	for i := range n - 1 {
		files = append(files, file(fmt.Sprintf("%05d.proto", i), fmt.Sprintf("%05d.proto", i+1)))
	}
	return append(files, file(fmt.Sprintf("%05d.proto", n-1)))
}

// bushy returns files with 2ⁿ paths of public imports.
func bushy(n int) (files []*descriptorpb.FileDescriptorProto) {
	for i := range n {
		a, b := fmt.Sprintf("a%d.proto", i+1), fmt.Sprintf("b%d.proto", i+1)
		files = append(files, publicly(file(fmt.Sprintf("a%d.proto", i), a, b)), publicly(file(fmt.Sprintf("b%d.proto", i), a, b)))
	}
	return append(files, file(fmt.Sprintf("a%d.proto", n)), file(fmt.Sprintf("b%d.proto", n)))
}

// nested returns a file whose messages are declared within each other so deep.
func nested(n int) *descriptorpb.FileDescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String("M")}
	for range n - 1 {
		m = &descriptorpb.DescriptorProto{Name: proto.String("M"), NestedType: []*descriptorpb.DescriptorProto{m}}
	}
	f := file("nested.proto")
	f.MessageType = append(f.MessageType, m)
	return f
}

func reverse(files []*descriptorpb.FileDescriptorProto) []*descriptorpb.FileDescriptorProto {
	for i, j := 0, len(files)-1; i < j; i, j = i+1, j-1 {
		files[i], files[j] = files[j], files[i]
	}
	return files
}

func TestProtosetsThatAreWrong(t *testing.T) {
	timestamp := declaring(file("google/protobuf/timestamp.proto"), "google.protobuf", "Timestamp")
	long := strings.Repeat("x", maxName+1)
	for _, tt := range []struct {
		name  string
		files []*descriptorpb.FileDescriptorProto
		want  []string
	}{
		{"good", []*descriptorpb.FileDescriptorProto{file("a.proto")}, nil},
		{"the same twice", []*descriptorpb.FileDescriptorProto{file("a.proto"), file("a.proto")}, nil},
		{"well-known is there", []*descriptorpb.FileDescriptorProto{file("a.proto", "google/protobuf/any.proto", "google/protobuf/api.proto")}, nil},
		{"as deep as possible", chained(maxImports), nil},
		{"nested as deep as possible", []*descriptorpb.FileDescriptorProto{nested(maxNesting - 2)}, nil},

		{"none", nil, []string{"x.binpb: this is no descriptor set: there are no files in it", "protoc --include_imports"}},
		{"no name", []*descriptorpb.FileDescriptorProto{{}}, []string{"a file's name has 0 bytes"}},
		{"long name of a message", []*descriptorpb.FileDescriptorProto{declaring(file("a.proto"), "a", long)}, []string{"a.proto: a name has 1025 bytes, and may have 1024"}},
		{"contradiction", []*descriptorpb.FileDescriptorProto{file("a.proto"), declaring(file("a.proto"), "a")}, []string{"a.proto: there are two files of this name, which contradict each other"}},
		{"two declare it", []*descriptorpb.FileDescriptorProto{declaring(file("a.proto"), "a", "M"), declaring(file("b.proto"), "a", "M")}, []string{"b.proto: it contradicts another file: ", "a.M"}},
		{"missing", []*descriptorpb.FileDescriptorProto{file("a.proto", "common.proto"), file("comon.proto")}, []string{`a.proto: imports "common.proto", which is missing; did you mean "comon.proto"?`}},
		{"itself", []*descriptorpb.FileDescriptorProto{file("a.proto", "a.proto")}, []string{"cyclic imports: a.proto → a.proto"}},
		{"cycle", []*descriptorpb.FileDescriptorProto{file("a.proto", "b.proto"), file("b.proto", "c.proto"), file("c.proto", "b.proto")}, []string{"cyclic imports: b.proto → c.proto → b.proto"}},
		{"chain", chained(maxImports + 2), []string{"files import each other in a chain of more than 100"}},
		{"chain, from its end", reverse(chained(5000)), []string{"files import each other in a chain of more than 100"}},
		{"public imports", bushy(90), []string{"public imports lead to it by more than 100000 paths"}},
		{"nested", []*descriptorpb.FileDescriptorProto{nested(maxNesting + 1)}, []string{"nests deeper than 64"}},
		{"unknown type", []*descriptorpb.FileDescriptorProto{withField(declaring(file("a.proto"), "a", "M"), "f", ".a.None")}, []string{"x.binpb: a.proto: ", "a.None"}},
		{"name that is none", []*descriptorpb.FileDescriptorProto{declaring(file("a.proto"), "a", "\x1b[2J")}, []string{"a.proto: "}},
		{"another timestamp", []*descriptorpb.FileDescriptorProto{timestamp}, []string{"google.protobuf.Timestamp is not the well-known message of that name: its field 1 should be seconds"}},
		{"syntax", []*descriptorpb.FileDescriptorProto{{Name: proto.String("a.proto"), Syntax: proto.String("proto4")}}, []string{"a.proto: invalid syntax"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseProtoset("x.binpb", protoset(t, tt.files...))
			expect(t, err, tt.want...)
			if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("%q is obeyed by terminals", err)
			}
		})
	}
}

func TestProtosetsThatAreNone(t *testing.T) {
	for _, b := range [][]byte{
		[]byte("syntax = \"proto3\";"),
		{0x0a, 0x05, 0x0a},
		{0x0a, 0x02, 0x0a, 0x05},
		{0xff},
		[]byte("PK\x03\x04"),
	} {
		_, err := parseProtoset("x.binpb", b)
		expect(t, err, "x.binpb: ")
		if err == nil {
			t.Errorf("%q is taken for a descriptor set", b)
		}
	}
}

// A few bytes can stand for a thousand times the memory: they are counted before anything
// is made of them.
func TestProtosetsOfManyParts(t *testing.T) {
	var fields []byte
	for range maxElements + 1 {
		fields = append(fields, 0x12, 0) // field 2 of a message: a field without anything
	}
	message := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), fields)
	set := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), message)
	_, err := parseProtoset("x.binpb", set)
	expect(t, err, "there are more than 2000000 parts in the descriptors")
	_, err = parseProtoset("x.binpb", protowire.AppendBytes([]byte{0x0a}, make([]byte, maxSource+1)))
	expect(t, err, "the descriptors take more than 64 MiB")
}

func TestProtosetsOfLongNames(t *testing.T) {
	// 64 levels of names of 1 kB, and 10,000 fields in the innermost.
	name := strings.Repeat("x", maxName)
	m := &descriptorpb.DescriptorProto{Name: &name}
	for i := range 10_000 {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{Name: proto.String(fmt.Sprintf("f%d", i))})
	}
	for range maxNesting - 3 {
		m = &descriptorpb.DescriptorProto{Name: &name, NestedType: []*descriptorpb.DescriptorProto{m}}
	}
	f := file("a.proto")
	f.MessageType = append(f.MessageType, m)
	_, err := parseProtoset("x.binpb", protoset(t, f))
	expect(t, err, "a.proto: the names of all declarations take more than 256 MiB")
}

func FuzzProtoset(f *testing.F) {
	for _, name := range []string{"legacy.proto", "edition.proto"} {
		files := fileProtos(compiled(f, name))
		f.Add(protoset(f, files...))
		files[0].SourceCodeInfo = nil // smaller
		f.Add(protoset(f, files...))
	}
	f.Add(protoset(f, bushy(3)...))
	f.Add(protoset(f, nested(5)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseProtoset("x.binpb", b)
		if err != nil {
			return
		}
		// Everything that links can be used everywhere.
		for _, service := range s.Services() {
			_, _ = s.Describe(service.Name) // names in JSON need not be UTF-8
			for _, m := range service.Methods {
				exercise(t, m)
			}
		}
	})
}

// exercise uses all that a method can do.
func exercise(t *testing.T, m Method) {
	t.Helper()
	encoded, err := m.AppendEncode(nil, m.Example())
	if err == nil && m.Input == m.Output {
		if err := m.Check(encoded); err != nil {
			t.Error(err)
		}
		if _, err := m.Decode(encoded); err != nil {
			t.Error(err)
		}
	}
	_, _ = m.AppendEncode(nil, []byte(`{"a": [{"b": 1}], "c": {"d": null}}`))
	_ = m.Check([]byte{0x0a, 0x03, 'a', 'b', 'c', 0x10, 0x01})
	_, _ = m.Decode([]byte{0x0a, 0x03, 'a', 'b', 'c', 0x10, 0x01})
}
