package openai

import (
	"fmt"
	"strings"
	"testing"
)

const someContents = `"contents":[{"role":"user","parts":[{"text":"12345678"}]}]`

// TestContentsRequests: the path's model and stream are not in the body, names in either form are read, and a bound is
// added where the client's would be.
func TestContentsRequests(t *testing.T) {
	for _, c := range []struct {
		body, want string // the upstream's body; or the field and the text of the fault
		bound      bool   // whether one is added
	}{
		{`{` + someContents + `}`, `{` + someContents + `,"generationConfig":{"maxOutputTokens":9}}`, true},
		{`{` + someContents + `,"generation_config":{"max_output_tokens":5,"temperature":0}}`, `{` + someContents + `,"generationConfig":{"max_output_tokens":5,"temperature":0}}`, false},
		{`{` + someContents + `,"model":"models/other","stream":1,"generationConfig":{"topK":1e0}}`, `{` + someContents + `,"generationConfig":{"maxOutputTokens":9,"topK":1e0}}`, true},
		{`{` + someContents + `,"generationConfig":{"maxOutputTokens":1,"max_output_tokens":2}}`, "generationConfig.maxOutputTokens: must be one number from 1 to 134217728", false},
		{`{` + someContents + `,"generationConfig":{"maxOutputTokens":-1}}`, "generationConfig.maxOutputTokens: must be one number from 1 to 134217728", false},
		{`{` + someContents + `,"generationConfig":{"candidateCount":99}}`, "n: must be from 1 to 16", false},
		{`{` + someContents + `,"generationConfig":{},"generation_config":{}}`, "generationConfig: is there twice", false},
		{`{` + someContents + `,"generationConfig":[]}`, "generationConfig: want an object", false},
		{`{"contents":[]}`, "contents: must be there and not be empty", false},
		{`{"Contents":[]}`, `Contents: want "contents"`, false},
	} {
		r, err := Standard().ParseContents(Contents, "a/b:c", true, []byte(c.body))
		if err != nil {
			if err.Error() != c.want {
				t.Errorf("%s: %v, want %s", c.body, err, c.want)
			}
			continue
		}
		added := r.Bound(9)
		if got := string(r.Body("own", Bound{}, true)); got != c.want || added != c.bound || r.Model != "a/b:c" || !r.Stream || r.PromptTokens == 0 {
			t.Errorf("%s: %s, %v, %+v", c.body, got, added, r)
		}
	}
}

// TestContentsContext: what the model reads outside of the request is known, and images are not counted as text.
func TestContentsContext(t *testing.T) {
	for more, want := range map[string]bool{
		``: false, `,"tools":[{"functionDeclarations":[{"name":"f"}]}]`: false, `,"cachedContent":"cachedContents/1"`: true,
		`,"tools":[{"googleSearch":{}}]`: true, `,"tools":[{"code_execution":{}}]`: true, `,"systemInstruction":{"parts":[{"text":"\"fileData\""}]}`: false,
	} {
		r, err := Standard().ParseContents(Contents, "m", false, []byte(`{`+someContents+more+`}`))
		if err != nil || r.HasHiddenContext() != want {
			t.Errorf("%s: %v, want %v", more, err, want)
		}
	}
	for data, most := range map[string]int{
		`"inlineData":{"mimeType":"image/png","data":"` + strings.Repeat("A", 1e5) + `"}`:     2000,
		`"inline_data":{"data":"` + strings.Repeat("A", 64000) + `","mime_type":"audio/wav"}`: 1100,
	} {
		r, err := Standard().ParseContents(Contents, "m", false, []byte(`{"contents":[{"parts":[{`+data+`}]}]}`))
		if err != nil || r.PromptTokens > most || r.PromptTokens < most/2 {
			t.Errorf("%.30s: %v, %d", data, err, r.PromptTokens)
		}
	}
	r, err := Standard().ParseContents(Contents, "m", false, []byte(`{`+someContents+`,"generationConfig":{"temperature":0.0}}`))
	if err != nil || !r.Deterministic() {
		t.Error("the cache may answer it", err)
	}
}

// TestContentsEvents: texts without thoughts, ends, usage with thoughts, and faults.
func TestContentsEvents(t *testing.T) {
	for data, want := range map[string]string{
		`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a"},{"text":"b"}],"role":"model"}}]}`:                      "[{0 ab}] [] 4 <nil> false ",
		`{"candidates":[{"index":1,"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}],"usageMetadata":{}}`: "[] [1] 22 <nil> false ",
		`{"promptFeedback":{"blockReason":"SAFETY"}}`:                          "[] [] 0 <nil> true ",
		`{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}`: "[] [] 0 <nil> false Overloaded",
		`{"candidates":null,"usageMetadata":{"promptTokenCount":3,"toolUsePromptTokenCount":1,"candidatesTokenCount":2,"thoughtsTokenCount":5,"cachedContentTokenCount":1}}`: "[] [] 0 &{4 7 1 0 0 0 5 0 0 0 false} false ",
	} {
		var v Event
		if err := Standard().ParseEvent(Contents, Frame{Data: []byte(data)}, &v); err != nil {
			t.Error(data, err)
		}
		if got := fmt.Sprint(v.Deltas, v.Ended, v.Bytes, " ", v.Usage, " ", v.Done, " ", v.Failed.Message); got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"candidates":[{"content":{"parts":[{"text":"a"}]}},{"index":1,"content":{"parts":[{"text":"b"}]}}]}`: "a <nil>",
		`{}`:                             " no answer: it has no candidates",
		`{"error":{"message":"reason"}}`: " no answer: reason",
		`[]`:                             " its answer is not in a known form: byte 0 begins something else than is documented",
	} {
		r, err := Standard().ParseReply(Contents, []byte(body))
		if got := fmt.Sprint(r.Text, " ", err); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// TestContentsRewritten: the texts of parts go on in later events, thoughts and others apart; all other bytes stay.
func TestContentsRewritten(t *testing.T) {
	const data = `{"candidates":[{"content":{"parts":[{"thought":true,"text":"t"},{"text":"a"},{"functionCall":{"name":"f"}}],"role":"model"},"index":2}],"x": 1}`
	var whole []string
	got, err := Standard().Rewrite(Contents, []byte(data), Rewriter{
		Piece: func(p Place, piece string) string {
			_, next := Standard().Continue(Contents, p, piece)
			var v Event
			if err := Standard().ParseEvent(Contents, Frame{Data: next}, &v); err != nil || p.Choice != 2 || v.Bytes != 1 || (len(v.Deltas) == 0) != (piece == "t") {
				t.Error(string(next), err)
			}
			return "(" + piece + ")"
		},
		Whole: func(name string, value []byte) ([]byte, int) { whole = append(whole, name); return value, 0 },
	})
	if want := strings.NewReplacer(`"t"`, `"(t)"`, `"a"`, `"(a)"`).Replace(data); err != nil || string(got) != want || fmt.Sprint(whole) != "[thought functionCall role index x]" {
		t.Errorf("%s, %v, %v", got, err, whole)
	}
	if got := Standard().WithoutLogprobs(Contents, []byte(`{"candidates":[{"logprobsResult":{"a":1},"avgLogprobs":1}]}`)); string(got) != `{"candidates":[{"logprobsResult":null,"avgLogprobs":1}]}` {
		t.Error(string(got))
	}
	if got := string(AppendFault(nil, Contents, 429, "model", Fault{Message: "m", ID: "r"})); got != `{"error":{"code":429,"message":"model: m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":"r"}]}}` {
		t.Error(got)
	}
}
