package bot

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClients: programs that others wrote ask as they ask OpenAI: whole and streamed,
// with tools, by both endpoints, and understand errors.
func TestClients(t *testing.T) {
	const folder = "testdata/clients"
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("key")} })
	for name, c := range map[string]struct {
		command, needs, program string
	}{
		"openai-python": {"python3", "python/openai/__init__.py", "client.py"},
		"openai-node":   {"node", "node_modules/openai/package.json", "client.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(folder, c.needs)); err != nil {
				t.Skipf("no package openai for %s: scripts/clients.sh installs it", c.command)
			}
			if _, err := exec.LookPath(c.command); err != nil {
				t.Skipf("no %s: scripts/setup.sh installs it", c.command)
			}
			cmd := exec.CommandContext(t.Context(), c.command, c.program, b.url+"/v1", secretOf("key")) //nolint:gosec // a program of that folder
			cmd.Dir, cmd.Stderr = folder, os.Stderr
			cmd.Env = append(os.Environ(), "PYTHONPATH=python")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			type said struct {
				Models            []string `json:"models"`
				Whole             string   `json:"whole"`
				Tokens            int      `json:"tokens"`
				Streamed          string   `json:"streamed"`
				StreamedTokens    int      `json:"streamed_tokens"`
				Tool              []any    `json:"tool"`
				ToolStreamed      bool     `json:"tool_streamed"`
				Response          string   `json:"response"`
				ResponseStreamed  string   `json:"response_streamed"`
				ResponseCompleted string   `json:"response_completed"`
				Errors            [][]any  `json:"errors"`
			}
			var got said
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if got.Whole == "" || got.Response == "" {
				t.Errorf("nothing was said: %s", out)
			}
			want := said{[]string{"dyno-1"}, got.Whole, 4, got.Whole, 4, []any{"weather", []any{"city"}}, true, got.Response, got.Response, got.Response,
				[][]any{{"NotFoundError", 404.0}, {"AuthenticationError", 401.0}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestLangChain: so does LangChain's client, which asks for tools by functions, adds up
// streams and their usage, and sends a tool's result back.
func TestLangChain(t *testing.T) {
	const folder = "testdata/clients"
	if _, err := os.Stat(filepath.Join(folder, "python-langchain/langchain_openai/__init__.py")); err != nil {
		t.Skip("no package langchain-openai for python3: scripts/clients.sh installs it")
	}
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("key")} })
	cmd := exec.CommandContext(t.Context(), "python3", "chat_openai.py", b.url+"/v1", secretOf("key")) //nolint:gosec // a program of that folder
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	// Nobody else is told of what is asked here, whatever is set around the test.
	cmd.Env = append(os.Environ(), "PYTHONPATH=python-langchain:python", "LANGSMITH_TRACING=false", "LANGCHAIN_TRACING_V2=false")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	type said struct {
		Whole            string  `json:"whole"`
		Tokens           []int   `json:"tokens"` // of the answer, and what the sum is wrong by
		Finish           string  `json:"finish"`
		Streamed         string  `json:"streamed"`
		StreamedTokens   []int   `json:"streamed_tokens"`
		Tool             []any   `json:"tool"`
		ToolStreamed     bool    `json:"tool_streamed"`
		AfterTool        bool    `json:"after_tool"`
		Response         string  `json:"response"`
		ResponseTokens   []int   `json:"response_tokens"`
		ResponseStreamed string  `json:"response_streamed"`
		Errors           [][]any `json:"errors"`
	}
	var got said
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Whole == "" || got.Response == "" {
		t.Errorf("nothing was said: %s", out)
	}
	want := said{got.Whole, []int{4, 0}, "stop", got.Whole, []int{4, 0}, []any{"weather", []any{"city"}}, true, true, got.Response, []int{4, 0}, got.Response,
		[][]any{{"OpenAIModelNotFoundError", 404.0}, {"OpenAIAuthenticationError", 401.0}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
