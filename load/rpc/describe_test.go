package rpc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
)

func TestDescribe(t *testing.T) {
	for _, tt := range []struct{ golden, proto, name string }{
		{"shop.txt", "shop/shop.proto", "shop.v1.Shop"},
		{"fill.txt", "shop/shop.proto", "shop.v1.Shop/Fill"},
		{"event.txt", "shop/shop.proto", "shop.v1.Event"},
		{"color.txt", "shop/shop.proto", "shop.v1.Color"},
		{"timestamp.txt", "shop/shop.proto", "google.protobuf.Timestamp"},
		{"legacy.txt", "legacy.proto", "legacy.Archive"},
		{"note.txt", "legacy.proto", "legacy.note"},
		{"edition.txt", "edition.proto", "modern.Modern"},
	} {
		text, err := compiled(t, tt.proto).Describe(tt.name)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		golden(t, tt.golden, text)
	}
}

// What stands in another is described with it.
func TestDescribeInner(t *testing.T) {
	s := shop(t)
	inner, err := s.Describe("shop.v1.Order.Card")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := s.Describe("shop.v1.Order")
	if err != nil || inner != outer {
		t.Errorf("%s, %v; want\n%s", inner, err, outer)
	}
}

func TestDescribeUnknown(t *testing.T) {
	s := shop(t)
	for name, want := range map[string]string{
		"shop.v1.Evnt": `there is neither a service nor a message "shop.v1.Evnt"; did you mean "shop.v1.Event"?`,
		"Event":        `did you mean "shop.v1.Event"?`,
		"shop":         `did you mean "shop.v1.Shop"?`,
		"":             `there is neither a service nor a message ""; known here: shop.v1.Closed, `,
	} {
		_, err := s.Describe(name)
		expect(t, err, want)
	}
}

// A description is a .proto file that says the same.
func TestDescriptionsCompile(t *testing.T) {
	for _, tt := range []struct{ proto, service, message string }{
		{"legacy.proto", "legacy.Archive", "legacy.Record"},
		{"edition.proto", "modern.Modern", "modern.Message"},
	} {
		s := compiled(t, tt.proto)
		text, err := s.Describe(tt.service)
		if err != nil {
			t.Fatal(err)
		}
		want, got := descriptor(t, s, tt.message), descriptor(t, source(t, text), tt.message)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s\nin\n%s", tt.message, diff, text)
		}
	}
}

// Names are as short as they can be, and no shorter.
func TestNamesInDescriptions(t *testing.T) {
	s := source(t, `syntax = "proto3";
package a.b;
message M {
  message M { N n = 1; }
  message N {}
  .a.b.M outer = 1;
  M inner = 2;
  .a.b.N other = 3;
  .a.b.a.X far = 4;
  N near = 5;
}
message N {}
message a { message X {} message b {} }
`)
	want := descriptor(t, s, "a.b.M")
	text, err := s.Describe("a.b.M")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, descriptor(t, source(t, text), "a.b.M"), protocmp.Transform()); diff != "" {
		t.Errorf("%s in\n%s", diff, text)
	}
	for _, line := range []string{" .a.b.M outer = 1;", " M inner = 2;", " .a.b.N other = 3;", " a.X far = 4;", " N near = 5;", " N n = 1;"} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func descriptor(t *testing.T, s *Schema, message string) *descriptorpb.DescriptorProto {
	t.Helper()
	d, err := s.files.FindDescriptorByName(protoreflect.FullName(message))
	if err != nil {
		t.Fatal(err)
	}
	return protodesc.ToDescriptorProto(d.(protoreflect.MessageDescriptor))
}

// Comments come from anybody, and go to a terminal.
func TestCommentsDoNotControlTerminals(t *testing.T) {
	s := source(t, "syntax = \"proto3\";\n// a\x1b[2Jb\u202ec\nmessage A {}\n")
	text, err := s.Describe("A")
	if err != nil || !strings.Contains(text, "// a [2Jb c\n") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestDescriptionsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("syntax = \"proto3\";\n")
	comment := "// " + strings.Repeat("x", 1000) + "\n"
	for range 3 * maxDescription / len(comment) {
		b.WriteString(comment)
	}
	b.WriteString("message A { B b = 1; }\nmessage B {}\n")
	text, err := source(t, b.String()).Describe("A")
	if err != nil || !strings.HasSuffix(text, "// There is more, which is left out.\n") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
