package dialect

import (
	"encoding/json"
	"testing"
)

// TestNamedResults: a result has the name of the last call with its ID, the request stays as it was, and arguments are
// objects.
func TestNamedResults(t *testing.T) {
	call := func(name, input string) Message {
		return Message{Role: Assistant, Blocks: []Block{{Kind: ToolCall, ID: "1", Name: name, Input: json.RawMessage(input)}}}
	}
	result := Message{Role: User, Blocks: []Block{{Kind: ToolResult, ID: "1"}, {Kind: ToolResult, ID: "2"}}}
	r := &Request{Messages: []Message{call("a", `{"x":1}`), result, call("b", `"half {"`), result}}
	got := r.NamedResults()
	for i, want := range map[int]string{1: "a", 3: "b"} {
		if b := got[i].Blocks; b[0].Name != want || b[1].Name != "" {
			t.Errorf("message %d: %+v, want %q and none", i, b, want)
		}
	}
	for i, want := range map[int]string{0: `{"x":1}`, 2: `{"arguments":"half {"}`} {
		if input := string(got[i].Blocks[0].Input); input != want {
			t.Errorf("message %d: %s, want %s", i, input, want)
		}
	}
	if b := r.Messages[1].Blocks[0]; b.Name != "" || string(r.Messages[2].Blocks[0].Input) != `"half {"` {
		t.Error("the request has changed")
	}
}

// TestFields: fields without a value are left out, but not those that point to a zero.
func TestFields(t *testing.T) {
	f := Fields{}.Set("a", "").Set("b", 0).Set("c", nil).Set("d", []string(nil)).Set("e", (*int)(nil)).Set("f", json.RawMessage(nil))
	if got := string(Append(nil, f.Set("g", new(0.0)).Set("h", "x").Set("i", []string{}))); got != `{"g":0,"h":"x","i":[]}` {
		t.Error(got)
	}
}
