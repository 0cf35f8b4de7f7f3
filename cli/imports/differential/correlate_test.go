package differential

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dyno/cli/imports"
	"dyno/cli/imports/draft"
	"dyno/lab/planfile"
)

// A shop is a web application whose secrets and IDs differ from one instance to the next. It refuses requests with those of
// another one.
type shop struct {
	*httptest.Server
	random *rand.Rand

	mu       sync.Mutex        // guards what follows
	forms    map[string]string // hidden values by session
	users    map[string]string // tokens of forms (double submit) by session
	bearers  map[string]bool
	orders   map[string]string // nonces
	requests map[string]int    // by method and path without IDs, with the status
}

// secret returns a text with characters that HTML, URLs and cookies encode.
func (s *shop) secret() string {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(s.random.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}

func newShop(t *testing.T, seed uint64) *shop {
	s := &shop{
		random: rand.New(rand.NewPCG(seed, 1)), forms: map[string]string{}, users: map[string]string{}, //nolint:gosec // no secrets of anybody
		bearers: map[string]bool{}, orders: map[string]string{}, requests: map[string]int{},
	}
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(w http.ResponseWriter, r *http.Request) (status int, body string)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			status, body := answer(w, r)
			s.requests[fmt.Sprintf("%s %d", pattern, status)]++
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body) // the client reports what it misses
		})
	}
	session := func(r *http.Request) string {
		if c, err := r.Cookie("sid"); err == nil {
			return c.Value
		}
		return ""
	}
	isKnown := func(r *http.Request) bool {
		return s.bearers[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	}
	handle("GET /{$}", func(w http.ResponseWriter, _ *http.Request) (int, string) {
		sid, token := fmt.Sprintf("%x", s.random.Uint64()), s.secret()
		s.forms[sid] = token
		w.Header().Set("Content-Type", "text/html")
		w.Header().Add("Set-Cookie", "seen=1; Path=/")
		w.Header().Add("Set-Cookie", "sid="+sid+"; Path=/; HttpOnly")
		return 200, `<!DOCTYPE html><link rel="stylesheet" href="/style.css"><script src="/app.js"></script>
<form method="post" action="/login"><input type="hidden" name="_csrf" value="` + strings.ReplaceAll(html.EscapeString(token), "+", "&#43;") + `">
<input name="user" value="ann42"><input name="password" value="geheim77"></form><script>setTimeout(() => document.forms[0].submit(), 300)</script>`
	})
	for path, kind := range map[string]string{"/style.css": "text/css", "/app.js": "text/javascript"} {
		handle("GET "+path, func(w http.ResponseWriter, _ *http.Request) (int, string) {
			w.Header().Set("Content-Type", kind)
			return 200, "/* nothing */"
		})
	}
	handle("GET /favicon.ico", func(http.ResponseWriter, *http.Request) (int, string) { return 200, "" })
	handle("POST /login", func(w http.ResponseWriter, r *http.Request) (int, string) {
		if token := s.forms[session(r)]; token == "" || r.PostFormValue("_csrf") != token {
			return 403, "wrong form"
		}
		sid, token := fmt.Sprintf("%x", s.random.Uint64()), s.secret()
		s.users[sid] = token
		w.Header().Add("Set-Cookie", "sid="+sid+"; Path=/; HttpOnly")
		w.Header().Add("Set-Cookie", "XSRF-TOKEN="+url.QueryEscape(token)+"; Path=/")
		w.Header().Set("Location", "/home")
		return 303, ""
	})
	handle("GET /home", func(w http.ResponseWriter, r *http.Request) (int, string) {
		if s.users[session(r)] == "" {
			return 401, "no session"
		}
		w.Header().Set("Content-Type", "text/html")
		return 200, `<!DOCTYPE html><img src="` + strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + `/pixel.gif"><script>(async () => {
document.cookie = "theme=dark";
const xsrf = decodeURIComponent(document.cookie.match(/XSRF-TOKEN=([^;]*)/)[1]), json = { "X-XSRF-TOKEN": xsrf, "Content-Type": "application/json" };
const token = await (await fetch("/api/token", { method: "POST", headers: json, body: "{}" })).json();
json.Authorization = "Bearer " + token.access_token;
const order = await (await fetch("/api/orders", { method: "POST", headers: json, body: JSON.stringify({ sku: "A-17", amount: 25 }) })).json();
await new Promise((done) => setTimeout(done, 300));
await fetch("/api/orders/" + order.id + "/pay", { method: "POST", headers: json, body: JSON.stringify({ nonce: order.nonce, amount: 25 }) });
location = "/done?order=" + order.id;
})()</script>`
	})
	handle("POST /api/token", func(w http.ResponseWriter, r *http.Request) (int, string) {
		if token := s.users[session(r)]; token == "" || r.Header.Get("X-Xsrf-Token") != token {
			return 403, "wrong token of the form"
		}
		bearer := strings.ReplaceAll(s.secret(), "=", ".") + s.secret()
		s.bearers[bearer] = true
		w.Header().Set("Content-Type", "application/json")
		return 200, strings.ReplaceAll(fmt.Sprintf(`{"token_type": "Bearer", "access_token": %q, "expires_in": 3600}`, bearer), "/", `\/`)
	})
	handle("POST /api/orders", func(w http.ResponseWriter, r *http.Request) (int, string) {
		if !isKnown(r) {
			return 401, "no token"
		}
		id := fmt.Sprint(1000 + s.random.IntN(9000))
		s.orders[id] = s.secret()
		w.Header().Set("Location", "/api/orders/"+id)
		return 303, ""
	})
	handle("GET /api/orders/{id}", func(w http.ResponseWriter, r *http.Request) (int, string) {
		id := r.PathValue("id")
		if !isKnown(r) || s.orders[id] == "" {
			return 404, "no order"
		}
		w.Header().Set("Content-Type", "application/json")
		return 200, fmt.Sprintf(`{"id": %s, "amount": 25, "state": "open", "nonce": %q}`, id, s.orders[id])
	})
	handle("POST /api/orders/{id}/pay", func(_ http.ResponseWriter, r *http.Request) (int, string) {
		var sent struct {
			Nonce  string
			Amount int
		}
		err := json.NewDecoder(r.Body).Decode(&sent)
		if !isKnown(r) || r.Header.Get("X-Xsrf-Token") != s.users[session(r)] || err != nil || sent.Nonce != s.orders[r.PathValue("id")] || sent.Amount != 25 {
			return 403, "not to be paid"
		}
		return 204, ""
	})
	handle("GET /done", func(_ http.ResponseWriter, r *http.Request) (int, string) {
		theme, err := r.Cookie("theme")
		if err != nil || theme.Value != "dark" || s.orders[r.FormValue("order")] == "" || s.users[session(r)] == "" {
			return 404, "no order"
		}
		return 200, "thank you"
	})
	handle("GET /pixel.gif", func(http.ResponseWriter, *http.Request) (int, string) { return 200, "GIF89a" })
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// failures returns the requests that the shop has refused.
func (s *shop) failures() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range slices.Sorted(maps.Keys(s.requests)) {
		if !strings.Contains("200 204 303", request[len(request)-3:]) {
			all = append(all, request)
		}
	}
	return all
}

// An entry is a request with its response in a recording (HAR 1.2).
type entry struct {
	Started  time.Time     `json:"startedDateTime"`
	Time     float64       `json:"time"`
	Request  entryRequest  `json:"request"`
	Response entryResponse `json:"response"`
}

type entryRequest struct {
	Method  string        `json:"method"`
	URL     string        `json:"url"`
	Headers []draft.Field `json:"headers"`
	Cookies []draft.Field `json:"cookies"`
	Body    *entryBody    `json:"postData,omitempty"`
}

type entryBody struct {
	Kind     string `json:"mimeType"`
	Text     string `json:"text"`
	Encoding string `json:"encoding,omitempty"`
}

type entryResponse struct {
	Status  int           `json:"status"`
	Headers []draft.Field `json:"headers"`
	Content entryBody     `json:"content"`
}

// recorderTransport records what a client of package net/http does.
type recorderTransport struct{ entries []entry }

func (r *recorderTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	e := entry{Started: time.Now(), Request: entryRequest{Method: request.Method, URL: request.URL.String(), Headers: fieldsOf(request.Header)}}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		e.Request.Body = &entryBody{Kind: request.Header.Get("Content-Type"), Text: string(body)}
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	e.Response = entryResponse{response.StatusCode, fieldsOf(response.Header), entryBody{response.Header.Get("Content-Type"), base64.StdEncoding.EncodeToString(body), "base64"}}
	e.Time = float64(time.Since(e.Started)) / 1e6
	r.entries = append(r.entries, e)
	return response, nil
}

func fieldsOf(header http.Header) (all []draft.Field) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			all = append(all, draft.Field{Name: name, Value: value})
		}
	}
	return all
}

// visit does what the shop's pages do.
func visit(t *testing.T, s *shop) []entry {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	recorder := &recorderTransport{}
	client := &http.Client{Jar: jar, Transport: recorder}
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	send := func(method, path, kind, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if request.Header = header.Clone(); kind != "" {
			request.Header.Set("Content-Type", kind)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }() // it is in memory
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode >= 400 {
			t.Fatalf("%s %s: %s, %v", method, path, response.Status, err)
		}
		return string(text)
	}
	form := regexp.MustCompile(`name="_csrf" value="([^"]*)"`).FindStringSubmatch(send("GET", "/", "", ""))
	send("GET", "/app.js", "", "")
	send("POST", "/login", "application/x-www-form-urlencoded", url.Values{"_csrf": {html.UnescapeString(form[1])}, "user": {"ann42"}}.Encode())
	for _, c := range jar.Cookies(at) {
		if c.Name == "XSRF-TOKEN" {
			plain, _ := url.QueryUnescape(c.Value)
			header.Set("X-XSRF-TOKEN", plain)
		}
	}
	jar.SetCookies(at, []*http.Cookie{{Name: "theme", Value: "dark"}})
	var token struct {
		Text string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(send("POST", "/api/token", "application/json", "{}")), &token); err != nil {
		t.Fatal(err)
	}
	header.Set("Authorization", "Bearer "+token.Text)
	var order struct {
		ID    int
		Nonce string
	}
	if err := json.Unmarshal([]byte(send("POST", "/api/orders", "application/json", `{"sku": "A-17", "amount": 25}`)), &order); err != nil {
		t.Fatal(err)
	}
	send("POST", fmt.Sprintf("/api/orders/%d/pay", order.ID), "application/json", fmt.Sprintf(`{"nonce": %q, "amount": 25}`, order.Nonce))
	send("GET", fmt.Sprintf("/done?order=%d", order.ID), "", "")
	return recorder.entries
}

// A browser is a Chromium with a page. It is asked and answers by its DevTools protocol.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	session string
	number  int
	events  []message
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
	To     string          `json:"sessionId,omitempty"`
}

// startBrowser starts Chromium, whose pages may be asked over a pipe.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("no chromium: scripts/setup.sh installs it")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
	c := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	// The browser has children that write to its folder. They end with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.ExtraFiles, c.WaitDelay = []*os.File{theirIn, theirOut}, 10*time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // killed
		_, _ = in.Close(), out.Close()
	})
	return &browser{t: t, in: in, out: bufio.NewReader(out)}
}

// ask sends a command, and returns its result.
func (b *browser) ask(method string, params, result any) (refused bool) {
	b.t.Helper()
	b.number++
	text, err := json.Marshal(map[string]any{"id": b.number, "method": method, "params": params})
	if err != nil {
		b.t.Fatal(err)
	}
	if b.session != "" {
		text = append(text[:len(text)-1], fmt.Sprintf(`,"sessionId":%q}`, b.session)...)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.next()
		if m.ID != b.number {
			b.events = append(b.events, m)
			continue
		}
		if m.Error != nil {
			return true
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return false
	}
}

func (b *browser) next() (m message) {
	b.t.Helper()
	text, err := b.out.ReadBytes(0)
	if err == nil {
		err = json.Unmarshal(text[:len(text)-1], &m)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// browse has Chromium visit the shop, and records what it does.
func browse(t *testing.T, s *shop) []entry {
	b := startBrowser(t)
	var target struct{ TargetID string }
	b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.ask("Network.enable", map[string]any{}, nil)
	b.ask("Page.enable", map[string]any{}, nil)
	b.ask("Page.navigate", map[string]any{"url": s.URL}, nil)
	r := recording{chain: map[string][]*browserEntry{}, sent: map[string][][]draft.Field{}, received: map[string][]entryResponse{}}
	// The last request ends it. Of others, such as icons of pages that were left, the browser may never say what became.
	for last := ""; last == "" || len(r.sent[last]) == 0; {
		var m message
		if len(b.events) > 0 {
			m, b.events = b.events[0], b.events[1:]
		} else {
			m = b.next()
		}
		if id := r.take(t, m); id != "" {
			var body struct {
				Body          string
				Base64Encoded bool
			}
			e := r.chain[id][len(r.chain[id])-1]
			if strings.Contains(e.Request.URL, "/done?") {
				last = id
			}
			if !b.ask("Network.getResponseBody", map[string]any{"requestId": id}, &body) {
				if e.Response.Content.Text = body.Body; body.Base64Encoded {
					e.Response.Content.Encoding = "base64"
				}
			}
		}
	}
	return r.list()
}

// A recording makes entries of what the browser says of its network.
type recording struct {
	all      []*browserEntry
	chain    map[string][]*browserEntry // by request: redirects have the number of the first one
	sent     map[string][][]draft.Field // header fields on the network, of which the browser may say first
	received map[string][]entryResponse
}

type browserEntry struct {
	entry
	began float64
}

// take notes an event, and returns the number of a request whose body can be had.
func (r *recording) take(t *testing.T, m message) (complete string) {
	var p struct {
		RequestID string
		Timestamp float64
		WallTime  float64
		Request   struct {
			Method, URL, PostData string
			Headers               map[string]string
		}
		RedirectResponse *struct{ MIMEType string }
		Response         struct {
			Status   int
			MIMEType string
		}
		Headers    map[string]string
		StatusCode int
	}
	if !strings.HasPrefix(m.Method, "Network.") {
		return ""
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		t.Fatal(err)
	}
	chain := r.chain[p.RequestID]
	fields := func() (all []draft.Field) {
		for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
			all = append(all, draft.Field{Name: name, Value: p.Headers[name]}) // several values are separated by line breaks
		}
		return all
	}
	switch m.Method {
	case "Network.requestWillBeSent":
		e := &browserEntry{began: p.Timestamp}
		e.Started = time.UnixMicro(int64(p.WallTime * 1e6))
		e.Request.Method, e.Request.URL = p.Request.Method, p.Request.URL
		if p.Request.PostData != "" {
			e.Request.Body = &entryBody{Kind: p.Request.Headers["Content-Type"], Text: p.Request.PostData}
		}
		if len(chain) > 0 {
			last := chain[len(chain)-1]
			last.Time = (p.Timestamp - last.began) * 1000
		}
		r.all, r.chain[p.RequestID] = append(r.all, e), append(chain, e)
	case "Network.requestWillBeSentExtraInfo":
		r.sent[p.RequestID] = append(r.sent[p.RequestID], fields())
	case "Network.responseReceivedExtraInfo":
		r.received[p.RequestID] = append(r.received[p.RequestID], entryResponse{Status: p.StatusCode, Headers: fields()})
	case "Network.responseReceived":
		chain[len(chain)-1].Response.Status, chain[len(chain)-1].Response.Content.Kind = p.Response.Status, p.Response.MIMEType
	case "Network.loadingFinished", "Network.loadingFailed":
		chain[len(chain)-1].Time = (p.Timestamp - chain[len(chain)-1].began) * 1000
		return p.RequestID
	}
	return ""
}

func (r *recording) list() (all []entry) {
	for id, chain := range r.chain {
		for i, e := range chain {
			if i < len(r.sent[id]) {
				e.Request.Headers = r.sent[id][i]
			}
			if i < len(r.received[id]) {
				e.Response.Status, e.Response.Headers = r.received[id][i].Status, r.received[id][i].Headers
			}
		}
	}
	for _, e := range r.all {
		all = append(all, e.entry)
	}
	return all
}

// asHAR writes a recording as browsers do.
func asHAR(t *testing.T, entries []entry) map[string]string {
	text, err := json.Marshal(map[string]any{"log": map[string]any{"version": "1.2", "creator": map[string]string{"name": "test"}, "entries": entries}})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"in": string(text)}
}

// asJMeter writes a recording as JMeter's recorder does: a plan, which has no cookies, and the samples of a listener.
func asJMeter(t *testing.T, entries []entry) map[string]string {
	var plan, samples strings.Builder
	next := ""
	for i, e := range entries {
		at, err := url.Parse(e.Request.URL)
		if err != nil {
			t.Fatal(err)
		}
		label := fmt.Sprintf("%s-%d", at.Path, i+1)
		managed, sent, cookies, received, location := "", "", "", fmt.Sprintf("HTTP/1.1 %d\n", e.Response.Status), ""
		for _, h := range e.Request.Headers {
			if strings.EqualFold(h.Name, "Cookie") {
				cookies = h.Value
			}
			if !strings.HasPrefix(h.Name, ":") && !slices.Contains([]string{"cookie", "content-length", "host", "connection"}, strings.ToLower(h.Name)) {
				managed += `<elementProp name="" elementType="Header">` + prop("Header.name", h.Name) + prop("Header.value", h.Value) + "</elementProp>"
				sent += h.Name + ": " + h.Value + "\n"
			}
		}
		for _, h := range e.Response.Headers {
			for value := range strings.SplitSeq(h.Value, "\n") {
				received += h.Name + ": " + value + "\n"
			}
			if strings.EqualFold(h.Name, "Location") {
				location = at.ResolveReference(&url.URL{Path: h.Value}).String()
			}
		}
		properties := prop("HTTPSampler.protocol", at.Scheme) + prop("HTTPSampler.domain", at.Hostname()) + prop("HTTPSampler.port", at.Port()) + prop("HTTPSampler.path", at.RequestURI()) +
			prop("HTTPSampler.method", e.Request.Method) + prop("HTTPSampler.contentEncoding", "UTF-8") + `<boolProp name="HTTPSampler.follow_redirects">true</boolProp>`
		body := ""
		if e.Request.Body != nil {
			body = e.Request.Body.Text
		}
		argument := func(name, value, isEncoded string) {
			properties += `<elementProp name="" elementType="HTTPArgument"><boolProp name="HTTPArgument.always_encode">` + isEncoded + "</boolProp>" + prop("Argument.name", name) + prop("Argument.value", value) + prop("Argument.metadata", "=") + "</elementProp>\n"
		}
		properties += `<elementProp name="HTTPsampler.Arguments" elementType="Arguments"><collectionProp name="Arguments.arguments">` + "\n"
		if form, err := url.ParseQuery(body); err == nil && strings.HasPrefix(body, "_csrf=") {
			for _, name := range slices.Sorted(maps.Keys(form)) {
				argument(name, form.Get(name), "true")
			}
			properties += "</collectionProp></elementProp>\n"
		} else {
			if body != "" {
				argument("", body, "false")
			}
			properties += "</collectionProp></elementProp>\n" + fmt.Sprintf(`<boolProp name="HTTPSampler.postBodyRaw">%t</boolProp>`, body != "")
		}
		isRedirect := e.Request.URL == next
		if next = location; isRedirect {
			properties += prop("TestPlan.comments", "Detected a redirect from the previous sample")
		}
		sampler := elementOf("HTTPSamplerProxy", "HttpTestSampleGui", label, properties, elementOf("HeaderManager", "HeaderPanel", "HTTP Header Manager", `<collectionProp name="HeaderManager.headers">`+managed+"</collectionProp>", ""))
		if isRedirect {
			sampler = strings.Replace(sampler, `enabled="true"`, `enabled="false"`, 1)
		}
		plan.WriteString(sampler)
		content := []byte(e.Response.Content.Text)
		if e.Response.Content.Encoding == "base64" {
			content, err = base64.StdEncoding.DecodeString(e.Response.Content.Text)
			if err != nil {
				t.Fatal(err)
			}
		}
		if e.Response.Content.Kind == "" { // for which JMeter takes content to be binary
			content = []byte("Non-TEXT response data, cannot record: ()")
		}
		text := func(name, text string) string {
			return "  <" + name + ` class="java.lang.String">` + inXML.Replace(text) + "</" + name + ">\n"
		}
		fmt.Fprintf(&samples, "<httpSample t=\"%d\" ts=\"%d\" s=\"true\" lb=\"%s\" rc=\"%d\" tn=\"\" dt=\"text\" de=\"\">\n%s%s%s%s%s%s%s  <java.net.URL>%s</java.net.URL>\n</httpSample>\n",
			int(e.Time), e.Started.UnixMilli(), inXML.Replace(label), e.Response.Status, text("responseHeader", received), text("requestHeader", sent), text("responseData", string(content)),
			text("responseFile", ""), text("cookies", cookies), text("method", e.Request.Method), text("queryString", body), inXML.Replace(e.Request.URL))
	}
	group := elementOf("CookieManager", "CookiePanel", "cookies", `<collectionProp name="CookieManager.cookies"/>`, "") + elementOf("RecordingController", "RecordController", "recording", "", plan.String())
	recorder := elementOf("ProxyControl", "ProxyControlGui", "recorder", "", elementOf("ResultCollector", "ViewResultsFullVisualizer", "tree", prop("filename", "/home/ann/recorded.xml"), ""))
	return map[string]string{
		"in": "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\"><hashTree>\n" +
			elementOf("TestPlan", "TestPlanGui", "plan", "", elementOf("ThreadGroup", "ThreadGroupGui", "users", prop("ThreadGroup.num_threads", "1"), group)+recorder) + "</hashTree></jmeterTestPlan>\n",
		"recorded.xml": "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testResults version=\"1.2\">\n" + samples.String() + "</testResults>\n",
	}
}

// replay imports a recording, and runs it once against a shop.
func replay(t *testing.T, format string, files map[string]string, s *shop, change func(*draft.Source)) (failures map[string]uint64, made *draft.Result) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source := draft.Source{Format: format, File: "in", Out: "out.yaml"}
	change(&source)
	made, err := imports.Read(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range made.Files {
		if err := os.WriteFile(f.Name, f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := planfile.ParseWithFiles("out.yaml", made.Text, planfile.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, made.Text)
	}
	v := once(e)[0]
	v.Target.Address = s.Listener.Addr().String()
	return run(t, v), made
}

// A recording of one server succeeds at another one with other secrets, and fails there without correlations.
func TestCorrelate(t *testing.T) {
	for name, record := range map[string]func(t *testing.T, s *shop) []entry{"client": visit, "Chromium": browse} {
		t.Run(name, func(t *testing.T) {
			entries := record(t, newShop(t, 1))
			for format, files := range map[string]map[string]string{"har": asHAR(t, entries), "jmeter": asJMeter(t, entries)} {
				for seed := range uint64(5) {
					s := newShop(t, 2+seed)
					failures, made := replay(t, format, files, s, func(source *draft.Source) { source.NoStatic = true })
					failed := s.failures()
					if len(failed) > 0 || len(failures) > 0 || s.requests["GET /done 200"] != 1 || s.requests["GET /app.js 200"] > 0 {
						t.Errorf("%s: %v, %v\n%v\n%s\n%v", format, failed, failures, s.requests, made.Text, made.Items)
					}
				}
				s := newShop(t, 99)
				if _, made := replay(t, format, files, s, func(source *draft.Source) { source.NoCorrelate = true }); len(s.failures()) < 3 {
					t.Errorf("%s: without correlations it fails at %v only\n%s", format, s.failures(), made.Text)
				}
			}
		})
	}
}
