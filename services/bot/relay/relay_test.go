package relay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"dyno/services/bot/mask"
	"dyno/services/bot/openai"
)

// relayed is what the client of a masked stream sees.
func relayed(t *testing.T, e openai.Endpoint, events ...string) (stream string, masked int) {
	t.Helper()
	masker, err := mask.New(mask.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	in := openai.NewReader(strings.NewReader("data: " + strings.Join(events, "\n\ndata: ") + "\n\n"))
	r := Relay{Codec: openai.Standard(), Endpoint: e, Masker: masker}
	var out []byte
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			return string(out), r.Masked()
		}
		if err != nil {
			t.Fatal(err)
		}
		var v openai.Event
		if err := r.Codec.ParseEvent(e, f, &v); err != nil {
			t.Fatal(err)
		}
		out = r.Next(out, f, &v)
	}
}

// TestMaskedFields: a secret is masked in every field of a choice, however it is cut. In the arguments of a tool,
// which are JSON, it is masked however it is escaped.
func TestMaskedFields(t *testing.T) {
	const plain = "sk-abcdefghijklmnopqrstuvwxyz"
	const arguments = `{"tool_calls":[{"function":{"arguments":%q},"index":1}]}`
	escaped := map[string]string{"escaped": `\u0073k-abcdefghijklmnopqrst\u0041`, "in JSON in JSON": `\\u0073k\\u002Dabcdefghijklmnopqrst`}
	for name, field := range map[string]string{
		"escaped": arguments, "in JSON in JSON": arguments,
		"content": `{"content":%q}`, "reasoning": `{"reasoning":%q}`, "reasoning_content": `{"reasoning_content":%q}`, "refusal": `{"refusal":%q}`,
		"arguments":      arguments,
		"both":           `{"content":"x","tool_calls":[{"index":0,"function":{"arguments":%q}}]}`,
		"function_call":  `{"function_call":{"arguments":%q}}`,
		"what may come":  `{"reasoning_details":[{"type":"text","text":%q}]}`,
		"another choice": `{"content":%q}`,
	} {
		index := 0
		if name == "another choice" {
			index = 2
		}
		secret := cmp.Or(escaped[name], plain)
		for _, size := range []int{1, 2, 7, len(secret)} {
			var events []string
			for rest := "say " + secret + ", and sk-"; rest != ""; {
				n := min(size, len(rest))
				events = append(events, fmt.Sprintf(`{"choices":[{"delta":%s,"index":%d,"finish_reason":null,"logprobs":{"content":[{"token":%q}]}}]}`, fmt.Sprintf(field, rest[:n]), index, rest[:n]))
				rest = rest[n:]
			}
			events = append(events, fmt.Sprintf(`{"choices":[{"delta":{},"index":%d,"finish_reason":"stop"}]}`, index), "[DONE]")
			got, masked := relayed(t, openai.Chat, events...)
			if said := texts(t, got); said != "say [api-key], and sk-" || masked != 1 || strings.Contains(got, "token") || !strings.HasSuffix(got, "data: [DONE]\n\n") {
				t.Errorf("%s, by %d: %q, %d masked: %s", name, size, said, masked, got)
			}
		}
	}
}

// texts are all texts of a stream that go on, one behind the other, but for the letter x.
func texts(t *testing.T, stream string) string {
	t.Helper()
	said := ""
	for in := openai.NewReader(strings.NewReader(stream)); ; {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			return strings.ReplaceAll(said, "x", "")
		}
		var e struct {
			Delta   any
			Choices []struct{ Delta any }
		}
		if f.End() {
			continue
		}
		if err := errors.Join(err, json.Unmarshal(f.Data, &e)); err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Choices {
			said += leaves(c.Delta)
		}
		said += leaves(e.Delta)
	}
}

// leaves are the strings of a value, but for what it is of.
func leaves(v any) (said string) {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, each := range v {
			said += leaves(each)
		}
	case map[string]any:
		for name, each := range v {
			if name != "type" {
				said += leaves(each)
			}
		}
	}
	return said
}

// TestMaskedResponses: events of /v1/responses are masked across cuts, in all kinds of texts. A part restarts where
// another has ended.
func TestMaskedResponses(t *testing.T) {
	const secret = "sk-abcdefghijklmnopqrstuvwxyz"
	for _, kind := range []string{"output_text", "function_call_arguments", "reasoning_text", "reasoning_summary_text", "refusal"} {
		delta := func(part int, text string) string {
			return fmt.Sprintf(`{"type":"response.%s.delta","item_id":"i","output_index":0,"content_index":%d,"delta":%q,"logprobs":[{"token":%q}]}`, kind, part, text, text)
		}
		done := func(part int) string {
			return fmt.Sprintf(`{"type":"response.%s.done","item_id":"i","output_index":0,"content_index":%d}`, kind, part)
		}
		for name, c := range map[string]struct {
			events []string
			want   string
			masked int
		}{
			"cut":                   {[]string{delta(0, "say "+secret[:9]), delta(0, secret[9:]+"."), done(0)}, "say [api-key].", 1},
			"held to the end":       {[]string{delta(0, "say s"), delta(0, "k-"), done(0)}, "say sk-", 0},
			"behind a word":         {[]string{delta(0, "done"), done(0), delta(1, secret), done(1)}, "done[api-key]", 1},
			"before a word":         {[]string{delta(0, secret), done(0), delta(1, "Hello"), done(1)}, "[api-key]Hello", 1},
			"the same part again":   {[]string{delta(0, secret), done(0), delta(0, "Hello"), done(0)}, "[api-key]Hello", 1},
			"two parts at once":     {[]string{delta(0, secret[:9]), delta(1, "Hello"), delta(0, secret[9:]), done(0), done(1)}, "Hello[api-key]", 1},
			"without an end of one": {[]string{delta(0, "say s"), delta(0, "k-")}, "say sk-", 0},
		} {
			got, masked := relayed(t, openai.Responses, append(c.events, `{"type":"response.completed","response":{"output":[]}}`)...)
			if said := texts(t, got); said != c.want || masked != c.masked || strings.Contains(got, "token") || !strings.HasSuffix(got, "\"response\":{\"output\":[]}}\n\n") {
				t.Errorf("%s, %s: %q, %d masked: %s", kind, name, said, masked, got)
			}
		}
	}
	// What is said once more at the end is masked, too.
	if got, masked := relayed(t, openai.Responses, `{"type":"response.output_text.done","text":"`+secret+`","logprobs":[{"token":"sk"}]}`, "[DONE]"); strings.Contains(got, "sk") || masked != 1 || !strings.HasSuffix(got, "[DONE]\n\n") {
		t.Errorf("%d masked: %s", masked, got)
	}
}

// TestMaskedMessages: events of /v1/messages are masked across cuts, in all kinds of texts. The rest of a block comes
// before its end, and signatures stay.
func TestMaskedMessages(t *testing.T) {
	const secret = "sk-abcdefghijklmnopqrstuvwxyz"
	stop := func(block int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, block) }
	for field, kind := range map[string]string{"text": "text_delta", "partial_json": "input_json_delta", "thinking": "thinking_delta"} {
		delta := func(block int, text string) string {
			return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%q}}`, block, kind, field, text)
		}
		for name, c := range map[string]struct {
			events []string
			want   string
			masked int
		}{
			"cut":              {[]string{delta(0, "say "+secret[:9]), delta(0, secret[9:]+"."), stop(0)}, "say [api-key].", 1},
			"held to the end":  {[]string{delta(0, "say s"), delta(0, "k-"), stop(0)}, "say sk-", 0},
			"another block":    {[]string{delta(0, secret), stop(0), delta(1, "Hello"), stop(1)}, "[api-key]Hello", 1},
			"two at once":      {[]string{delta(0, secret[:9]), delta(1, "Hello"), delta(0, secret[9:]), stop(0), stop(1)}, "Hello[api-key]", 1},
			"without its stop": {[]string{delta(0, "say s"), delta(0, "k-")}, "say sk-", 0},
		} {
			got, masked := relayed(t, openai.Messages, append(c.events, `{"type":"message_stop"}`)...)
			if said := texts(t, got); said != c.want || masked != c.masked || !strings.HasSuffix(got, "data: {\"type\":\"message_stop\"}\n\n") {
				t.Errorf("%s, %s: %q, %d masked: %s", field, name, said, masked, got)
			}
			if name == "held to the end" && !strings.Contains(got, "event: content_block_delta\ndata: "+delta(0, "sk-")+"\n\ndata: "+stop(0)) {
				t.Errorf("%s: %s", field, got)
			}
		}
	}
	signature := `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"AA+` + secret + `"}}`
	begin := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"` + secret + `"}}`
	if got, masked := relayed(t, openai.Messages, signature, begin); masked != 1 || !strings.Contains(got, signature) || strings.Count(got, secret) != 1 {
		t.Errorf("%d masked: %s", masked, got)
	}
}

// TestMaskedLines: an event whose data has several lines is one event afterwards.
func TestMaskedLines(t *testing.T) {
	got, _ := relayed(t, openai.Chat, "{\"choices\":[\ndata: {\"index\":0,\ndata: \"delta\":{\"content\":\"sk-abcdefghijklmnopqrstuvwxyz\"}}]}", "[DONE]")
	if said := texts(t, got); said != "[api-key]" {
		t.Errorf("%q: %s", said, got)
	}
}

// TestTextsAreBounded: the memory for an upstream with ever more texts, or ever larger events, is bounded. The client
// learns that the rest is missing. What has ended makes room.
func TestTextsAreBounded(t *testing.T) {
	masker, err := mask.New(mask.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	const secret, large = "sk-abcdefghijklmnopqrstuvwxyz", 20_000
	begun := func(i int) string {
		return fmt.Sprintf(`{"choices":[{"delta":{"content":%q},"index":%d}]}`, secret+".", i)
	}
	part := func(i, around int, text string) string {
		return fmt.Sprintf(`{"type":"response.output_text.delta","item_id":"%d","delta":%q,"around":%q}`, i, text, strings.Repeat("x", around))
	}
	named := func(i, size int, text string) string {
		return fmt.Sprintf(`{"type":"response.output_text.delta","item_id":"%d%s","delta":%q}`, i, strings.Repeat("x", size), text)
	}
	ends := func(i int) string {
		return fmt.Sprintf(`{"choices":[{"delta":{},"index":%d,"finish_reason":"stop"}]}`, i)
	}
	done := func(i int) string {
		return fmt.Sprintf(`{"type":"response.output_text.done","item_id":"%d"}`, i)
	}
	for name, c := range map[string]struct {
		endpoint openai.Endpoint
		most     int // of texts at once
		begin    func(i int) string
		end      func(i int) string
	}{
		"texts":             {openai.Chat, MaxTexts, begun, ends},
		"around held text":  {openai.Responses, maxTextBytes / large, func(i int) string { return part(i, large, "s") }, done},
		"around other text": {openai.Responses, MaxTexts, func(i int) string { return part(i, large, "word") }, done},
		"large text":        {openai.Responses, 20, func(i int) string { return part(i, 0, strings.Repeat("word ", large)+"s") }, done},
		"long names":        {openai.Responses, maxTextBytes / (2 * large), func(i int) string { return named(i, large, "word") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := Relay{Codec: openai.Standard(), Endpoint: c.endpoint, Masker: masker}
			next := func(data string) {
				t.Helper()
				var e openai.Event
				if err := r.Codec.ParseEvent(c.endpoint, openai.Frame{Data: []byte(data)}, &e); err != nil {
					t.Fatal(err)
				}
				out := r.Next(nil, openai.Frame{Raw: []byte("data: " + data + "\n\n"), Data: []byte(data)}, &e)
				if strings.Contains(string(out), "sk-") {
					t.Errorf("not masked: %s", out)
				}
				if r.held > maxTextBytes || r.held < 0 {
					t.Fatalf("%d bytes are held", r.held)
				}
			}
			for i := range c.most {
				next(c.begin(i))
			}
			if r.Full {
				t.Fatal("full too early")
			}
			if c.end != nil {
				next(c.end(0))
				next(c.begin(c.most))
				if r.Full {
					t.Error("what has ended makes no room")
				}
			}
			if next(c.begin(c.most + 1)); r.Full != (name != "large text") { // what is said is not held
				t.Errorf("full: %v", r.Full)
			}
			for _, text := range r.texts {
				r.rest(nil, text)
			}
			if r.held != 0 || len(r.texts) != 0 {
				t.Errorf("%d bytes are held of %d texts after the end", r.held, len(r.texts))
			}
		})
	}
}

// Recordings and images in events are no text: they are passed on as they came.
func TestMediaIsPassedOn(t *testing.T) {
	const chance = "AAA+eyJAAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH/AKIAABCDEFGHIJKLMNOP+AAAA"
	for _, c := range []struct {
		e    openai.Endpoint
		data string
	}{
		{openai.Chat, `{"choices":[{"index":0,"delta":{"audio":{"id":"a","data":"` + chance + `"}}}]}`},
		{openai.Chat, `{"choices":[{"index":0,"delta":{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + chance + `"}}]}}]}`},
		{openai.Responses, `{"type":"response.audio.delta","delta":"` + chance + `"}`},
		{openai.Responses, `{"type":"response.output_audio.delta","item_id":"i","delta":"eyJhbGciOiJIUzI1NiJ9AAAABBBBCCCCDDDDEEEE"}`},
		{openai.Responses, `{"type":"response.image_generation_call.partial_image","partial_image_index":0,"partial_image_b64":"` + chance + `"}`},
		{openai.Responses, `{"type":"response.output_item.done","item":{"type":"image_generation_call","result":"` + chance + `"}}`},
	} {
		got, masked := relayed(t, c.e, c.data, c.data)
		if want := "data: " + c.data + "\n\n"; got != want+want || masked != 0 {
			t.Errorf("%s: %d masked: %s", c.data, masked, got)
		}
	}
}
