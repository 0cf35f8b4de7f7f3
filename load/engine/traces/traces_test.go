package traces

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
)

// Each request of each worker has a trace id of its own. But for its first four bytes, which
// are the time, it follows from the seed.
func TestTraces(t *testing.T) {
	form := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`)
	seen := map[string]bool{}
	draw := func(seed, worker uint64, began int64) (texts []string) {
		tracer := New([]int{0}, seed, worker, began)
		for range 1000 {
			id := tracer.Next()
			text := string(tracer.Insert(0, nil)[0])
			if !form.MatchString(text) || text[3:35] != fmt.Sprintf("%x%016x", tracer.beginning, id) || id == 0 {
				t.Fatalf("%s of %x", text, id)
			}
			texts = append(texts, text)
		}
		return texts
	}
	const began = 1_800_000_000_123_456_789
	for worker := range uint64(50) {
		for _, text := range draw(7, worker, began) {
			if seen[text[3:35]] {
				t.Fatalf("%s is there twice", text)
			}
			seen[text[3:35]] = true
		}
	}
	first, again, later, other := draw(7, 3, began), draw(7, 3, began), draw(7, 3, began+1e9), draw(8, 3, began)
	if !slices.Equal(first, again) || first[0][11:] != later[0][11:] || first[0] == later[0] || first[0][11:] == other[0][11:] {
		t.Errorf("%s, again %s, a second later %s, by another seed %s", first[0], again[0], later[0], other[0])
	}
	if first[0][3:11] != fmt.Sprintf("%08x", 1_800_000_000) {
		t.Errorf("%s does not begin with the time", first[0])
	}
}

// A request that follows a redirect has the trace of the first, and a span of its own.
func TestTraceProceeds(t *testing.T) {
	tracer := New([]int{0}, 1, 0, 0)
	id := tracer.Next()
	first := string(tracer.text)
	tracer.Proceed(id)
	second := string(tracer.text)
	tracer.Next()
	if third := string(tracer.text); first[:35] != second[:35] || first[36:] == second[36:] || second[36:] == third[36:] || second[:35] == third[:35] {
		t.Errorf("%s, then %s, and of another request %s", first, second, third)
	}
}

func TestTraceAmongParts(t *testing.T) {
	tracer := New([]int{0, 1}, 1, 0, 0)
	tracer.Next()
	value := string(tracer.text)
	for _, c := range []struct {
		request int
		parts   string
		want    string
	}{{0, "", "[T]"}, {1, "a", "[a T]"}, {0, "ab", "[T a b]"}, {1, "abc", "[a T b c]"}} {
		var parts [][]byte
		for _, p := range c.parts {
			parts = append(parts, []byte(string(p)))
		}
		got := fmt.Sprintf("%s", tracer.Insert(c.request, parts))
		if got := regexp.MustCompile(value).ReplaceAllString(got, "T"); got != c.want {
			t.Errorf("%d, %s: %s, want %s", c.request, c.parts, got, c.want)
		}
	}
}
