package hub

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestConformance tests every way of delivering against the Mercure protocol's rules for
// publishing and subscribing.
func TestConformance(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			b := serving(t, func(c *Config) {
				mode.set(c)
				c.PublisherKey, c.SubscriberKey = hs256(), hs256()
			})
			all := "Authorization: Bearer " + grant(t, "publish", "*")

			exact := b.subscribe("topic=https://example.com/a")
			other := b.subscribe("topic=https://example.com/other&topic=never")
			every := b.subscribe("topic=*")
			template := b.subscribe("topic=" + url.QueryEscape("https://example.com/{name}"))
			header := b.subscribe("topic=*", "Authorization: Bearer "+grant(t, "subscribe", "https://example.com/{x}"))
			cookie := b.subscribe("topic=*", "Cookie: mercureAuthorization="+grant(t, "subscribe", "*"))
			query := b.subscribe("topic=*&authorization=" + grant(t, "subscribe", "nothing", "https://example.com/alt"))
			for _, s := range []*stream{exact, other, every, template, header, cookie, query} {
				if s.resp.StatusCode != http.StatusOK || s.resp.Header.Get("Content-Type") != "text/event-stream" || s.resp.Header.Get("Cache-Control") != "no-cache" {
					t.Fatalf("answer: %v %v", s.resp.Status, s.resp.Header)
				}
			}

			first := b.form(url.Values{"topic": {"https://example.com/a"}, "data": {"one"}}, all)
			if !strings.HasPrefix(first, "dyno:") || !strings.HasSuffix(first, "-1") {
				t.Errorf("ID %q", first)
			}
			id := b.form(url.Values{
				"topic": {"https://example.com/b", "https://example.com/alt"}, "data": {"two\nlines"},
				"private": {"on"}, "id": {"urn:mine"}, "type": {"kind"}, "retry": {"1500"},
			}, all)
			if id != "urn:mine" {
				t.Errorf("ID %q, want the publisher's", id)
			}
			b.form(url.Values{"topic": {"https://example.com/a"}}, all) // data is optional
			b.form(url.Values{"topic": {"x", "https://example.com/other"}, "data": {"end"}}, all)

			one := event{ID: first, Data: "one"}
			two := event{ID: "urn:mine", Type: "kind", Data: "two\nlines", Retry: "1500"}
			three := event{}
			end := event{Data: "end"}
			for name, c := range map[string]struct {
				s    *stream
				want []event
			}{
				"exact":              {exact, []event{one, three}},
				"alternate":          {other, []event{end}},
				"all":                {every, []event{one, three, end}},
				"template":           {template, []event{one, three, end}},
				"by header":          {header, []event{one, two, three, end}},
				"by cookie":          {cookie, []event{one, two, three, end}},
				"by query":           {query, []event{one, two, three, end}},
				"history":            {b.subscribe("topic=https://example.com/a&lastEventID=earliest"), []event{one, three}},
				"history, by header": {b.subscribe("topic=*", "Last-Event-ID: "+first), []event{three, end}},
				"history, private": {b.subscribe("topic=*&Last-Event-ID="+url.QueryEscape(first), "Authorization: Bearer "+grant(t, "subscribe", "*")),
					[]event{two, three, end}},
				"history, given ID": {b.subscribe("topic=*&lastEventID=urn:mine"), []event{three, end}},
				"unknown ID":        {b.subscribe("topic=*&lastEventID=foreign"), []event{{Type: "gap", Data: `{"from":null,"to":null,"missed":null}`}, one, three, end}},
			} {
				t.Run(name, func(t *testing.T) {
					c.s.t = t
					for _, want := range c.want {
						c.s.want(want)
					}
				})
			}
			for last, want := range map[string]string{"": "", first: first, "foreign": "earliest", "earliest": "earliest"} {
				s := b.subscribe("topic=*&lastEventID=" + url.QueryEscape(last))
				if got := s.resp.Header.Get("Last-Event-ID"); got != want {
					t.Errorf("Last-Event-ID %q is answered with %q, want %q", last, got, want)
				}
			}
		})
	}
}

// overHTTP2 subscribes by HTTP/2 without TLS, where nothing can be hijacked.
func (b *bed) overHTTP2() *stream {
	b.t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	b.client.Transport.(*http.Transport).Protocols = protocols
	resp, err := b.client.Get("http://hub/events?topic=t")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	if resp.ProtoMajor != 2 {
		b.t.Fatalf("answered by %s", resp.Proto)
	}
	return &stream{t: b.t, resp: resp, body: newReader(resp.Body)}
}

// TestHTTP2: HTTP/2 subscribers get updates as well, and an idle one stays for longer than a write may take.
func TestHTTP2(t *testing.T) {
	b := serving(t, func(c *Config) { c.WriteTimeout, c.Heartbeat = 500*time.Millisecond, 0 })
	s := b.overHTTP2()
	for _, silence := range []time.Duration{0, 1200 * time.Millisecond, 1200 * time.Millisecond} {
		<-time.After(silence)
		if status, text := b.post("/publish?topic=t", "text/plain", "hello"); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		s.want(event{Data: "hello"})
	}
}

// TestRaw publishes bodies unchanged.
func TestRaw(t *testing.T) {
	b := serving(t, nil)
	s := b.subscribe("topic=t")
	status, id := b.post("/publish?topic=t&topic=u&id=mine&type=x&retry=7", "application/octet-stream", "a=b&c")
	if status != http.StatusOK || id != "mine" {
		t.Fatalf("%d %s", status, id)
	}
	s.want(event{ID: "mine", Type: "x", Retry: "7", Data: "a=b&c"})
}

func TestBadPublish(t *testing.T) {
	b := serving(t, func(c *Config) { c.MaxUpdateBytes, c.MaxTopics = 100, 2 })
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		path, kind, body string
		status           int
		want             string
	}{
		{pathEvents, form, "data=x", 400, "topic: must be given"},
		{pathEvents, form, "topic=&data=x", 400, "topic: "},
		{pathEvents, form, "topic=t&retry=1.5", 400, "retry: must be a number"},
		{pathEvents, form, "topic=t&retry=99999999999", 400, "retry: must be a number"},
		{pathMercure, form, "topic=t&id=dyno:other-99", 400, "must not begin with dyno:"},
		{"/publish?topic=t&id=earliest", form, "x", 400, "is reserved"},
		{"/publish?topic=t&type=gap", form, "x", 400, `type: "gap": is reserved`},
		{pathEvents, form, "topic=%zz", 400, "invalid URL escape"},
		{pathEvents, form, "topic=a&topic=b&topic=c", 400, "topic: 3 of them"},
		{pathEvents, form, "topic=t&data=" + strings.Repeat("x", 100), 413, "at most 100 bytes"},
		{pathEvents, "text/plain", "topic=t", 415, "want application/x-www-form-urlencoded"},
		{"/publish?topic=t", form, "\xff", 400, "data: must be UTF-8"},
		{"/publish?topic=t", form, strings.Repeat("x", 101), 413, "at most 100 bytes"},
		{"/publish", form, "x", 400, "topic: must be given"},
		{"/publish?topic=" + strings.Repeat("t", maxTopic+1), form, "x", 400, "2049 bytes: must be 2048 at most"},
	} {
		status, text := b.post(c.path, c.kind, c.body)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, text)
		}
	}
	// Without a length, a body can only be refused after it has arrived.
	resp, err := b.client.Post("http://hub/publish?topic=t", "text/plain", struct{ *strings.Reader }{strings.NewReader(strings.Repeat("x", 101))})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("chunked: %s", resp.Status)
	}
	if b.journal.Head() != 0 {
		t.Errorf("%d updates were kept", b.journal.Head())
	}
}

func TestBadSubscribe(t *testing.T) {
	b := serving(t, func(c *Config) { c.MaxTopics = 2 })
	refused := func(b *bed, queries ...string) {
		for _, query := range queries {
			if s := b.subscribe(query); s.resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%q: %s", query, s.resp.Status)
			}
		}
	}
	refused(b, "", "topic=", "topic=a&topic=b&topic=c", "topic=%zz")
	// What would take the time of all to match.
	templates := func(n int) (query string) {
		for i := range n {
			query += fmt.Sprintf("topic=/%d/{x}&", i)
		}
		return query
	}
	more := serving(t, func(*Config) {})
	refused(more, templates(maxTemplates+1), "topic="+strings.Repeat("{+a}", maxVariables+1), "topic=/{a}"+strings.Repeat("x", maxTemplate))
	if s := more.subscribe(templates(maxTemplates) + "topic=a"); s.resp.StatusCode != http.StatusOK {
		t.Errorf("%d templates: %s", maxTemplates, s.resp.Status)
	}
	if s := b.subscribe("topic=a&topic=b&topic=a"); s.resp.StatusCode != http.StatusOK {
		t.Errorf("a repeated topic: %s", s.resp.Status)
	}
	resp, err := b.client.Head("http://hub/events?topic=t")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %v", resp)
	}
}

func TestCORS(t *testing.T) {
	b := serving(t, func(c *Config) { c.AllowOrigins = []string{"https://page.example"} })
	for origin, want := range map[string]string{"https://page.example": "https://page.example", "https://evil.example": "", "null": ""} {
		s := b.subscribe("topic=t", "Origin: "+origin)
		if got := s.resp.Header.Get("Access-Control-Allow-Origin"); got != want || s.resp.Header.Get("Vary") != "Origin" {
			t.Errorf("%s: allows %q, varies by %q", origin, got, s.resp.Header.Get("Vary"))
		}
	}
	req, err := http.NewRequest(http.MethodOptions, "http://hub"+pathMercure, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://page.example")
	req.Header.Set("Access-Control-Request-Method", "POST")
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want := map[string]string{
		"Access-Control-Allow-Origin": "https://page.example", "Access-Control-Allow-Credentials": "true",
		"Access-Control-Allow-Methods": "GET, POST", "Access-Control-Allow-Headers": "Authorization, Cache-Control, Content-Type, Last-Event-ID",
	}
	got := map[string]string{}
	for name := range want {
		got[name] = resp.Header.Get(name)
	}
	if diff := cmp.Diff(want, got); diff != "" || resp.StatusCode != http.StatusNoContent {
		t.Errorf("preflight: %s %s", resp.Status, diff)
	}

	any := serving(t, func(c *Config) { c.AllowOrigins = []string{"*"} })
	s := any.subscribe("topic=t", "Origin: https://x.example")
	if s.resp.Header.Get("Access-Control-Allow-Origin") != "*" || s.resp.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("all origins: %v", s.resp.Header)
	}
}
