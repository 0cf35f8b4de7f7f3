package dialect_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
)

// read takes all kinds of fields out of an object.
func read(body string) (string, *dialect.Request, error) {
	r := &dialect.Request{}
	o, err := dialect.ReadObject([]byte(body))
	if err != nil {
		return "", nil, err
	}
	text := o.Text("text")
	o.Take("p", &r.Temperature)
	r.MaxTokens = o.Tokens("max")
	for _, within := range o.Objects("list") {
		for _, part := range within.Parts("content", "text") {
			text += part.Text("type") + ":" + part.Required("text") + ";"
			part.NoteLeft(r)
		}
		within.NoteLeft(r)
	}
	if s := o.Object("schema"); s != nil {
		text += string(s.Schema("of"))
		s.NoteLeft(r)
	}
	o.Extra(r)
	return text, r, o.Err()
}

// TestObject: fields are taken out, and what is left is noted with its path.
func TestObject(t *testing.T) {
	text, r, err := read(`{"text":"a","p":0.5,"max":7,"store":true,"x":{"y":1},"gone":null,
		"list":[{"content":"b"},{"content":[{"type":"t","text":"c","z":1,"parsed":{"c":1},"parsed_arguments":{},"provider_specific_fields":{"a":1}}],"w":2}],"schema":{"of":{"type":"object"},"v":null}}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := `atext:b;t:c;{"type":"object"}`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	want := &dialect.Request{MaxTokens: 7, Temperature: new(0.5), Extra: map[string]json.RawMessage{"store": json.RawMessage("true"), "x": json.RawMessage(`{"y":1}`)}}
	if got := dialecttest.Dump(r); got != dialecttest.Dump(want) {
		t.Errorf("got %s, want %s", got, dialecttest.Dump(want))
	}
	uses := []dialect.Use{
		{Feature: dialect.OtherField, Field: "list[1].content[0].z"},
		{Feature: dialect.OtherField, Field: "list[1].w"},
		{Feature: dialect.Stored, Field: "store"},
		{Feature: dialect.OtherField, Field: "x"},
	}
	if got := dialecttest.Dump(r.Uses()); got != dialecttest.Dump(uses) {
		t.Errorf("got %s, want %s", got, dialecttest.Dump(uses))
	}
}

// TestObjectFaults: the first fault names its field.
func TestObjectFaults(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:                                   "body: want a JSON object",
		`{"a":1,"a":2}`:                        "a: is there twice",
		`{"text":1}`:                           "text: want a string",
		`{"text":1,"p":""}`:                    "text: want a string",
		`{"p":"x"}`:                            "p: want a number",
		`{"max":1.5}`:                          "max: want a whole number",
		`{"max":-1}`:                           "max: must be from 1 to 134217728",
		`{"list":{}}`:                          "list: want a list",
		`{"list":[{},null]}`:                   "list[1]: want an object",
		`{"list":[{"content":2}]}`:             "list[0].content: want a list",
		`{"list":[{"content":[{"text":""}]}]}`: "list[0].content[0].text: must be there and not be empty",
		`{"schema":[]}`:                        "schema: want an object",
		`{"schema":{"of":"x"}}`:                "schema.of: want an object",
	} {
		if _, _, err := read(body); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestFold: the events of an answer, in any pieces, are that answer.
func TestFold(t *testing.T) {
	form := dialecttest.Form{
		Kinds:  []dialect.Kind{dialect.Thinking, dialect.Redacted, dialect.Text, dialect.Refusal, dialect.ToolCall},
		Stops:  []dialect.Stop{dialect.End, dialect.Length, dialect.Sequence},
		Signed: []dialect.Kind{dialect.Thinking, dialect.ToolCall},
		Custom: true, Repeat: true,
	}
	rapid.Check(t, func(t *rapid.T) {
		want := dialecttest.Answers(form).Draw(t, "answer")
		var fold dialect.Fold
		var order dialecttest.Order
		dialecttest.Split(t, want, func(e *dialect.Event) {
			if err := order.Check(e); err != nil {
				t.Fatal(err)
			}
			fold.Add(e)
		})
		if err := order.End(); err != nil || !fold.Done {
			t.Fatal("not done", err)
		}
		if got := dialecttest.Dump(fold.Answer); got != dialecttest.Dump(*want) {
			t.Fatalf("got %s, want %s", got, dialecttest.Dump(*want))
		}
	})
}

// TestArguments: a model's text is an object, or a string of what it wrote.
func TestArguments(t *testing.T) {
	for text, want := range map[string]string{"": "{}", ` {"a": 1} `: `{"a": 1}`, `{"a":`: `"{\"a\":"`, `[1]`: `"[1]"`} {
		got := dialect.Arguments(text)
		if string(got) != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		if again := dialect.Arguments(dialect.ArgumentText(got)); string(again) != want {
			t.Errorf("%q: again %s, want %s", text, again, want)
		}
	}
}

// TestRandomRequests: a request that uses no feature notes none.
func TestRandomRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := dialecttest.Requests(func(dialect.Feature) bool { return false }).Draw(t, "request")
		if len(r.Uses()) > 0 || r.System != nil || r.Tools != nil || r.Extra != nil {
			t.Fatal(dialecttest.Dump(r))
		}
	})
}
