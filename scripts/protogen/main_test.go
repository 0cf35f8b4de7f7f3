package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a folder with one .proto file.
func write(t *testing.T, text string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.proto"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return folder
}

const good = `syntax = "proto3";
package a;
option go_package = "m/apb";
// A says something.
message A {}
service S { rpc Do(A) returns (A); }`

// With stubs a plugin is asked for the services alone, which import the messages.
func TestRequest(t *testing.T) {
	file, err := compile(t.Context(), write(t, good), "a.proto")
	if err != nil {
		t.Fatal(err)
	}
	r := request(file, []string{"x=y", "z"})
	if len(r.ProtoFile) != 1 || r.GetParameter() != "x=y,z" || file.SourceCodeInfo == nil {
		t.Errorf("without stubs: %d files, %q, comments %v", len(r.ProtoFile), r.GetParameter(), file.SourceCodeInfo)
	}
	r = request(file, []string{"x=y", "stubs=m/agrpc"})
	if r.GetParameter() != "x=y" || !slices.Equal(r.FileToGenerate, []string{"a.proto"}) || len(r.ProtoFile) != 2 {
		t.Fatalf("with stubs: %v", r)
	}
	messages, services := r.ProtoFile[0], r.ProtoFile[1]
	if len(messages.MessageType) != 1 || len(messages.Service) != 0 || messages.Options.GetGoPackage() != "m/apb" {
		t.Errorf("messages: %v", messages)
	}
	if len(services.MessageType) != 0 || len(services.Service) != 1 || services.Options.GetGoPackage() != "m/agrpc" ||
		services.GetName() != "a.proto" || !slices.Equal(services.Dependency, []string{messages.GetName()}) {
		t.Errorf("services: %v", services)
	}
	if len(file.Service) != 1 || len(file.MessageType) != 1 {
		t.Error("the file itself has changed")
	}
}

func TestFaults(t *testing.T) {
	imports := write(t, `syntax = "proto3"; import "b.proto"; message A { B b = 1; }`)
	if err := os.WriteFile(filepath.Join(imports, "b.proto"), []byte(`syntax = "proto3"; message B {}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no plugin", []string{"a.proto"}, "at least one plugin"},
		{"unknown option", []string{"-x"}, "-x"},
		{"no file", []string{"-in", t.TempDir(), "a.proto", "p"}, "a.proto"},
		{"no Protocol Buffers", []string{"-in", write(t, "message {"), "a.proto", "p"}, "a.proto:1:9"},
		{"imports", []string{"-in", imports, "a.proto", "p"}, "without imports"},
		{"no such plugin", []string{"-in", write(t, good), "a.proto", "./nothing"}, "./nothing: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := run(t.Context(), c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
}
