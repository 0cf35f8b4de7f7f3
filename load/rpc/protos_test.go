package rpc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/load/rpc/diag"
)

func TestFromProtos(t *testing.T) {
	abs, err := filepath.Abs(protos)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		files []string
		paths []string
		want  string
	}{
		{"name in an import path", []string{"shop/shop.proto"}, []string{protos}, ""},
		{"path of a file", []string{protos + "/shop/shop.proto"}, []string{protos}, ""},
		{"absolute", []string{abs + "/shop/shop.proto"}, []string{protos}, ""},
		{"absolute import path", []string{protos + "/shop/shop.proto"}, []string{abs}, ""},
		{"several paths", []string{"shop/shop.proto"}, []string{".", protos}, ""},
		{"several files", []string{"shop/money.proto", "shop/shop.proto", "legacy.proto", "edition.proto"}, []string{protos}, ""},
		{"no import path", []string{protos + "/legacy.proto"}, nil, ""},
		{"import path of another", []string{protos + "/legacy.proto"}, []string{"."}, ""},
		{"outside of the import path", []string{protos + "/legacy.proto"}, []string{protos + "/shop"}, ""},

		{"no files", nil, nil, "no .proto file is given"},
		{"no such file", []string{"shop/none.proto"}, []string{protos}, "shop/none.proto"},
		{"a folder", []string{"shop"}, []string{protos}, "this is a folder"},
		{"import path missing", []string{protos + "/shop/shop.proto"}, nil, "shop/money.proto"},
		{"syntax", []string{"broken/syntax.proto"}, []string{protos}, "broken/syntax.proto:4:17: syntax error"},
		{"types", []string{"broken/types.proto"}, []string{protos}, "broken/types.proto:4:3: "},
		{"types, the second", []string{"broken/types.proto"}, []string{protos}, "broken/types.proto:5:3: "},
		{"import", []string{"broken/import.proto"}, []string{protos}, "broken/import.proto:3:8: "},
		{"import, with a hint", []string{"broken/import.proto"}, []string{protos}, "give the folder that the imports are relative to (--import-paths)"},
		{"cycle", []string{"broken/one.proto"}, []string{protos}, "cycle"},
		{"contradiction", []string{"shop/shop.proto", "broken/again.proto"}, []string{protos}, "shop.v1.Item"},
		{"one file by two names", []string{"shop/shop.proto", "money.proto"}, []string{protos, protos + "/shop"}, "if this is one file by two names, give the folder that the imports are relative to (--import-paths)"},
		{"well-known and other", []string{"broken/timestamp.proto"}, []string{protos}, "google.protobuf.Timestamp is not the well-known message of that name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := FromProtos(t.Context(), tt.files, tt.paths)
			expect(t, err, tt.want)
			if err == nil && len(s.Services()) == 0 {
				t.Error("no services")
			}
		})
	}
}

func TestFromProtosCanBeEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := FromProtos(ctx, []string{"shop/shop.proto"}, []string{protos}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestProtosOfBoundedSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.proto")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxProto+1); err != nil {
		t.Fatal(err)
	}
	_, err := FromProtos(t.Context(), []string{path}, nil)
	expect(t, err, "large.proto", "more than 16 MiB")
}

// All faults of a file are reported, in order, up to a bound.
func TestFaultsAreInOrder(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("syntax = \"proto3\";\nmessage A {\n")
	for range 30 {
		b.WriteString("  int32 n = 0;\n")
	}
	b.WriteString("}\n")
	if err := os.WriteFile(filepath.Join(dir, "a.proto"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := FromProtos(t.Context(), []string{"a.proto"}, []string{dir})
	expect(t, err, "a.proto:3:13: ", "more")
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		t.Fatalf("%v is one error", err)
	}
	list, last := joined.Unwrap(), 0
	if n := len(list); n > maxFaults+1 {
		t.Errorf("%d faults", n)
	}
	for _, err := range list {
		var f *diag.Fault
		if !errors.As(err, &f) {
			continue // the number of further faults
		}
		if f.Line < last {
			t.Errorf("line %d after line %d", f.Line, last)
		}
		last = f.Line
	}
}
