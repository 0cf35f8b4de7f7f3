package dialect

import (
	"fmt"
	"strings"
	"testing"

	"dyno/services/bot/openai"
)

// TestEmitter: blocks are closed before others are opened, a call without arguments has an empty object, and nothing comes
// after the end.
func TestEmitter(t *testing.T) {
	for _, c := range []struct {
		steps func(m *Emitter)
		want  string
	}{
		{func(m *Emitter) {
			m.Piece(Thinking, "a", "")
			m.Piece(Thinking, "", "s")
			m.Piece(Thinking, "b", "")
			m.Piece(Text, "", "")
			m.Piece(Text, "c", "")
			m.Call("", "f", "null", "")
			m.Call("7", "f", `{"x":1}`, "s")
			m.Stopped = true
		}, `begin, open thinking, piece "a" "", piece "" "s", close, open thinking, piece "b" "", close, open text, piece "c" "", close, ` +
			`open tool call call_id_0, piece "{}" "", close, open tool call 7, piece "{\"x\":1}" "", piece "" "s", close, finish tool calls`},
		{func(m *Emitter) {
			m.Piece(Text, "a", "")
			m.Fail(openai.Fault{})
			m.Piece(Text, "b", "")
			m.Call("", "f", "", "")
			m.Stopped = true
		}, `begin, open text, piece "a" "", fault without a reason`},
		{func(m *Emitter) {
			m.Last = Answer{Stop: Length, Usage: &openai.Usage{Prompt: 5, Completion: 3, Reasoning: -1}}
			m.Call("", "f", "", "")
			m.Stopped = true
		}, `begin, open tool call call_id_0, piece "{}" "", close, finish length`},
	} {
		var got []string
		each := func(e *Event) {
			text := e.Kind.String()
			switch e.Kind {
			case Open:
				text = strings.TrimSpace(fmt.Sprint(text, " ", e.Block.Kind, " ", e.Block.ID))
			case Piece:
				text += fmt.Sprintf(" %q %q", e.Text, e.Signature)
			case Finish:
				text += " " + e.Answer.Stop.String()
			case Fault:
				text += " " + e.Fault.Message
			}
			if e.Answer.Usage != nil {
				t.Error("an impossible usage")
			}
			got = append(got, text)
		}
		m := &Emitter{Each: each}
		m.Begin(Answer{}, "id")
		c.steps(m)
		for range 2 {
			if err := m.End(each); err != nil {
				t.Error(err)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s\nwant\n%s", text, c.want)
		}
	}
}
