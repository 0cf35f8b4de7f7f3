package texts

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// Both languages say the same facts: the same kinds, with the same values in them.
func TestBothLanguages(t *testing.T) {
	english, chinese := tables()[English], tables()[Chinese]
	if a, b := slices.Sorted(maps.Keys(english)), slices.Sorted(maps.Keys(chinese)); !slices.Equal(a, b) {
		t.Errorf("kinds differ:\n%v\n%v", a, b)
	}
	// What is said of one only may leave the number away.
	values := func(text string) []string {
		found := slot.FindAllString(text, -1)
		slices.Sort(found)
		return slices.DeleteFunc(slices.Compact(found), func(v string) bool { return v == "{n}" })
	}
	for kind, text := range english {
		if a, b := values(text), values(chinese[kind]); !slices.Equal(a, b) {
			t.Errorf("%s: %v in English, %v in Chinese", kind, a, b)
		}
	}
	han := regexp.MustCompile(`\p{Han}`)
	for kind, text := range chinese {
		if words := slot.ReplaceAllString(text, ""); regexp.MustCompile(`[a-z]{3} [a-z]{2}`).MatchString(words) && !han.MatchString(words) {
			t.Errorf("%s is English: %s", kind, text)
		}
	}
}

func TestSay(t *testing.T) {
	for _, c := range []struct {
		kind   string
		values map[string]string
		want   string
	}{
		{"needs.rounds", map[string]string{"n": "6"}, "an interval needs ≥ 6 rounds"},
		{"needs.rounds", nil, "an interval needs ≥ {n} rounds"},
		{"answer.capacity", map[string]string{"variant": "{rate}", "rate": "5/s"}, "{rate} keeps all thresholds up to 5/s"},
		{"no.such", nil, "no.such"},
	} {
		if got := Say(English, c.kind, c.values); got != c.want {
			t.Errorf("%s: %q, want %q", c.kind, got, c.want)
		}
	}
}

// What helps is said of every kind that has a remedy.
func TestRemedies(t *testing.T) {
	for flag, kind := range byFlag() {
		if !Has(kind) {
			t.Errorf("%s: there is no %s", flag, kind)
		}
	}
	if Remedy("steal") == "" || Remedy("no such") != "" {
		t.Error("remedies of steal and of what nobody knows are mixed up")
	}
}
