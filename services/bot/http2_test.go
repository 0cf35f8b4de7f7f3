package bot

import (
	"context"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"dyno/services/bot/openai"
)

// overHTTP2 has the bed's client speak HTTP/2 without TLS, over one connection.
func (b *bed) overHTTP2() {
	t := &http.Transport{Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	b.t.Cleanup(t.CloseIdleConnections)
	b.client = &http.Client{Transport: t}
}

// TestHTTP2: streams that share a connection are answered, and left, each by itself; what is refused before its body is
// read, or has too large a one, is refused as over HTTP/1.1.
func TestHTTP2(t *testing.T) {
	const path, question = "/v1/chat/completions", `{"model":"dyno-1","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	model := newStepper(t)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		model.at(c)
		c.Keys, c.MaxBodyBytes = []Key{keyOf("key")}, 100_000
	})
	b.overHTTP2()
	stream := func() (*http.Response, context.CancelFunc) {
		t.Helper()
		ctx, leave := context.WithCancel(t.Context())
		type answer struct {
			*http.Response
			error
		}
		came := make(chan answer, 1)
		go func() {
			resp, err := b.post(ctx, path, secretOf("key"), question)
			came <- answer{resp, err}
		}()
		<-model.asked
		var a answer
		for a.Response == nil && a.error == nil {
			select {
			case model.words <- "word": // to one of those that are under way
			case a = <-came:
			}
		}
		if a.error != nil || a.ProtoMajor != 2 || a.StatusCode != http.StatusOK {
			t.Fatalf("%+v", a)
		}
		return a.Response, leave
	}
	one, leave := stream()
	defer one.Body.Close()
	two, stay := stream()
	defer two.Body.Close()
	defer stay()
	left := func(places int) { // until go test gives up
		for b.places.taken() != places {
			runtime.Gosched()
		}
	}
	leave()
	left(1)
	if e := b.ledger("key", 1)[0]; e.Outcome != string(outcomeAborted) || e.Completion == 0 {
		t.Errorf("who has left: %+v", e)
	}
	close(model.words)
	said := ""
	in := openai.NewReader(two.Body)
	for {
		f, err := in.Next()
		if err != nil {
			break
		}
		said += string(f.Data) + "\n"
	}
	if !strings.Contains(said, `"word"`) || !strings.HasSuffix(said, "[DONE]\n") {
		t.Errorf("who has stayed: %s", said)
	}
	left(0)
	large := strings.Replace(question, "hi", strings.Repeat("x", 1<<20), 1)
	if status, _, _ := b.ask(path, secretOf("key"), large); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", status)
	}
	if status, _, _ := b.ask(path, "nobody", large); status != http.StatusUnauthorized {
		t.Errorf("nobody's: %d", status)
	}
	if e := b.ledger("key", 2); len(e) != 2 {
		t.Errorf("%+v", e)
	}
}

// TestCurlHTTP2: a client that others wrote speaks HTTP/2, unless that is switched off.
func TestCurlHTTP2(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl: scripts/setup.sh installs it")
	}
	model := newRecorder(t)
	for _, on := range []bool{true, false} {
		b := serving(t, newLLM(t, nil), func(c *Config) { model.at(c); c.HTTP2 = on })
		for want, body := range map[string]string{
			`"fine"`: `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`,
			`[DONE]`: `{"model":"dyno-1","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		} {
			for flag, version := range map[string]string{"--http2-prior-knowledge": "2", "--http1.1": "1.1"} {
				out, err := exec.CommandContext(t.Context(), "curl", "-sS", flag, "-w", "%{http_version} %{http_code}", "-H", "Content-Type: application/json", "-d", body, b.url+"/v1/chat/completions").CombinedOutput() //nolint:gosec // a gateway of this test
				if !on && version == "2" {
					if err == nil {
						t.Errorf("spoken although it is off: %s", out)
					}
					continue
				}
				if err != nil || !strings.Contains(string(out), want) || !strings.HasSuffix(string(out), version+" 200") {
					t.Errorf("%s: %v: %s", flag, err, out)
				}
			}
		}
	}
}
