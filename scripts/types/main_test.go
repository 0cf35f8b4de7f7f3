package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// root is the repository's.
const root = "../.."

// The committed file matches the Go types.
func TestTypesAreFresh(t *testing.T) {
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "web/src/document.ts"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("web/src/document.ts is stale: run scripts/fresh.sh")
	}
	if got, err := os.ReadFile(filepath.Join(root, "web/src/names.ts")); err != nil || !bytes.Equal(got, names()) {
		t.Errorf("web/src/names.ts is stale: run scripts/fresh.sh (%v)", err)
	}
	for _, part := range []string{
		"\nexport interface Report {\n  version: number;\n", "\n  run: Run;\n", "\n  variants: Variant[] | null;\n", "\n  low?: number;\n",
		"\n  head: string[];\n", "\n  values?: Record<string, string>;\n", "\n  low?: Numbers;\n",
		"\n  started_at: string;\n", "\nexport interface RundirCheck {\n",
	} {
		if !strings.Contains(string(want), part) {
			t.Errorf("there is no %q", part)
		}
	}
	if strings.Count(string(want), "export interface Check {") != 1 {
		t.Error("want one type Check")
	}
}

func TestTypeOf(t *testing.T) {
	g := generator{}
	for want, of := range map[string]reflect.Type{
		"string":                   reflect.TypeFor[time.Time](),
		"number":                   reflect.TypeFor[uint8](),
		"boolean | null":           reflect.TypeFor[*bool](),
		"(number | null)[]":        reflect.TypeFor[[]*float64](),
		"number[][]":               reflect.TypeFor[[][2]int64](),
		"Record<string, string[]>": reflect.TypeFor[map[string][]string](),
	} {
		if got, err := g.typeOf(of); err != nil || got != want {
			t.Errorf("%v: %s, %v, want %s", of, got, err, want)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[chan int](), reflect.TypeFor[[]func()](), reflect.TypeFor[reflect.Method]()} {
		if got, err := g.typeOf(of); err == nil {
			t.Errorf("%v: %s, want an error", of, got)
		}
	}
}

// A comment may not end the comment that it is written into.
func TestComment(t *testing.T) {
	g := generator{}
	g.comment("  ", "ends */ here\nand goes on\n")
	if want := "  /** ends * / here\n   * and goes on */\n"; g.out.String() != want {
		t.Errorf("%q, want %q", g.out.String(), want)
	}
}
