package openai

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// textsOf are references as texts.
func textsOf(list []Reference) (texts []string) {
	for _, r := range list {
		text := r.Path + " " + r.Kind + " " + r.ID
		if r.Open {
			text += " open"
		}
		texts = append(texts, text)
	}
	return texts
}

func TestReferences(t *testing.T) {
	said := func(parts string) string { return `"messages":[{"role":"user","content":` + parts + `}]` }
	for _, c := range []struct {
		endpoint Endpoint
		fields   string
		want     []string
	}{
		{Chat, said(`"file_id"`), nil},
		{Chat, said(`[{"type":"text","text":"\"file_id\":\"f\""}]`), nil},
		{Chat, said(`[{"type":"file","file":{"file_id":"f"}}]`), []string{"messages.content.file.file_id file f open"}},
		{Chat, said(`[{"type":"file","file":{"file\u005fid":"\u0066"}}]`), []string{"messages.content.file.file_id file f open"}},
		{Chat, said(`"hi"`) + `,"conversation":"c","container":"c","previous_response_id":"r"`, nil}, // other fields of this endpoint
		{Chat, said(`"hi"`) + `,"tools":[{"type":"function","function":{"name":"f","parameters":{"vector_store_ids":["v"],"properties":{"file_id":{"type":"string"}}}}}]`, nil},
		{Messages, said(`[{"type":"container_upload","file_id":"f"},{"type":"document","source":{"type":"file","file_id":"g"}}]`), []string{"messages.content.file_id file f open", "messages.content.source.file_id file g open"}},
		{Messages, said(`[{"type":"tool_use","id":"t","name":"n","input":{"file_id":"f"}},{"type":"tool_result","content":[{"type":"image","source":{"file_id":"g"}}]}]`), []string{"messages.content.content.source.file_id file g open"}},
		{Messages, said(`"hi"`) + `,"container":"c"`, []string{"container container c"}},
		{Messages, said(`"hi"`) + `,"container":{"id":"c","skills":[{"skill_id":"s"}]}`, []string{"container container c"}},
		{Responses, `"input":"hi","previous_response_id":"r","conversation":"c"`, []string{"conversation conversation c", "previous_response_id response r"}},
		{Responses, `"input":"hi","conversation":{"id":"c"},"prompt":{"id":"p","variables":{"a":{"type":"input_file","file_id":"f"},"b":"x"}}`, []string{"conversation conversation c", "prompt.variables.*.file_id file f open"}},
		{Responses, `"input":"hi","previous_response_id":null,"conversation":null`, nil},
		{Responses, `"input":"hi","prompt_cache_options":{"comparison_response_id":"r"}`, []string{"prompt_cache_options.comparison_response_id response r"}},
		{Responses, `"input":"hi","tools":[{"type":"file_search","vector_store_ids":["v","w","v"]},{"type":"code_interpreter","container":"c"},{"type":"code_interpreter","container":{"type":"auto","file_ids":["f"]}}]`,
			[]string{"tools.container container c", "tools.container.file_ids file f open", "tools.vector_store_ids vector_store v open", "tools.vector_store_ids vector_store w open"}},
		{Responses, `"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]},{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","file_id":"g"}]}]`,
			[]string{"input.content.file_id file f open", "input.output.file_id file g open"}},
		{Responses, `"input":[{"type":"item_reference","id":"a"},{"id":"b"},{"id":"c","type":null},{"id":"d","call_id":"x"}]`, []string{"input.id item a", "input.id item b", "input.id item c", "input.id item d"}},
		{Responses, `"input":[{"type":"reasoning","id":"a","summary":[],"call_id":"x","role":"x"},{"type":"image_generation_call","id":"b"}]`, []string{"input.id item a open", "input.id item b open"}},
		{Responses, `"input":[{"type":"message","id":"a","role":"user","content":"x"},{"id":"b","role":"user","content":"x"},{"type":"function_call","id":"c","call_id":"x"},{"type":"custom_tool_call_output","id":"d"}]`, nil},
	} {
		r := parse(t, c.endpoint, `{"model":"m",`+c.fields+`}`)
		if diff := cmp.Diff(c.want, textsOf(r.References)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.fields, diff)
		}
	}
}

// TestEachPlace: the ID at each place of the table is found, in a list and as an object's, too; names that differ in case are
// refused, and values that cannot be gone through.
func TestEachPlace(t *testing.T) {
	for _, k := range Kinds {
		for _, text := range k.Named {
			form, path, _ := strings.Cut(text, ":")
			if form == "any" {
				form = "chat"
			}
			nested := func(path, value string) string {
				members := strings.Split(path, ".")
				for _, m := range slices.Backward(members) {
					value = fmt.Sprintf(`{"a":[1,{"b":"c"}],%q:%s}`, m, value)
				}
				return value
			}
			want := []string{fmt.Sprintf("%s %s id%s", path, k.Name, map[bool]string{true: " open"}[k.Open])}
			for _, value := range []string{`"id"`, `["id"]`, `[[1],["id",null]]`, `{"id":"id"}`} {
				got, err := Standard().References(form, []byte(nested(path, value)))
				if diff := cmp.Diff(want, textsOf(got)); diff != "" || err != nil {
					t.Errorf("%s: %v -want +got:\n%s", nested(path, value), err, diff)
				}
			}
			last := path[strings.LastIndexByte(path, '.')+1:]
			for _, bad := range []string{nested(strings.TrimSuffix(path, last)+strings.ToUpper(last), `"id"`), nested(path, strings.Repeat("[", 2000)+strings.Repeat("]", 2000)), nested(path, `["x"`+strings.Repeat(`,"x"`, 2000)+`]`), `[]`} {
				var fault *RequestError
				if got, err := Standard().References(form, []byte(bad)); !errors.As(err, &fault) {
					t.Errorf("%.100s: %v, %v", bad, got, err)
				}
			}
		}
	}
}

func TestMade(t *testing.T) {
	for _, c := range []struct {
		form, answer string
		want         []string
	}{
		{Response, `{"id":"r","output":[{"id":"a","type":"reasoning"},{"id":"b","type":"code_interpreter_call","container_id":"c"}],"tools":[{"container":"x"}]}`, []string{"output item a", "output item b", "output.container_id container c"}},
		{Response, `{"type":"response.completed","response":{"id":"r","output":[{"id":"a"}]}}`, []string{"response.output item a"}},
		{Response, `{"type":"response.output_text.delta","delta":"\"output\"","item_id":"a"}`, nil},
		{Response, `{"object":"list","data":[{"id":"a"},{"id":"b"}]}`, []string{"data item a", "data item b"}},
		{VectorStore, `{"object":"list","data":[{"id":"f"}]}`, nil}, // they may be the operator's files
		{Batch, `{"id":"b","input_file_id":"f","output_file_id":"g","error_file_id":null}`, []string{"output_file_id file g open"}},
		{"message", `{"id":"m","container":{"id":"c","expires_at":"x"}}`, []string{"container container c"}},
		{"message", `{"type":"message_delta","delta":{"stop_reason":"end_turn","container":{"id":"c"}}}`, []string{"delta.container container c"}},
		{"message", `{"type":"message_start","message":{"id":"m","container":null}}`, nil},
		{"chat", `{"id":"x","output":[{"id":"y"}],"text":"\u00e9"}`, nil},
		{Response, `{"output":`, nil},
	} {
		if diff := cmp.Diff(c.want, textsOf(Made(c.form, []byte(c.answer)))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.answer, diff)
		}
	}
}

// FuzzReferences: whatever a request has, it is gone through or refused.
func FuzzReferences(f *testing.F) {
	f.Add(`{"input":[{"type":"item_reference","id":"a"}],"tools":[{"container":{"file_ids":["f"]}}]}`)
	f.Add(`{"messages":[{"content":[{"file":{"file\u005fid":"f"}}]}],"conversation":{"id":"c"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for form := range named {
			if list, err := Standard().References(form, []byte(text)); err == nil && len(list) > maxReferences {
				t.Errorf("%d IDs", len(list))
			}
			Made(form, []byte(text))
		}
	})
}
