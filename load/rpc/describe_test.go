package rpc

import (
	"fmt"
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

// Nested elements are described with their parent.
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
	var long, many strings.Builder
	long.WriteString("syntax = \"proto3\";\n")
	comment := "// " + strings.Repeat("x", 1000) + "\n"
	for range 3 * maxDescription / len(comment) {
		long.WriteString(comment)
	}
	long.WriteString("message A { B b = 1; }\nmessage B {}\n")
	many.WriteString("syntax = \"proto3\";\nmessage A { M0 m = 1; }\n")
	for i := range maxDescribed {
		fmt.Fprintf(&many, "message M%d { M%d m = 1; }\n", i, (i+1)%maxDescribed)
	}
	for name, text := range map[string]string{"long": long.String(), "many": many.String()} {
		text, err := source(t, text).Describe("A")
		if err != nil || !strings.HasSuffix(text, "// There is more, which is left out.\n") {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}
