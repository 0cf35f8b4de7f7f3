package rpc

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"dyno/internal/leak"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { leak.Main(m) }

// golden compares text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (go test -update writes it):\n%s\nwant\n%s", path, got, want)
	}
}

// protos is where the .proto files of the tests are.
const protos = "testdata/protos"

// compiled returns the schema of .proto files.
func compiled(t testing.TB, files ...string) *Schema {
	t.Helper()
	s, err := FromProtos(context.Background(), files, []string{protos})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// source returns the schema of the text of one .proto file.
func source(t testing.TB, text string) *Schema {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.proto"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := FromProtos(context.Background(), []string{"a.proto"}, []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shop returns the schema of the largest file.
func shop(t testing.TB) *Schema { return compiled(t, "shop/shop.proto") }

// find returns a method that there is.
func find(t testing.TB, s *Schema, name string) Method {
	t.Helper()
	m, err := s.Method(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fileProtos returns all files of a schema, as compilers write them.
func fileProtos(s *Schema) (files []*descriptorpb.FileDescriptorProto) {
	s.files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		files = append(files, protodesc.ToFileDescriptorProto(f))
		return true
	})
	return files
}

// protoset returns the bytes of a descriptor set.
func protoset(t testing.TB, files ...*descriptorpb.FileDescriptorProto) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		t.Fatal(err)
	}
	return b
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
