package openai

import (
	"encoding/json"
	"testing"
)

// TestStandard: what is appended is what json.Marshal makes; a value that cannot be encoded appends nothing, and breaks
// nothing after it.
func TestStandard(t *testing.T) {
	c := Standard().JSON
	for _, v := range []any{nil, "a <b> & \"c\"\n\u2028", map[string]any{"b": 1.5, "a": []int(nil)}, json.RawMessage(` { "a" : 1 } `)} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, before := range []string{"", "before"} {
			if got, err := c.Append([]byte(before), v); err != nil || string(got) != before+string(want) {
				t.Errorf("%s, %v, want %s after %q", got, err, want, before)
			}
			if got, err := c.Append([]byte(before), []any{"text", make(chan int)}); err == nil || string(got) != before {
				t.Errorf("%s, %v, want %q and an error", got, err, before)
			}
		}
	}
	if got, err := c.Append(nil, "x"); err != nil || string(got) != `"x"` {
		t.Errorf("%s, %v", got, err)
	}
}
