package bot

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/secretfile"
	"dyno/services/bot/upstream"
)

// A clientPackage is a vendor's own for a language, or one that uses it.
type clientPackage struct{ name, command, needs, extension string }

var packages = []clientPackage{
	{"openai-python", "python3", "python/openai/__init__.py", ".py"},
	{"openai-node", "node", "node_modules/openai/package.json", ".mjs"},
}

var (
	langchain = clientPackage{"langchain-openai", "python3", "python-langchain/langchain_openai/__init__.py", ".py"}
	litellm   = clientPackage{"litellm", "python3", "python-litellm/litellm/__init__.py", ".py"}
	genai     = clientPackage{"google-genai", "python3", "python-genai/google/genai/__init__.py", ".py"}
)

// run runs a program that uses the package, and returns what it prints. It skips the test without the package.
func (c clientPackage) run(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	const folder = "testdata/clients"
	if _, err := os.Stat(filepath.Join(folder, c.needs)); err != nil {
		t.Skipf("no package %s: scripts/clients.sh installs it", c.name)
	}
	if _, err := exec.LookPath(c.command); err != nil {
		t.Skipf("no %s: scripts/setup.sh installs it", c.command)
	}
	cmd := exec.CommandContext(t.Context(), c.command, append([]string{program + c.extension}, args...)...) //nolint:gosec // a program of that folder
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	// Nobody else is told of what is asked here, whatever is set around the test.
	path, _, _ := strings.Cut(c.needs, "/")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+path+":python", "LANGSMITH_TRACING=false", "LANGCHAIN_TRACING_V2=false")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}

// TestClients: programs that others wrote ask as they ask OpenAI: whole and streamed,
// with tools, by both endpoints, and understand errors.
func TestClients(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("key")} })
	for _, c := range packages {
		t.Run(c.name, func(t *testing.T) {
			out := c.run(t, "client", b.url+"/v1", secretOf("key"))
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

// TestMessagesClients: programs that others wrote ask as they ask Anthropic: whole and streamed, with tools, and
// understand errors. The first gateway translates for a model server of OpenAI's form; the second one has the first
// as its upstream, whose bytes it passes on.
func TestMessagesClients(t *testing.T) {
	translating := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("key")} })
	passing := serving(t, newLLM(t, nil), func(c *Config) {
		u := &c.Upstream.Upstreams[0]
		u.Dialect, u.URL, u.Key = upstream.Anthropic, translating.url+"/v1", secretfile.Text(secretOf("key"))
		c.Keys = []Key{keyOf("key")}
	})
	for _, c := range []clientPackage{
		{"anthropic-python", "python3", "python-anthropic/anthropic/__init__.py", ".py"},
		{"anthropic-node", "node", "node_modules/@anthropic-ai/sdk/package.json", ".mjs"},
	} {
		for name, b := range map[string]*bed{"translated": translating, "passed": passing} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				type said struct {
					Models         []string `json:"models"`
					Whole          string   `json:"whole"`
					Tokens         int      `json:"tokens"`
					Stop           string   `json:"stop"`
					Streamed       string   `json:"streamed"`
					StreamedTokens int      `json:"streamed_tokens"`
					Tool           []any    `json:"tool"`
					ToolStreamed   bool     `json:"tool_streamed"`
					Counted        bool     `json:"counted"`
					Errors         [][]any  `json:"errors"`
				}
				var got said
				if err := json.Unmarshal(c.run(t, "messages", b.url, secretOf("key")), &got); err != nil {
					t.Fatal(err)
				}
				if got.Whole == "" {
					t.Error("nothing was said")
				}
				want := said{[]string{"dyno-1"}, got.Whole, 4, "end_turn", got.Whole, 4, []any{"tool_use", "weather", []any{"city"}}, true, true,
					[][]any{{"NotFoundError", 404.0, "not_found_error"}, {"AuthenticationError", 401.0, "authentication_error"}, {"BadRequestError", 400.0, "invalid_request_error"}}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
}

// Clients understand what an upstream sends in a form that few send: coded, with a byte order mark, with other ends of
// lines, and streams that fail.
func TestClientsOfUnusualUpstreams(t *testing.T) {
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model  string
			Stream bool
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		stream := aWord + aStop + aUsage + aDone
		switch asked.Model {
		case "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := encoders["gzip"](w)
			text := aWhole
			if asked.Stream {
				text = stream
			}
			_, _ = io.WriteString(z, text)
			_ = z.Close()
		case "mark":
			_, _ = io.WriteString(w, "\ufeff"+stream)
		case "cr":
			_, _ = io.WriteString(w, strings.ReplaceAll(stream, "\n", "\r"))
		case "done":
			_, _ = io.WriteString(w, aWord+aDone)
		case "failed":
			_, _ = io.WriteString(w, aCreated+aDelta+"event: response.failed\n"+
				`data: {"type":"response.failed","sequence_number":2,"response":{"id":"resp_1","status":"failed","error":{"code":"rate_limit_exceeded","message":"later"},"usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}}`+"\n\n")
		case "cut":
			_, _ = io.WriteString(w, aCreated+aDelta)
		}
	}, func(c *Config) {
		models := map[string]string{"dyno-1": "dyno-1"}
		for _, m := range []string{"gzip", "mark", "cr", "done", "failed", "cut"} {
			models[m] = m
		}
		c.Upstream.Upstreams[0].Models = models
	})
	for _, c := range packages {
		t.Run(c.name, func(t *testing.T) {
			want := map[string]any{
				"gzip": "hello", "tokens": 3.0, "gzip_streamed": "hello", "mark_streamed": "hello", "cr_streamed": "hello",
				"done":   "upstream up: the stream was cut",
				"failed": []any{"response.failed", 2.0, "resp_1", "failed", "rate_limit_exceeded"}, "failed_tokens": 3.0,
				"cut": []any{"response.failed", 2.0, "resp_1", "failed", "upstream_error"}, "cut_tokens": nil,
			}
			var got map[string]any
			if err := json.Unmarshal(c.run(t, "odd", b.url+"/v1"), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Clients understand what is passed on.
func TestClientsOfOperations(t *testing.T) {
	b, _ := atDocumented(t, nil)
	want := map[string]any{
		"embedding": []any{0.0023064255, -0.009327292}, "embedding_tokens": 8.0, "flagged": false, "completion": "This is a test", "streamed": "This is a",
		"images": []any{"aaaa", "bbbb"}, "image_tokens": 100.0, "spoken": 200_000.0, "heard": "own-1 70000 whole", "edited": "own-1 70000 whole", "error": []any{"NotFoundError", 404.0},
	}
	for _, c := range packages {
		t.Run(c.name, func(t *testing.T) {
			var got map[string]any
			if err := json.Unmarshal(c.run(t, "passed", b.url+"/v1", secretOf("key")), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestLangChain: so does LangChain's client. It requests tools by functions, adds up streams and their usage, and
// returns a tool's result.
func TestLangChain(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("key")} })
	out := langchain.run(t, "chat_openai", b.url+"/v1", secretOf("key"))
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
