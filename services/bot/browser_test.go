package bot

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestBrowser: OpenAI's library asks from another site's page in a real browser, whole and streamed, and reads header
// fields of the upstream. So do pages that send a key in another library's field. A page that is not allowed gets nothing.
func TestBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium")
	}
	const library = "testdata/clients/node_modules/openai"
	if _, err := os.Stat(library); err != nil {
		t.Skip("no package openai: scripts/clients.sh installs it")
	}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r1")
		w.Header().Set("X-Ratelimit-Remaining-Requests", "3")
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, delta := range []string{`{"role":"assistant","content":"strea"},"finish_reason":null`, `{"content":"med"},"finish_reason":"stop"`} {
			_, _ = fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer model.Close()
	for name, c := range map[string]struct {
		allowed bool
		want    string
	}{
		"allowed":     {true, "whole r1 3 streamed 401 null 200 200 200"},
		"not allowed": {false, "Connection error."},
	} {
		t.Run(name, func(t *testing.T) {
			var page string
			said := make(chan string, 1)
			mux := http.NewServeMux()
			mux.Handle("GET /openai/", http.StripPrefix("/openai/", http.FileServer(http.Dir(library))))
			mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
			mux.HandleFunc("POST /said", func(_ http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				said <- string(text)
			})
			site := httptest.NewUnstartedServer(mux)
			defer site.Close()
			origin := "http://" + site.Listener.Addr().String()
			b := serving(t, newLLM(t, nil), func(config *Config) {
				config.Keys, config.AllowOrigins = []Key{keyOf("key")}, []string{"https://other.example"}
				if c.allowed {
					config.AllowOrigins = []string{origin}
				}
				config.Upstream.Upstreams[0].URL = model.URL + "/v1"
			})
			page = fmt.Sprintf(`<!doctype html><script type="module">
import OpenAI from "/openai/index.mjs";
const baseURL = %q, apiKey = %q, ask = { model: "dyno-1", messages: [{ role: "user", content: "hi" }] }, said = [];
try {
  const client = new OpenAI({ baseURL, apiKey, dangerouslyAllowBrowser: true, maxRetries: 0 });
  const { data, response } = await client.chat.completions.create(ask).withResponse();
  said.push(data.choices[0].message.content, response.headers.get("x-request-id"), response.headers.get("x-ratelimit-remaining-requests"));
  let text = "";
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) text += chunk.choices[0].delta.content ?? "";
  said.push(text);
  await client.withOptions({ apiKey: "unknown" }).models.list().catch((e) => said.push(e.status, e.headers.get("retry-after")));
  for (const field of ["x-api-key", "api-key", "x-goog-api-key"])
    said.push((await fetch(baseURL + "/models", { headers: { [field]: apiKey, "x-dyno-session": "s" } })).status);
} catch (e) { said.push(e.message); }
await fetch("/said", { method: "POST", body: said.map(String).join(" ") });
</script>`, b.url+"/v1", secretOf("key"))
			site.Start() // clients of a server that was at this port before get no page
			folder, err := os.MkdirTemp("", "browser")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", //nolint:gosec // the machine's own browser
				"--user-data-dir="+folder, "--remote-debugging-port=0", origin)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its helpers, which still write for a moment
				_ = cmd.Wait()
				until(t, "the browser's folder is removed", func() bool { return os.RemoveAll(folder) == nil })
			}()
			if got := <-said; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
