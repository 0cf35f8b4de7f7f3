package ollama_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/dialect/ollama"
	"dyno/services/bot/openai"
)

var server dialect.Server = ollama.Server{}

// TestThinking: efforts that the server does not know have others' names.
func TestThinking(t *testing.T) {
	for effort, want := range map[string]string{
		"none": `"think":false`, "minimal": `"think":"low"`, "medium": `"think":"medium"`, "xhigh": `"think":"max"`, "max": `"think":"max"`,
	} {
		body, err := server.AppendRequest(nil, &dialect.Request{Reasoning: &dialect.Reasoning{Effort: effort}}, "m")
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v", effort, body, err)
		}
	}
}

// TestMessages: results between other blocks are messages of their own, in their order.
func TestMessages(t *testing.T) {
	text := func(s string) dialect.Block { return dialect.Block{Text: s} }
	body, err := server.AppendRequest(nil, &dialect.Request{Messages: []dialect.Message{
		{Role: dialect.Assistant, Blocks: []dialect.Block{{Kind: dialect.ToolCall, ID: "1", Name: "now", Input: json.RawMessage(`{"b":1,"a":2}`)}}},
		{Role: dialect.User, Blocks: []dialect.Block{
			text("a"), {Kind: dialect.ToolResult, ID: "1", Result: []dialect.Block{text("x"), text("y")}}, {Kind: dialect.ToolResult, ID: "2"},
			text("b"), {Kind: dialect.Image, Source: dialect.Source{Data: "AA=="}}, text("c"),
		}},
	}}, "m")
	want := `{"messages":[` + strings.Join([]string{
		`{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":{"b":1,"a":2},"name":"now"},"id":"1"}]}`,
		`{"content":"a","role":"user"}`,
		`{"content":"x\n\ny","role":"tool","tool_call_id":"1","tool_name":"now"}`,
		`{"content":"","role":"tool","tool_call_id":"2","tool_name":""}`,
		`{"content":"b\n\nc","images":["AA=="],"role":"user"}`,
	}, ",") + `],"model":"m","options":{},"stream":false}`
	if err != nil || string(body) != want {
		t.Errorf("%s, %v\nwant\n%s", body, err, want)
	}
}

// TestEnds: reasons of ends, and faults, also after a part of the answer.
func TestEnds(t *testing.T) {
	const part = `{"model":"m","created_at":"2026-01-02T03:04:05.6Z","message":{"role":"assistant","content":"Hi"},"done":false}`
	for last, want := range map[string]any{
		`{"done":true}`:                                    dialect.End,
		`{"done":true,"done_reason":"stop"}`:               dialect.End,
		`{"done":true,"done_reason":"length"}`:             dialect.Length,
		`{"done":true,"done_reason":"load"}`:               "the server did not answer, but did only: load",
		`{"error":"out of memory"}`:                        "out of memory",
		`{"error":{"message":"overloaded","type":"busy"}}`: "overloaded",
		`{"error":""}`:                                     "without a reason",
		`{"message":{"content":"!"},"done":false}`:         openai.ErrCut,
		`{"message":"?"}`:                                  openai.ErrForm,
		`<html>`:                                           openai.ErrForm,
	} {
		whole, wholeErr := server.ReadAnswer([]byte(last))
		fold, streamErr := read(part, last)
		var none *openai.NoneError
		switch want := want.(type) {
		case dialect.Stop:
			if wholeErr != nil || whole.Stop != want || streamErr != nil || fold.Answer.Stop != want || fold.Answer.Created != 1767323045 {
				t.Errorf("%s: %+v, %v; stream %+v, %v; want %s", last, whole, wholeErr, fold, streamErr, want)
			}
		case string:
			if !errors.As(wholeErr, &none) || none.Message != want || fold.Fault == nil || *fold.Fault != none.Fault {
				t.Errorf("%s: %v; stream %s, %v; want %s", last, wholeErr, dialecttest.Dump(fold), streamErr, want)
			}
		case error:
			if !errors.Is(wholeErr, openai.ErrNone) && !errors.Is(wholeErr, want) || !errors.Is(streamErr, want) {
				t.Errorf("%s: %v; stream %v; want %v", last, wholeErr, streamErr, want)
			}
		}
	}
}
