package jsonpath

import (
	"bytes"
	"testing"
)

func TestDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	doc := []byte(`{"skip":{"x":[1,2,{"y":"z"}]},"k\u0065y":[{"a":1},{"a":"caf\u00e9"}]}`)
	p := mustCompile(t, "$.key[-1].a")
	var dst []byte
	find := func() {
		value, result := p.Find(doc)
		if dst = AppendText(dst[:0], value); result != Found || string(dst) != "café" {
			t.Fatalf("%s, %v", dst, result)
		}
		if _, problem := Check(doc); problem != "" {
			t.Fatal(problem)
		}
	}
	find()
	if n := testing.AllocsPerRun(100, find); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFind(b *testing.B) {
	var list bytes.Buffer
	list.WriteString(`{"items":[`)
	for range 40 {
		list.WriteString(`{"id":12345,"name":"something of some length","tags":["a","b"],"price":12.50},`)
	}
	list.WriteString(`{"id":"last"}],"token":"eyJhbGciOiJIUzI1NiJ9"}`)
	for _, bb := range []struct{ name, doc, path string }{
		{"small", `{"token":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0","expires_in":600}`, "$.token"},
		{"first-of-3KB", list.String(), "$.items[0].id"},
		{"last-of-3KB", list.String(), "$.token"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p, doc := mustCompile(b, bb.path), []byte(bb.doc)
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if _, result := p.Find(doc); result != Found {
					b.Fatal(result)
				}
			}
		})
	}
}
