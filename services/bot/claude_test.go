package bot

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// asClaudeCode is a request as Claude Code sends it, with marks for the prompt's cache in the system prompt, a tool and a message.
const asClaudeCode = `{"model":"dyno-1","max_tokens":32000,"stream":true,"temperature":1,"metadata":{"user_id":"user_1_account__session_2"},
"system":[{"type":"text","text":"You are a coding agent.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"The folder is /src.","cache_control":{"type":"ephemeral"}}],
"tools":[{"name":"Read","description":"Reads a file","input_schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}},
{"name":"Bash","description":"Runs a command","input_schema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]},"cache_control":{"type":"ephemeral"}}],
"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"},{"type":"text","text":"What is in a.go?"}]},
{"role":"assistant","content":[{"type":"text","text":"I read it."},{"type":"tool_use","id":"toolu_1","name":"Read","input":{"path":"a.go"}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"package a","is_error":false,"cache_control":{"type":"ephemeral"}}]}]}`

// TestClaudeCode: the recipe of the manual. Without the drops, the answer says which field the upstream's dialect does not have.
func TestClaudeCode(t *testing.T) {
	for _, drop := range [][]string{nil, {"cache_control"}} {
		var asked map[string]any
		b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, aWord+aStop+aDone)
		}, func(c *Config) { c.Upstream.Upstreams[0].Drop = drop })
		status, text, h := b.headed("/v1/messages?beta=true", asClaudeCode, map[string]string{"Anthropic-Beta": "claude-code-20250219,fine-grained-tool-streaming-2025-05-14", "Anthropic-Version": "2023-06-01"})
		if drop == nil {
			if status != http.StatusBadRequest || !strings.Contains(text, "cache_control") || asked != nil {
				t.Errorf("without drop: %d %s", status, text)
			}
			continue
		}
		list := frames(t, strings.NewReader(text))
		if n := len(list); status != http.StatusOK || n == 0 || list[n-1].name != "message_stop" || !strings.Contains(h.Get("X-Dyno-Dropped"), drop[0]) {
			t.Errorf("%d %s %v", status, text, h)
		}
		sent, _ := json.Marshal(asked)
		if messages, _ := asked["messages"].([]any); len(messages) < 4 || strings.Contains(string(sent), "cache_control") || !strings.Contains(string(sent), "tool_call_id") {
			t.Errorf("%s", sent)
		}
	}
}
