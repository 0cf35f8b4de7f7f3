package bot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
		for b.places.Taken() != places {
			runtime.Gosched()
		}
	}
	leave()
	left(1)
	if e := b.ledger("key", 1)[0]; e.Outcome != outcomeAborted || e.Completion == 0 {
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

// TestHTTP2Silence: a stream of which nothing comes for longer than a write may take goes on.
func TestHTTP2Silence(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"dyno-1","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/bot/chat":         `{"bot_id":"b","user_id":"u","query":"hi","stream":true}`,
	} {
		t.Run(strings.TrimPrefix(path, "/v1/"), func(t *testing.T) {
			model := newStepper(t)
			b := serving(t, newLLM(t, nil), func(c *Config) { model.at(c); c.WriteTimeout = 500 * ms })
			b.overHTTP2()
			go func() {
				model.words <- "word"
				<-time.After(1200 * ms)
				model.words <- "word"
				close(model.words)
			}()
			if status, text, _ := b.ask(path, "", body); status != http.StatusOK || strings.Count(text, "word") < 2 {
				t.Errorf("%s: %d %s", path, status, text)
			}
			if e := b.ledger("local", 1)[0]; e.Outcome != outcomeOK {
				t.Errorf("%s: %+v", path, e)
			}
		})
	}
}

// TestNoBody: what has no body to be read is refused with one: over HTTP/2 it would keep others' from coming.
func TestNoBody(t *testing.T) {
	b := serving(t, newLLM(t, nil), nil)
	b.overHTTP2()
	for _, c := range []struct{ method, path string }{{"GET", "/v1/models"}, {"GET", "/v1/usage"}, {"GET", "/v1/bot/chat/x/events"}, {"DELETE", "/v1/bot/chat/x"}} {
		r, err := http.NewRequest(c.method, b.url+c.path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if status, text, _ := b.whole(resp); status != http.StatusBadRequest || !strings.Contains(text, "body: "+c.method) {
			t.Errorf("%+v: %d %s", c, status, text)
		}
	}
}

// TestHTTP2Stuck: a client whose connection accepts nothing loses its place, whatever its flow control permits.
func TestHTTP2Stuck(t *testing.T) {
	var asked atomic.Int64
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		event := fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", strings.Repeat("x", 10_000))
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, event)
		}
	}, func(c *Config) { c.WriteTimeout = 500 * ms })
	c, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	const body = `{"model":"dyno-1","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", "/v1/chat/completions"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	out := http2.NewFramer(c, nil)
	_, err = io.WriteString(c, http2.ClientPreface)
	steps := []error{err, out.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}), out.WriteWindowUpdate(0, 1<<30)}
	const streams = 8
	for i := range uint32(streams) {
		steps = append(steps, out.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head.Bytes(), EndHeaders: true}), out.WriteData(2*i+1, true, []byte(body)))
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	for asked.Load() < streams { // until go test gives up
		runtime.Gosched()
	}
	for b.places.Taken() > 0 {
		<-time.After(10 * ms)
	}
	for _, e := range b.ledger("local", streams) {
		if e.Outcome != outcomeAborted {
			t.Errorf("%+v", e)
		}
	}
}
