package message

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/internal/leak"
	"dyno/load/rpc/diag"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A schema is compiled .proto files.
type schema struct {
	files *protoregistry.Files
	types *Types
}

// codec returns the codec of a method.
func (s schema) codec(m protoreflect.MethodDescriptor) *Codec {
	return New(m.Input(), m.Output(), s.types)
}

// compiled returns the schema of .proto files.
func compiled(t testing.TB, files ...string) schema {
	t.Helper()
	return compile(t, &protocompile.SourceResolver{ImportPaths: []string{"../testdata/protos"}}, files...)
}

// source returns the schema of the text of one .proto file.
func source(t testing.TB, text string) schema {
	t.Helper()
	accessor := protocompile.SourceAccessorFromMap(map[string]string{"a.proto": text})
	return compile(t, &protocompile.SourceResolver{Accessor: accessor}, "a.proto")
}

func compile(t testing.TB, from protocompile.Resolver, names ...string) schema {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(from)}
	compiled, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		t.Fatal(err)
	}
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		set.File = append(set.File, protoutil.ProtoFromFileDescriptor(file))
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
	}
	for _, file := range compiled {
		add(file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return schema{files, NewTypes(files)}
}

// shop returns the schema of the largest file.
func shop(t testing.TB) schema { return compiled(t, "shop/shop.proto") }

// find returns the codec of a method, such as pkg.Service/Method.
func find(t testing.TB, s schema, method string) *Codec {
	t.Helper()
	d, err := s.files.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(method, "/", ".")))
	if err != nil {
		t.Fatal(err)
	}
	return s.codec(d.(protoreflect.MethodDescriptor))
}

// expect holds an error to what it must say; "" means no error.
func expect(t *testing.T, err error, want ...string) {
	t.Helper()
	if len(want) == 0 || want[0] == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err == nil {
		t.Errorf("no error, want %q", want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q\ndoes not say %q", err, w)
		}
	}
}

// located returns an error as the Fault it must be.
func located(t *testing.T, err error) *diag.Fault {
	t.Helper()
	var f *diag.Fault
	if !errors.As(err, &f) {
		t.Fatalf("%v is no Fault", err)
	}
	return f
}

// exampled returns methods of each syntax, and seeds a fuzz target with their examples and numbers.
func exampled(f *testing.F) []*Codec {
	methods := []*Codec{
		echoing(find(f, shop(f), "shop.v1.Shop/Buy")),
		echoing(find(f, compiled(f, "legacy.proto"), "legacy.Archive/Keep")),
		echoing(find(f, compiled(f, "edition.proto"), "modern.Modern/Call")),
	}
	for i, m := range methods {
		b, err := m.AppendEncode(nil, m.Example())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(i))
	}
	return methods
}
