package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The output is Go, and holds the descriptions that it was made of.
func TestRun(t *testing.T) {
	folder := t.TempDir()
	in, out := filepath.Join(folder, "a.proto"), filepath.Join(folder, "a.go")
	if err := os.WriteFile(in, []byte("syntax = \"proto3\"; package a; message M { string s = 1; } service S { rpc Do(M) returns (M); }"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-package", "x", "-out", out, in}); err != nil {
		t.Fatal(err)
	}
	tree, err := parser.ParseFile(token.NewFileSet(), out, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if tree.Name.Name != "x" || !ast.IsGenerated(tree) {
		t.Errorf("package %s, generated: %v", tree.Name.Name, ast.IsGenerated(tree))
	}
	var raw strings.Builder
	var names []string
	ast.Inspect(tree, func(n ast.Node) bool {
		entry, ok := n.(*ast.CompositeLit)
		if !ok || len(entry.Elts) != 2 {
			return true
		}
		name, ok := entry.Elts[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		names = append(names, name.Value)
		if name.Value == `"a.proto"` {
			ast.Inspect(entry.Elts[1], func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					s, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Error(err)
					}
					raw.WriteString(s)
				}
				return true
			})
		}
		return false
	})
	if len(names) != 4 {
		t.Errorf("files %v, want four", names)
	}
	var f descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal([]byte(raw.String()), &f); err != nil {
		t.Fatal(err)
	}
	if f.GetPackage() != "a" || f.GetService()[0].GetMethod()[0].GetName() != "Do" || f.SourceCodeInfo != nil {
		t.Errorf("%v", &f)
	}
}

func TestFaults(t *testing.T) {
	for _, args := range [][]string{nil, {"-package", "x"}, {"-x"}, {"-package", "x", "-out", "y", filepath.Join(t.TempDir(), "none.proto")}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
