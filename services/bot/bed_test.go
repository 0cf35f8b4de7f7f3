package bot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/internal/leak"
	"dyno/services/bot/openai"
	"dyno/services/bot/store/storetest"
	"dyno/services/bot/upstream"
	"dyno/services/llm"
)

// servers has tests that choose no stores run with Redis and PostgreSQL in place of memory.
var servers = flag.Bool("servers", false, "tests use Redis and PostgreSQL where they choose no stores")

// TestMain ends the servers after the tests, and before it looks for goroutines.
func TestMain(m *testing.M) { os.Exit(leak.Checked(storetest.Ending{Tests: m})) }

// newLLM runs a model server until the test ends.
func newLLM(t testing.TB, change func(*llm.Config)) *llm.Server {
	t.Helper()
	c := llm.Defaults()
	c.Listen, c.DrainTimeout, c.Tokens = "127.0.0.1:0", 0, 4
	if change != nil {
		change(&c)
	}
	s, err := llm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	run(t, s.Serve)
	return s
}

// run runs a service until the test ends.
func run(t testing.TB, serve func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := serve(ctx); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// A bed is a gateway that serves.
type bed struct {
	*Gateway
	t      testing.TB
	client *http.Client
	url    string
}

// modelOf is an upstream at a model server.
func modelOf(addr net.Addr) upstream.Upstream {
	u := upstream.DefaultUpstream()
	u.Name, u.URL, u.Models = "up", "http://"+addr.String()+"/v1", map[string]string{"dyno-1": "dyno-1"}
	u.Price = upstream.Prices{{Prompt: 100, Completion: 1000}}
	return u
}

// serving runs a gateway in front of a model server until the test ends.
func serving(t testing.TB, m *llm.Server, change func(*Config)) *bed {
	t.Helper()
	c := Defaults()
	c.Listen, c.AllowNetworks, c.DrainTimeout = "127.0.0.1:0", []string{"127.0.0.0/8"}, 5*time.Second
	c.Upstream.Upstreams = []upstream.Upstream{modelOf(m.Addr())}
	c.StoreTimeout, c.SessionWait = time.Minute, 2*time.Minute // the machine may be busy
	if *servers {
		onServers(t)(&c)
	}
	if change != nil {
		change(&c)
	}
	g, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	b := &bed{Gateway: g, t: t, client: &http.Client{Transport: transport}, url: "http://" + g.Addr().String()}
	run(t, g.Serve)
	t.Cleanup(transport.CloseIdleConnections)
	return b
}

// until waits for something that nobody tells. Only a hang takes as long as a minute.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("in vain: ", what)
		}
	}
}

// direct asks without a network, so that it is known when the gateway knows that the client has gone. Left is closed when
// the answer has ended.
func (b *bed) direct(ctx context.Context, w http.ResponseWriter, path, body string) (left chan struct{}) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Host = "localhost"
	left = make(chan struct{})
	go func() {
		defer close(left)
		b.Handler().ServeHTTP(w, r)
	}()
	return left
}

// keyOf is an API key whose secret is its ID, many times.
func keyOf(id string, limits ...Limit) Key {
	sum := sha256.Sum256([]byte(secretOf(id)))
	return Key{ID: id, SHA256: hex.EncodeToString(sum[:]), Limits: limits}
}

func secretOf(id string) string { return strings.Repeat(id, 10) }

// post posts JSON; who is a bearer's text.
func (b *bed) post(ctx context.Context, path, who, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	return b.client.Do(r)
}

// ask posts JSON and reads the whole answer.
func (b *bed) ask(path, who, body string) (int, string, http.Header) {
	b.t.Helper()
	resp, err := b.post(context.Background(), path, who, body)
	if err != nil {
		b.t.Error(err)
		return 0, "", nil
	}
	return b.whole(resp)
}

// whole reads the whole answer.
func (b *bed) whole(resp *http.Response) (int, string, http.Header) {
	b.t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Error(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// headed asks with header fields in place of a bearer's text.
func (b *bed) headed(path, body string, header map[string]string) (int, string, http.Header) {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.whole(resp)
}

func (b *bed) get(path, who string) (int, string) {
	b.t.Helper()
	return b.request(http.MethodGet, path, who)
}

// request asks without a body, and reads the whole answer.
func (b *bed) request(method, path, who string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequest(method, b.url+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	status, text, _ := b.whole(resp)
	return status, text
}

// login returns a user's token.
func (b *bed) login(key, user string) string {
	b.t.Helper()
	status, text, _ := b.ask("/v1/login", secretOf(key), fmt.Sprintf(`{"user_id":%q}`, user))
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		b.t.Fatalf("%d %s", status, text)
	}
	return answer.Token
}

// say is one turn of a conversation.
func (b *bed) say(who, history, query string) (chatReply, int, string) {
	b.t.Helper()
	body, err := json.Marshal(map[string]string{"bot_id": "b", "user_id": "u1", "history_id": history, "query": query})
	if err != nil {
		b.t.Fatal(err)
	}
	status, text, _ := b.ask("/v1/bot/chat", who, string(body))
	var r chatReply
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			b.t.Fatalf("%v: %s", err, text)
		}
	}
	return r, status, text
}

// A frame is an event that a client has got.
type frame struct{ name, data string }

// frames reads a stream to its end.
func frames(t testing.TB, r io.Reader) (list []frame) {
	t.Helper()
	for in := openai.NewReader(r); ; {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Error(err)
			return list
		}
		list = append(list, frame{string(f.Name), string(f.Data)})
	}
}

// recorder stands in for a model server: it keeps what it is asked, and says what it is
// told to.
type recorder struct {
	*httptest.Server
	text  func(asked string) string // content of the answer
	mu    sync.Mutex                // guards what follows
	asked []string
}

func newRecorder(t testing.TB) *recorder {
	r := &recorder{text: func(string) string { return "fine" }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.asked = append(r.asked, string(body))
		r.mu.Unlock()
		text := r.text(string(body)) // at once for all who ask at once
		if !strings.Contains(string(body), `"stream":true`) {
			fmt.Fprintf(w, `{"choices":[{"message":{"content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`, text)
			return
		}
		for i := range len(text) { // byte by byte: ASCII only
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text[i:i+1])
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(r.Close)
	return r
}

// last is what was asked last.
func (r *recorder) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[len(r.asked)-1]
}

// at is an upstream at the recorder.
func (r *recorder) at(c *Config) {
	c.Upstream.Upstreams = []upstream.Upstream{modelOf(r.Listener.Addr())}
}

// onServers configures a gateway to use Redis and PostgreSQL. They are emptied for the first gateway of a test, or of
// a subtest with its own.
func onServers(t testing.TB) func(*Config) {
	address, url := storetest.SharedRedis.Use(t), storetest.SharedPostgres.Use(t)
	name := strings.Split(t.Name(), "/")
	if test := strings.Join(name[:min(len(name), 2)], "/"); emptied != test {
		emptied = test
		t.Cleanup(func() { emptied = "" }) // it may run again
		if err := errors.Join(storetest.Clear(t.Context(), url), storetest.ClearRedis(t.Context(), address)); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *Config) { c.Archive, c.Postgres, c.Redis = ArchivePostgres, url, address }
}

// emptied tells for which test servers were emptied. Tests run one by one.
var emptied string

// embedded returns how a gateway is set to use no servers.
func embedded(kind Archive, file string) func(*Config) {
	return func(c *Config) { c.Archive, c.File, c.Postgres, c.Redis = kind, file, "", "" }
}

// eachStore runs a test with every kind of stores.
func eachStore(t *testing.T, test func(t *testing.T, set func(*Config))) {
	t.Run("memory", func(t *testing.T) { test(t, embedded(ArchiveMemory, "")) })
	t.Run("sqlite", func(t *testing.T) { test(t, embedded(ArchiveSQLite, filepath.Join(t.TempDir(), "db"))) })
	t.Run("servers", func(t *testing.T) { test(t, onServers(t)) })
}
