package selector

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func TestMatch(t *testing.T) {
	machine := map[string]string{"zone": "a", "disk": "fast", "gpu": "", "example.org/class": "large"}
	for text, want := range map[string]bool{
		"":                                  true,
		"zone=a":                            true,
		"zone==a":                           true,
		"zone=b":                            false,
		"zone=A":                            false,
		"rack=a":                            false,
		"disk!=slow":                        true,
		"disk!=fast":                        false,
		"rack!=1":                           true,
		"gpu":                               true,
		"gpu=":                              true,
		"zone=":                             false,
		"rack=":                             false,
		"rack":                              false,
		"!old":                              true,
		"!gpu":                              false,
		"! gpu":                             false,
		"zone in (b,a)":                     true,
		"zone in (b)":                       false,
		"gpu in ()":                         true,
		"rack in ()":                        false,
		"zone notin (b, c)":                 true,
		"zone notin (a)":                    false,
		"rack notin (a)":                    true,
		"example.org/class in (large)":      true,
		"zone=a,disk!=slow,gpu,!old":        true,
		"zone=a,disk!=slow,gpu,!old,zone=b": false,
		" zone = a ,\tdisk != slow , gpu, ! old\n": true,
	} {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if s.Match(machine) != want {
			t.Errorf("%q: %v, want %v", text, !want, want)
		}
	}
	if !(Selector{}).Match(nil) {
		t.Error("the zero Selector does not match")
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		text          string
		column        int
		message, hint string
	}{
		{"zone=a,", 8, "it ends, want the name of a label", "as in zone=a"},
		{"zone=a gpu", 8, `"gpu", want ","`, "as in zone=a"},
		{"zone=a,,gpu", 8, `",", want the name of a label`, "as in zone=a"},
		{"zone a", 6, `"a", want "=", "!=", "in", "notin" or ","`, "as in zone=a"},
		{"!zone=a", 6, `"=", want ","`, "as in zone=a"},
		{"!", 2, "it ends, want the name of a label", "as in zone=a"},
		{"zone=!a", 6, `"!", want a value`, "as in zone=a"},
		{"cpus>4", 5, `">", want "=", "!=", "in", "notin" or ","`, "labels are not ordered"},
		{"zone in a", 9, `"a", want "("`, "as in zone=a"},
		{"zone in (a", 11, `it ends, want "," or ")"`, "as in zone=a"},
		{"zone in (a b)", 12, `"b", want "," or ")"`, "as in zone=a"},
		{"-zone=a", 1, `"-zone" is no name of a label`, "at most 63 letters"},
		{"zone=ü, x", 6, `"ü" is no value of a label`, "at most 63 letters"},
		{"zone in (ü, x y)", 10, `"ü" is no value of a label`, "at most 63 letters"},
		{"zöne", 1, `"zöne" is no name of a label`, "at most 63 letters"},
		{"Example.org/zone", 1, `"Example.org/zone" is no name of a label`, "in lower case"},
		{"a/b/c", 1, `"a/b/c" is no name of a label`, "at most 63 letters"},
		{"a," + strings.Repeat("b", 64), 3, `"` + strings.Repeat("b", 60) + `…" is no name of a label`, "at most 63 letters"},
		{strings.Repeat(" ", MaxText+1), 1, "4097 bytes, want at most 4096", "in common"},
	} {
		_, err := Parse(tt.text)
		var fault *Error
		if !errors.As(err, &fault) || fault.Column != tt.column || fault.Message != tt.message || !strings.Contains(fault.Hint, tt.hint) {
			t.Errorf("%q: %+v, want column %d: %s: …%s…", tt.text, fault, tt.column, tt.message, tt.hint)
		}
	}
}

// FuzzParse compares with Kubernetes: what is a selector there is one here, and matches the same labels. There, a
// zero byte ends a word, and < and > are operators.
func FuzzParse(f *testing.F) {
	sets := []labels.Set{nil, {"a": ""}, {"a": "b"}, {"a": "in", "in": "a"}, {"b": "a", "c.d/a": "b"}, {"zone": "a", "disk": "fast", "gpu": ""}}
	for _, text := range []string{
		"", "a", "!a", "a=", "a==b", "a!=b", "a in (b,,in)", "in notin ()", "zone=a,disk!=slow,gpu,!old", "c.d/a in (b), a=(", "a/b/c", "a=!b", "a in (,",
		"a,", " a\t", "a b", "-a", "a=b.", "A.b/c", "a..b/c", "/c", "a/", "!a in (b)", strings.Repeat("a", 64), strings.Repeat("a", 254) + "/b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if len(text) > MaxText || strings.ContainsAny(text, "<>\x00") {
			return
		}
		reference, wrong := labels.Parse(text)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%q: %v, and Kubernetes: %v", text, err, wrong)
		}
		if err != nil {
			return
		}
		for _, set := range sets {
			if s.Match(set) != reference.Matches(set) {
				t.Errorf("%q of %v: %v, and in Kubernetes %v", text, set, s.Match(set), reference.Matches(set))
			}
		}
	})
}
