package gemini_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/dialect/gemini"
	"dyno/services/bot/openai"
)

// atPath gives requests what their path says, and signatures the form that a Gemini server's have.
type atPath struct{ gemini.Client }

func (c atPath) ReadRequest(body []byte) (*dialect.Request, error) {
	r, err := c.Client.ReadRequest(append([]byte(`{"model":"m","stream":false,`), body[1:]...))
	if err == nil {
		resign(r.Messages)
	}
	return r, err
}

func resign(list []dialect.Message) {
	for _, m := range list {
		for i := range m.Blocks {
			if s := &m.Blocks[i].Signature; *s != "" {
				*s = base64.StdEncoding.EncodeToString([]byte(*s))
			}
		}
	}
}

// unsealing reads the signatures that the client's form has put into base64.
type unsealing struct{ gemini.Server }

func (s unsealing) ReadAnswer(body []byte) (*dialect.Answer, error) {
	return dialect.ReadWhole(s.NewReader(), body)
}

func (s unsealing) NewReader() dialect.Reader { return unsealingReader{s.Server.NewReader()} }

type unsealingReader struct{ dialect.Reader }

func (r unsealingReader) Read(f openai.Frame, each func(*dialect.Event)) error {
	return r.Reader.Read(f, func(e *dialect.Event) {
		text, err := base64.StdEncoding.DecodeString(e.Signature)
		if err != nil {
			panic(err)
		}
		e.Signature = string(text)
		each(e)
	})
}

// TestRoundTrips: what the server's side writes, the client's side reads, and the other way round.
func TestRoundTrips(t *testing.T) {
	form := dialecttest.Form{
		Kinds:   []dialect.Kind{dialect.Thinking, dialect.Text, dialect.ToolCall},
		Stops:   []dialect.Stop{dialect.End, dialect.Length, dialect.Filtered},
		Signed:  []dialect.Kind{dialect.Thinking, dialect.Text, dialect.ToolCall},
		Repeat:  true,
		Untimed: true,
		// They are URLs in this form, or are tested by themselves.
		Silent: []dialect.Feature{dialect.ImageURL, dialect.FileID, dialect.ReasoningBudget},
	}
	dialecttest.RoundTrips(t, atPath{}, unsealing{}, form, func(r *dialect.Request) {
		resign(r.Messages)
		r.Model, r.Stream, r.IncludeUsage = "m", false, true
		if r.Format != nil {
			r.Format.Name = ""
		}
		if g := r.Reasoning; g != nil {
			g.Hide = g.Summary == ""
		}
		var list []dialect.Message
		for _, m := range r.Messages {
			for i := range m.Blocks {
				m.Blocks[i].Source.Name = ""
			}
			if n := len(list); n > 0 && list[n-1].Role == m.Role {
				list[n-1].Blocks = append(list[n-1].Blocks, m.Blocks...)
			} else {
				list = append(list, m)
			}
		}
		r.Messages = list
	})
}

func FuzzReadRequest(f *testing.F) {
	dialecttest.FuzzReadRequest(f, gemini.Client{}, `{"model":"m","contents":[{"parts":[{"text":"hi"}]}]}`,
		`{"model":"m","stream":true,"system_instruction":{"parts":[{"text":"s"}]},"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"error":"x"}}}]}]}`)
}

// TestReadRequest: names in either form, results without IDs, thoughts in pieces, schemas of the API's form, and faults.
func TestReadRequest(t *testing.T) {
	const said = `"contents":[{"parts":[{"text":"a"}]}]`
	for body, want := range map[string]string{
		said + `,"generation_config":{"thinking_config":{"thinking_budget":0},"topK":40.0,"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","nullable":true,"property_ordering":["a_b"],"properties":{"a_b":{"type":"ARRAY","min_items":1,"items":{"type":"STRING"}}}}}`:                                                                `{"Format":{"Schema":{"additionalProperties":false,"properties":{"a_b":{"items":{"type":"string"},"minItems":1,"type":"array"}},"type":["object","null"]}},"IncludeUsage":true,"Messages":[{"Blocks":[{"Text":"a"}],"Role":"user"}],"Model":"m","Reasoning":{"Effort":"none","Hide":true},"TopK":40}`,
		`"contents":[{"role":"model","parts":[{"text":"t","thought":true},{"text":"u","thought":true,"thoughtSignature":"c2ln"},{"text":""},{"functionCall":{"name":"f"}},{"functionCall":{"name":"f","args":{"x":1}}}]},{"parts":[{"functionResponse":{"name":"f","response":{"result":"r"}}},{"functionResponse":{"name":"f","response":{"error":"e"}}}]}]`: `{"IncludeUsage":true,"Messages":[{"Blocks":[{"Kind":"thinking","Signature":"sig","Text":"tu"},{"ID":"call_unnamed_0","Input":{},"Kind":"tool call","Name":"f"},{"ID":"call_unnamed_1","Input":{"x":1},"Kind":"tool call","Name":"f"}],"Role":"assistant"},{"Blocks":[{"ID":"call_unnamed_0","Kind":"tool result","Result":[{"Text":"r"}]},{"Failed":true,"ID":"call_unnamed_1","Kind":"tool result","Result":[{"Text":"e"}]}],"Role":"user"}],"Model":"m"}`,
		said + `,"tools":[{"function_declarations":[{"name":"f","description":"d","parameters_json_schema":{"type":"object"},"response":{"type":"STRING"}}]}]`:                                                                                                                                                                                                `{"IncludeUsage":true,"Messages":[{"Blocks":[{"Text":"a"}],"Role":"user"}],"Model":"m","Tools":[{"Description":"d\nIt returns: {\"type\":\"string\"}","Name":"f","Schema":{"type":"object"}}]}`,
		`"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"-_8="}}]}]`: `{"IncludeUsage":true,"Messages":[{"Blocks":[{"Kind":"image","Source":{"Data":"+/8=","Type":"image/png"}}],"Role":"user"}],"Model":"m"}`,
		`"contents":[]`: "contents: want a content of the user",
		`"contents":[{"role":"system","parts":[{"text":"a"}]}]`:                    "contents[0].role: want user or model",
		`"contents":[{"parts":[{"executableCode":{}}]}]`:                           "contents[0].parts[0]: cannot be translated here: want text, inlineData, fileData, functionCall of the model or functionResponse of the user",
		`"contents":[{"parts":[{"functionResponse":{"name":"f","response":{}}}]}]`: `contents[0].parts[0].functionResponse.name: there is no call of "f" without a result`,
		said + `,"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}`:           "toolConfig.functionCallingConfig.mode: want AUTO, ANY or NONE",
		said + `,"generationConfig":{"topP":1,"top_p":1}`:                          "generationConfig.topP: is there twice",
	} {
		got := ""
		if r, err := (gemini.Client{}).ReadRequest([]byte(`{"model":"m",` + body + `}`)); err != nil {
			got = err.Error()
		} else {
			got = dialecttest.Dump(r)
		}
		if got != want {
			t.Errorf("%s\n%s\nwant\n%s", body, got, want)
		}
	}
}

// TestLeft: what the neutral form does not have is noted with its field.
func TestLeft(t *testing.T) {
	r, err := gemini.Client{}.ReadRequest([]byte(`{"model":"m","contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}],"cachedContent":"c","safetySettings":[{}],
		"tools":[{"googleSearch":{}}],"generationConfig":{"candidateCount":2,"responseModalities":["IMAGE"],"logprobs":1,"mediaResolution":"x"},"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a","b"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{prefill contents[1]} {vendor_tools tools[0].googleSearch} {other toolConfig.functionCallingConfig.allowedFunctionNames} {tool_choice_required toolConfig.functionCallingConfig.mode} {n generationConfig.candidateCount} {audio_answer generationConfig.responseModalities} {logprobs generationConfig.logprobs} {other generationConfig.mediaResolution} {previous_response cachedContent} {other safetySettings}]`
	if got := fmt.Sprint(r.Uses()); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
