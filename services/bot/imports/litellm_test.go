package imports

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dyno/services/bot"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// environment has the variables of all tests.
func environment(name string) (string, bool) {
	v, ok := map[string]string{"AZURE_API_BASE": "https://eu.openai.azure.com/", "MASTER_KEY": "sk-master"}[name]
	return v, ok
}

// shown is a configuration, and what it does not have.
func shown(r Result) string {
	var b strings.Builder
	b.Write(r.Text)
	for _, l := range r.Left {
		fmt.Fprintf(&b, "left out: %d: %s: %s\n", l.Line, l.What, l.Why)
	}
	return b.String()
}

var secretFile = regexp.MustCompile(`(?m)^ *\w+_file: (\S+)$`)

// read reads a configuration as the gateway does, with some secret in each of its files.
func read(t *testing.T, text []byte) bot.Config {
	t.Helper()
	dir := t.TempDir()
	for _, found := range secretFile.FindAllStringSubmatch(string(text), -1) {
		secret := "some secret"
		switch {
		case strings.Contains(found[0], "postgres_file"):
			secret = "postgres://127.0.0.1/dyno"
		case strings.Contains(found[0], "redis_file"):
			secret = "redis://:some@127.0.0.1:6379"
		}
		if err := os.WriteFile(filepath.Join(dir, found[1]), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "bot.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := bot.ReadConfig(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := LiteLLM(filepath.Base(file), text, environment)
			if err != nil {
				t.Fatal(err)
			}
			if c := read(t, r.Text); len(c.Upstream.Deployments) != r.Deployments || len(c.Upstream.Upstreams) > 0 {
				t.Errorf("%d deployments are read, of %d", len(c.Upstream.Deployments), r.Deployments)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(shown(r)), 0o644); err != nil { //nolint:gosec // as every file of the repository
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(r); got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(shown(r), "do-not-write") {
				t.Error("it has a secret")
			}
		})
	}
}

// TestServers: a prefix and parameters say which server is asked, and how.
func TestServers(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{`model: gpt-4o`, `{openai https://api.openai.com/v1 openai_api_key.secret} gpt-4o`},
		{`model: claude-x`, `{anthropic anthropic https://api.anthropic.com/v1 anthropic_api_key.secret} claude-x`},
		{`model: gemini/g`, `{gemini gemini https://generativelanguage.googleapis.com/v1beta gemini_api_key.secret} g`},
		{`model: openai/m, api_base: "http://10.0.0.5/v1/"`, `{openai http://10.0.0.5/v1} m`},
		{`model: openai/m, api_base: "https://a.example/v1/chat/completions", api_key: x`, `{openai https://a.example/v1 openai.secret} m`},
		{`model: m, custom_llm_provider: openai, api_base: "http://localhost:1/v1"`, `{openai http://localhost:1/v1} m`},
		{`model: openai/responses/gpt-5`, `{openai https://api.openai.com/v1 openai_api_key.secret} gpt-5`},
		{`model: azure/d, api_base: os.environ/AZURE_API_BASE, api_version: "2024-10-21"`, `{azure azure https://eu.openai.azure.com azure_api_key.secret 2024-10-21} d`},
		{`model: azure/o_series/d, api_base: "https://eu.openai.azure.com/openai/v1/", api_version: preview`, `{azure azure https://eu.openai.azure.com/openai/v1 azure_api_key.secret preview} d`},
		{`model: azure/d, api_base: "https://eu.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"`, `{azure azure https://eu.openai.azure.com azure_api_key.secret 2024-10-21} d`},
		{`model: azure/d, api_base: "https://eu.openai.azure.com"`, `{azure azure https://eu.openai.azure.com/openai/v1 azure_api_key.secret} d`},
		{`model: azure_ai/claude-x, api_base: "https://r.services.ai.azure.com"`, `{azure_ai anthropic https://r.services.ai.azure.com/anthropic/v1 azure_ai_api_key.secret} claude-x`},
		{`model: azure_ai/grok, api_base: "https://r.services.ai.azure.com/models"`, `{azure_ai azure https://r.services.ai.azure.com/openai/v1 azure_ai_api_key.secret} grok`},
		{`model: azure_ai/m, api_base: "https://m.eastus.models.ai.azure.com"`, `{azure_ai https://m.eastus.models.ai.azure.com/v1 azure_ai_api_key.secret} m`},
		{`model: ollama_chat/l, api_base: "http://10.0.0.7:11434/api/chat"`, `{ollama_chat ollama http://10.0.0.7:11434} l`},
		{`model: ollama/l`, `{ollama ollama http://localhost:11434} l`},
		{`model: hosted_vllm/Q/W, api_base: "http://10.0.0.7/v1"`, `{hosted_vllm vllm http://10.0.0.7/v1} Q/W`},
		{`model: fireworks_ai/l`, `{fireworks_ai https://api.fireworks.ai/inference/v1 fireworks_ai_api_key.secret} accounts/fireworks/models/l`},
		{`model: together_ai/a/b`, `{together_ai https://api.together.xyz/v1 togetherai_api_key.secret} a/b`},
		{`model: anthropic/c, api_base: "https://a.example/v1/messages", api_key: x`, `{anthropic anthropic https://a.example/v1 anthropic.secret} c`},
		{`model: bedrock/c`, `AWS wants signed requests`},
		{`model: vertex_ai/g`, `Vertex AI wants tokens`},
		{`model: gemini-x`, `Vertex AI wants tokens`},
		{`model: hosted_vllm/embed, api_base: "http://10.0.0.7/v1"`, `{hosted_vllm vllm http://10.0.0.7/v1} embed`},
		{`model: openai/gpt-realtime`, `there is no realtime API`},
		{`model: ollama/nomic-embed-text`, `models that are not for chats are passed on`},
		{`model: nobody/m`, `the provider "nobody" is not known`},
		{`model: azure/d, api_base: os.environ/NONE`, `api_base: the variable NONE is not set`},
		{`model: hosted_vllm/m`, `api_base: want a URL`},
		{`model: openai/m, api_base: "https://u:p@a.example/v1"`, `api_base: want a URL without a user`},
		{`model: openai/m, api_base: "http://1.1.1.1.1/v1"`, `api_base: address not allowed`},
		{`model: "openai/*"`, `want one * at the end of model_name`},
	} {
		r, err := LiteLLM("c.yaml", []byte("model_list: [{model_name: m, litellm_params: {"+c.params+"}}]"), environment)
		if err != nil {
			if len(r.Left) != 1 || !strings.HasPrefix(r.Left[0].Why, c.want) {
				t.Errorf("%s: %v, %v, want %s", c.params, err, r.Left, c.want)
			}
			continue
		}
		config := read(t, r.Text)
		p, d := config.Upstream.Providers[0], config.Upstream.Deployments[0]
		text := string(p.Dialect) + " " + p.URL
		if found := secretFile.FindSubmatch(r.Text); found != nil {
			text += " " + string(found[1])
		}
		got := fmt.Sprintf("{%s} %s", strings.Join(strings.Fields(p.Name+" "+text+" "+p.Query["api-version"]), " "), d.Model)
		if got != c.want || d.Names[0] != "m" {
			t.Errorf("%s: %s, want %s", c.params, got, c.want)
		}
	}
}

// TestFaults: what is no configuration of LiteLLM is refused, with its place.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "c.yaml:1:1: want a mapping",
		"a: [":                 "c.yaml:1:",
		"a: &b 1":              "anchors and aliases are not supported",
		"model_list: []":       "c.yaml: no model of model_list has a place",
		"model_list: 5":        "c.yaml: no model of model_list has a place",
		"litellm_settings: {}": "no model of model_list has a place",
		"model_list: [{model_name: a, litellm_params: {model: openai/b, extra_headers: {'a b': c}}}]": "providers[0].headers.a b: is no header field",
	} {
		r, err := LiteLLM("c.yaml", []byte(text), environment)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s\n%s", text, err, want, shown(r))
		}
	}
}

// FuzzLiteLLM: what is made of any file is a configuration, and the same one each time.
func FuzzLiteLLM(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := LiteLLM("c.yaml", []byte(text), environment)
		if err != nil {
			return
		}
		read(t, r.Text)
		if again, err := LiteLLM("c.yaml", []byte(text), environment); err != nil || shown(again) != shown(r) {
			t.Fatalf("%v\n%s\n%s", err, shown(r), shown(again))
		}
	})
}
