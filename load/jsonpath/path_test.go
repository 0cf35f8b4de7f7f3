package jsonpath

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCompile(t *testing.T) {
	name := func(s string) step { return step{name: s, member: true} }
	for _, tt := range []struct {
		text string
		want []step
	}{
		{"$", nil},
		{"$.a", []step{name("a")}},
		{"$.a.b_1[0]['c d'][-2].größe", []step{name("a"), name("b_1"), {index: 0}, name("c d"), {index: -2}, name("größe")}},
		{"$ .a [ 0 ] [ \"x\" ]", []step{name("a"), {index: 0}, name("x")}},
		{`$["a\"b'c"]['a"b\'c']`, []step{name(`a"b'c`), name(`a"b'c`)}},
		{`$['\b\f\n\r\t\/\\\u00e9\ud83d\ude00\uFFFD']`, []step{name("\b\f\n\r\t/\\é😀\uFFFD")}},
		{"$['']", []step{name("")}},
		{"$[9007199254740991]", []step{{index: 9007199254740991}}},
	} {
		p, err := Compile(tt.text)
		if err != nil || !slices.Equal(p.steps, tt.want) || p.String() != tt.text {
			t.Errorf("%q: %+v, %v; want %+v", tt.text, p, err, tt.want)
		}
	}
}

func TestCompileFaults(t *testing.T) {
	for _, tt := range []struct {
		text   string
		offset int
		want   string
	}{
		{"", 0, "a path begins with $; want $, which is the document"},
		{"a.b", 0, "want it to begin with $, as in $.a.b"},
		{".a", 0, "as in $.a"},
		{"$a", 1, `'a' is neither . nor [`},
		{"$.a ", 3, "blanks after the path"},
		{"$.", 2, "the path ends where a name is wanted"},
		{"$..a", 1, ".. selects several values; want a path to one value"},
		{"$.*", 2, "* selects several values"},
		{"$[*]", 2, "* selects several values"},
		{"$[?@.a]", 2, "filters are not supported"},
		{"$[1:2]", 3, "a slice selects several values"},
		{"$[:2]", 2, "a slice selects several values"},
		{"$[0,1]", 3, "a union selects several values"},
		{"$['a','b']", 5, "a union selects several values"},
		{"$.0", 2, "a name after . begins with a letter or _"},
		{"$.a-b", 3, `'-' is neither . nor [; write ['name']`},
		{"$.-", 2, `'-' begins no name; write ['name']`},
		{"$[", 2, "[ without ]"},
		{"$[0", 3, "[ without ]; close it"},
		{"$[a]", 2, `'a' is neither a quote nor a number; want [0] or ['name']`},
		{"$[0 1]", 4, `'1' where ] is wanted`},
		{"$[01]", 2, `"01" is no index`},
		{"$[-0]", 2, `"-0" is no index`},
		{"$[-]", 2, `"-" is no index`},
		{"$[9007199254740992]", 2, "is no index"},
		{"$[99999999999999999999]", 2, "is no index"},
		{"$['a", 2, "the quote is never closed"},
		{"$['a\n']", 4, "a control character in a name"},
		{`$['\x']`, 3, "no such escape"},
		{`$['\u12']`, 3, "no such escape"},
		{`$['\`, 3, "no such escape"},
		{`$['\"']`, 3, `\" in single quotes`},
		{`$["\'"]`, 3, "no such escape"},
		{`$['\ud83d']`, 3, "half of a surrogate pair"},
		{`$['\ude00\ud83d']`, 3, "half of a surrogate pair"},
		{"$.\xff", 0, "not UTF-8"},
		{"$" + strings.Repeat("[0]", MaxSteps+1), 1 + 3*MaxSteps, "too many steps; want at most 64"},
		{"$." + strings.Repeat("a", MaxText), 0, "4098 bytes are too long; want at most 4096"},
	} {
		_, err := Compile(tt.text)
		var e *SyntaxError
		if !errors.As(err, &e) || e.Offset != tt.offset || !strings.Contains(err.Error(), tt.want) || e.Hint == "" {
			t.Errorf("%q: %v, want %q at offset %d", tt.text, err, tt.want, tt.offset)
		}
	}
}

func TestMember(t *testing.T) {
	got, result := Member(`a".b`).Find([]byte(`{"a":1,"a\".b":2}`))
	if string(got) != "2" || result != Found {
		t.Errorf("%s, %v", got, result)
	}
}

// FuzzCompile: a path that compiles compiles to the same again, and a fault lies within
// the text.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{"$", "$.a", "$['a']", `$["\u00e9"][-1]`, "$..a", "$[?@.a]", "$[0:1]", "$.é[ 0 ]", `$['\ud83d\ude00']`, "a", "$[", "$['\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Compile(text)
		if err != nil {
			var e *SyntaxError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(text) || e.Problem == "" || e.Hint == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		if again, err := Compile(p.String()); err != nil || !slices.Equal(again.steps, p.steps) {
			t.Fatalf("%q: %v, then %v, %v", text, p, again, err)
		}
		if _, result := p.Find([]byte(`{"a":[{"a":1}]}`)); result == Malformed {
			t.Fatalf("%q finds a sound document malformed", text)
		}
	})
}
