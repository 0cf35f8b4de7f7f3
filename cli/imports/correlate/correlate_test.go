package correlate

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/load/jsonpath"
	"dyno/load/scenario"
)

// exchanges reads a recording: requests, each followed by its response. Exchanges are separated by a line of dashes, a
// request and its response by a line "=". Header fields stand before an empty line.
func exchanges(text string) (all []Exchange) {
	message := func(text string) (first string, header []scenario.Header, body string) {
		head, body, _ := strings.Cut(text, "\n\n")
		first, fields, _ := strings.Cut(head, "\n")
		for line := range strings.Lines(fields) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			header = append(header, scenario.Header{Name: name, Value: value})
		}
		return first, header, body
	}
	for one := range strings.SplitSeq(text, "\n---\n") {
		request, response, has := strings.Cut(one, "\n=\n")
		e := Exchange{}
		e.URL, e.Header, e.Body = message(strings.TrimPrefix(request, "\n"))
		if has {
			_, e.Response.Header, e.Response.Body = message(response)
		}
		all = append(all, e)
	}
	return all
}

// correlated finds the correlations of a recording. It writes them down, and the requests that have changed.
func correlated(all []Exchange) (found []Correlation, text string) {
	var b strings.Builder
	requests := func() (texts []string) {
		for _, e := range all {
			text := e.URL
			for _, h := range e.Header {
				text += " " + h.Name + "=" + h.Value
			}
			texts = append(texts, text+" "+e.Body)
		}
		return texts
	}
	before, names := requests(), map[string]int{}
	found = Find(all, func(name string) string {
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s_%d", name, names[name])
		}
		return name
	}, func(expression string) string { return "{{ " + expression + " }}" })
	for _, c := range found {
		from := strings.Fields(strings.Join([]string{c.From.JSON, c.From.Header, c.From.Decode}, " "))
		if c.From.Pattern != "" {
			from = append(from, c.From.Pattern)
		}
		fmt.Fprintf(&b, "%s: %d %s; %d: %s\n", c.From.Variable, c.Source, strings.Join(from, " "), c.Requests, strings.Join(c.Where, ", "))
	}
	for i, text := range requests() {
		if text != before[i] {
			fmt.Fprintf(&b, "%d %s\n", i, strings.ReplaceAll(text, "\r", ""))
		}
	}
	return found, b.String()
}

func TestFind(t *testing.T) {
	for _, tt := range []struct{ name, recording, want string }{
		{"a token in JSON", `http://h/login

{"user": "ann42", "password": "geheim77xx"}
=
200
Content-Type: application/json

{"user": "ann42", "data": {"access_token": "tok-8f14e45fceea", "expires": 3600}}
---
http://h/items
Authorization: Bearer tok-8f14e45fceea
---
http://h/items?access_token=tok-8f14e45fceea
`, `access_token: 0 $.data.access_token; 2: header field Authorization, parameter access_token
1 http://h/items Authorization=Bearer {{ access_token }} 
2 http://h/items?access_token={{ urlencode(access_token) }} 
`},
		{"a number in JSON, sent as one and as a text", `http://h/orders

{"name": "x"}
=
201
Content-Type: application/json

{"order": {"id": 9071523, "paid": false}}
---
http://h/pay

{"order_id": 9071523, "ref": "9071523", "paid": false}
`, `id: 0 $.order.id; 1: content at $.order_id, content at $.ref
1 http://h/pay {"order_id": {{ id }}, "ref": "{{ id }}", "paid": false}

`},
		{"a hidden field", `http://h/login
=
200

<form><input type="hidden" name="lang" value="en"><input name="_csrf" type="hidden" value="a1&#43;b2/c3=="><input type=hidden value='x9f3' name='step'></form>
---
http://h/login
Content-Type: application/x-www-form-urlencoded

user=ann&lang=en&_csrf=a1%2Bb2%2Fc3%3D%3D&step=x9f3`, `csrf: 0 html name="_csrf"[^>]*\svalue\s*=\s*["']([^"']*); 1: form field _csrf
step: 0 html <[^>]*\svalue\s*=\s*["']([^"']*)["'][^>]*\sname='step'; 1: form field step
1 http://h/login Content-Type=application/x-www-form-urlencoded user=ann&lang=en&_csrf={{ formencode(csrf) }}&step={{ formencode(step) }}
`},
		{"what a page says of itself", `http://h/
=
200

<meta name="viewport" content="width=device-width, initial-scale=1"><meta content="Zm9vYmFyMTIz" name="csrf-token">
---
http://h/save
X-CSRF-Token: Zm9vYmFyMTIz

{"lang": "en"}`, `csrf_token: 0 html <[^>]*\scontent\s*=\s*["']([^"']*)["'][^>]*\sname="csrf-token"; 1: header field X-CSRF-Token
1 http://h/save X-CSRF-Token={{ csrf_token }} {"lang": "en"}
`},
		{"a cookie in a header field", `http://h/
=
200
Set-Cookie: sid=0a1b2c3d4e; HttpOnly
Set-Cookie: XSRF-TOKEN=abc123%3D; Path=/
---
http://h/save
Cookie: theme=dark; sid=0a1b2c3d4e; XSRF-TOKEN=abc123%3D
X-XSRF-TOKEN: abc123=
---
http://h/save
Cookie: sid=0a1b2c3d4e; XSRF-TOKEN=abc123%3D
X-XSRF-TOKEN: abc123%3D`, `sid: 0 Set-Cookie ^sid=([^;]*); 2: cookie sid
xsrf_token: 0 Set-Cookie ^XSRF-TOKEN=([^;]*); 2: cookie XSRF-TOKEN, header field X-XSRF-TOKEN
xsrf_token_2: 0 Set-Cookie url ^XSRF-TOKEN=([^;]*); 1: header field X-XSRF-TOKEN
1 http://h/save Cookie=theme=dark; sid={{ sid }}; XSRF-TOKEN={{ xsrf_token }} X-XSRF-TOKEN={{ xsrf_token_2 }} 
2 http://h/save Cookie=sid={{ sid }}; XSRF-TOKEN={{ xsrf_token }} X-XSRF-TOKEN={{ xsrf_token }} 
`},
		{"an ID of a redirect", `http://h/orders

{"sku": "A-17"}
=
303
Location: /orders/8371?state=x%2Fy81z77
---
http://h/orders/8371?state=x%2Fy81z77
---
http://h/orders/8371/pay
Referer: http://h/orders/8371?state=x%2Fy81z77

{"order": 8371, "orderId": 8371}`, `orders_id: 0 Location orders/([^/?#]+); 2: path, content at $.order, content at $.orderId
state: 0 Location url [?&#]state=([^&#]+); 1: parameter state
1 http://h/orders/{{ orders_id }}?state={{ urlencode(state) }} 
2 http://h/orders/{{ orders_id }}/pay Referer=http://h/orders/8371?state=x%2Fy81z77 {"order": {{ orders_id }}, "orderId": {{ orders_id }}}
`},
		{"short IDs, counts and words", `http://h/orders?page=1
=
200

{"count": 25, "items": [{"id": 17, "qty": 25, "slug": "blue-shoes", "state": "open", "at": "2026-03-29"}], "version": "1.2.3", "page": 2}
---
http://h/orders/17?qty=25&state=open&at=2026-03-29&v=1.2.3&page=2
---
http://h/items/blue-shoes

{"order_id": 17, "total": 17}`, `orders_id: 0 $.items[0].id; 2: path, content at $.order_id
1 http://h/orders/{{ orders_id }}?qty=25&state=open&at=2026-03-29&v=1.2.3&page=2 
2 http://h/items/blue-shoes {"order_id": {{ orders_id }}, "total": 17}
`},
		{"what the client knew", `http://h/me
X-Api-Key: k-12345678
=
200

{"key": "k-12345678", "tenant": "t-87654321"}
---
http://h/you?tenant=t-87654321
X-Api-Key: k-12345678`, `tenant: 0 $.tenant; 1: parameter tenant
1 http://h/you?tenant={{ urlencode(tenant) }} X-Api-Key=k-12345678 
`},
		{"escapes", `http://h/a
=
200

{"token": "a\"b\u002f12345", "url": "x\/1234567y"}
---
http://h/b

{"token": "a\"b/12345", "u": ["x/1234567y"]}`, `token: 0 $.token; 1: content at $.token
url: 0 $.url; 1: content at $.u[0]
1 http://h/b {"token": "{{ token }}", "u": ["{{ url }}"]}
`},
		{"base64", `http://h/a
=
200

{"secret": "s3cr3t-99", "cursor": "c-0012-x9"}
---
http://h/b?after=Yy0wMDEyLXg5
Authorization: Basic YW5uOnMzY3IzdC05OQ==`, `cursor: 0 $.cursor; 1: parameter after
secret: 0 $.secret; 1: header field Authorization
1 http://h/b?after={{ urlencode(base64(cursor)) }} Authorization=Basic {{ base64("ann:", secret) }} 
`},
		{"in a script of a page", `http://h/
=
200

<script>window.app = {user: "ann", "csrfToken": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOjF9.s1g"}</script>
---
http://h/save
X-Csrf: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOjF9.s1g`, `x_csrf: 0 \bcsrfToken": "([^"'<>&\s\\;,]+); 1: header field X-Csrf
1 http://h/save X-Csrf={{ x_csrf }} 
`},
		{"a credential before it", `http://h/
=
200

<script>key("AKIA-77aa31", "5d8c72a5edda8")</script>
---
http://h/b?t=5d8c72a5edda8`, ``},
		{"a link of a page", `http://h/
=
200

<p>8371 items</p><a href="/orders/8371">order</a> <a href="?cursor=42x">next</a>
---
http://h/orders/8371?cursor=42x`, `cursor: 0 \bcursor=([\w-]+); 1: parameter cursor
orders_id: 0 \borders/([\w-]+); 1: path
1 http://h/orders/{{ orders_id }}?cursor={{ urlencode(cursor) }} 
`},
		{"a link in JSON", `http://h/
=
200

{"links": {"self": "http://h/orders/8371?tab=all", "next": "/orders?cursor=42x81a77q"}}
---
http://h/orders/8371
---
http://h/orders?cursor=42x81a77q`, `orders_id: 0 $.links.self orders/([^/?#]+); 1: path
cursor: 0 $.links.next url [?&#]cursor=([^&#]+); 1: parameter cursor
1 http://h/orders/{{ orders_id }} 
2 http://h/orders?cursor={{ urlencode(cursor) }} 
`},
		{"an entity tag", `http://h/a
=
200
ETag: "5d8c72a5edda8"
---
http://h/a
If-None-Match: "5d8c72a5edda8"`, `etag: 0 ETag; 1: header field If-None-Match
1 http://h/a If-None-Match={{ etag }} 
`},
		{"a Referer alone", `http://h/a
=
200

{"id": "5d8c72a5edda8"}
---
http://h/b
Referer: http://h/x/5d8c72a5edda8`, ``},
		{"JSON comes before text", `http://h/
=
200

<script>token = "5d8c72a5edda8"</script>
---
http://h/session
=
200

{"token": "5d8c72a5edda8"}
---
http://h/b?t=5d8c72a5edda8`, `token: 1 $.token; 1: parameter t
2 http://h/b?t={{ token }} 
`},
		{"one after the other", `http://h/login
=
200

{"token": "5d8c72a5edda8"}
---
http://h/refresh
X-Token: 5d8c72a5edda8
=
200

{"token": "77aa31bb02cc9"}
---
http://h/b
X-Token: 77aa31bb02cc9`, `token: 0 $.token; 1: header field X-Token
token_2: 1 $.token; 1: header field X-Token
1 http://h/refresh X-Token={{ token }} 
2 http://h/b X-Token={{ token_2 }} 
`},
		{"parts of a form", "http://h/\n=\n200\n\n<input name=\"csrf\" value=\"5d8c72a5edda8\">\n---\nhttp://h/upload\nContent-Type: multipart/form-data; boundary=b\n\n--b\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n5d8c72a5edda8\r\n--b--\r\n", `csrf: 0 html name="csrf"[^>]*\svalue\s*=\s*["']([^"']*); 1: form field csrf
1 http://h/upload Content-Type=multipart/form-data; boundary=b --b
Content-Disposition: form-data; name="csrf"

{{ csrf }}
--b--

`},
		{"text", `http://h/token
=
200

5d8c72a5edda8+/x=
---
http://h/soap

<auth>5d8c72a5edda8+/x=</auth>
---
http://h/b?t=5d8c72a5edda8%2b%2fx%3d`, `value: 0 ^\s*([^"'<>&\s\\;,]+); 2: content, parameter t
1 http://h/soap <auth>{{ value }}</auth>
2 http://h/b?t={{ urlencode(value) }} 
`},
		{"header fields", `http://h/login
=
200
Authorization: Bearer abc.def.5d8c72a5=
X-Session: 0123456789
---
http://h/b
Authorization: Bearer abc.def.5d8c72a5=
X-Session: 0123456789`, `x_session: 0 X-Session; 1: header field X-Session
authorization: 0 Authorization ^Bearer (.+); 1: header field Authorization
1 http://h/b Authorization=Bearer {{ authorization }} X-Session={{ x_session }} 
`},
		{"in a segment", `http://h/login
=
302
Location: http://h/home;jsessionid=5D8C72A5EDDA8?x=1
---
http://h/home;jsessionid=5D8C72A5EDDA8?x=1
---
http://h/a
=
200

{"file": {"id": "99-ab-77"}}
---
http://h/files/99-ab-77.json`, `id: 0 Location ^(?:\w+://[^/]*)?/([^/?#]+); 1: path
files_id: 2 $.file.id; 1: path
1 http://h/{{ id }}?x=1 
3 http://h/files/{{ files_id }}.json 
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := correlated(exchanges(tt.recording))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Cookies that responses have set are taken out of later requests; others stay.
func TestKeepCookies(t *testing.T) {
	all := exchanges(`http://h/
Cookie: old=1; theme=dark
=
200
Set-Cookie: sid=1; Path=/
Set-Cookie: theme=light
---
http://h/a
Cookie: sid=1; theme=dark
=
200
set-cookie: sid=2
---
http://h/b
Cookie: sid=2; theme=light
Accept: a`)
	KeepCookies(all)
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprint(e.Header))
	}
	want := []string{"[{Cookie old=1; theme=dark}]", "[{Cookie theme=dark}]", "[{Accept a}]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is found holds for any recording: the extraction gives the recorded value, no request up to the response had it, and
// later ones did.
func holds(t interface{ Errorf(string, ...any) }, all []Exchange) {
	var before []reader
	for i := range all {
		e := all[i]
		r := reader{exchange: i}
		r.request(&e)
		before = append(before, r)
	}
	found, _ := correlated(all)
	names := map[string]bool{}
	for _, c := range found {
		if text, ok := extracted(c.From, &all[c.Source].Response); !ok || text != c.Value {
			t.Errorf("%v gives %q, %v; want %q", c.From, text, ok, c.Value)
		}
		later := 0
		for i, r := range before {
			has := slices.ContainsFunc(r.all, func(a atom) bool { return a.value == c.Value })
			if has && i <= c.Source {
				t.Errorf("request %d had %q before response %d", i, c.Value, c.Source)
			}
			if has && i > c.Source {
				later++
			}
		}
		if c.Requests == 0 || c.Requests > later || names[c.From.Variable] {
			t.Errorf("%d requests sent %s, %q; %d have it", c.Requests, c.From.Variable, c.Value, later)
		}
		names[c.From.Variable] = true
	}
}

// extracted carries an extraction out by the packages that the engine of scenarios uses, and not by that engine.
func extracted(from scenario.Extraction, r *Response) (text string, ok bool) {
	texts := []string{r.Body}
	switch {
	case from.JSON != "":
		path, err := jsonpath.Compile(from.JSON)
		if err != nil {
			return "", false
		}
		raw, result := path.Find([]byte(r.Body))
		if result != jsonpath.Found {
			return "", false
		}
		texts[0] = string(jsonpath.AppendText(nil, raw))
	case from.Header != "":
		texts = nil
		for _, h := range r.Header {
			if strings.EqualFold(h.Name, from.Header) {
				texts = append(texts, h.Value)
			}
		}
	}
	for _, text := range texts {
		if from.Pattern != "" {
			m := regexp.MustCompile(from.Pattern).FindStringSubmatch(text)
			if m == nil {
				continue
			}
			text = m[1]
		}
		switch from.Decode {
		case "html":
			text = html.UnescapeString(text)
		case "url":
			if plain, err := url.PathUnescape(text); err == nil {
				text = plain
			}
		}
		return text, true
	}
	return "", false
}

// Recordings in which few values stand in many places, each written as the place needs it.
func TestFindHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9]{1,4}|[0-9]{1,8}|[A-Za-z0-9+/]{8,20}={0,2}|[a-z]{3,9}|[0-9a-f]{8}-[0-9a-f]{4}|[!-~]{1,12}`), 1, 6).Draw(t, "values")
		one := func() string { return rapid.SampledFrom(values).Draw(t, "value") }
		quoted := func() string { text, _ := json.Marshal(one()); return string(text) }
		name := func() string {
			return rapid.SampledFrom([]string{"id", "token", "order_id", "_csrf", "q", "page", "name"}).Draw(t, "name")
		}
		header := func(names ...string) (all []scenario.Header) {
			for range rapid.IntRange(0, 3).Draw(t, "fields") {
				h := scenario.Header{Name: rapid.SampledFrom(names).Draw(t, "field"), Value: one()}
				switch h.Name {
				case "Authorization":
					h.Value = "Bearer " + h.Value
				case "Location":
					h.Value = "/" + name() + "/" + url.PathEscape(h.Value) + "?" + name() + "=" + url.QueryEscape(one())
				case "Set-Cookie", "Cookie":
					h.Value = name() + "=" + strings.NewReplacer(";", "", " ", "").Replace(h.Value)
				}
				all = append(all, h)
			}
			return all
		}
		var all []Exchange
		for range rapid.IntRange(1, 6).Draw(t, "exchanges") {
			e := Exchange{URL: "http://h/" + name() + "/" + url.PathEscape(one()) + "?" + name() + "=" + url.QueryEscape(one()), Header: header("X-Token", "Authorization", "Cookie", "Accept")}
			switch rapid.IntRange(0, 3).Draw(t, "body") {
			case 1:
				e.Body = fmt.Sprintf(`{%q: %s, "a": [%s, 17]}`, name(), quoted(), quoted())
			case 2:
				e.Header = append(e.Header, scenario.Header{Name: "Content-Type", Value: "application/x-www-form-urlencoded"})
				e.Body = url.Values{name(): {one()}, "b": {one()}}.Encode()
			case 3:
				e.Body = one()
			}
			if rapid.Bool().Draw(t, "answered") {
				e.Response = Response{Header: header("X-Token", "Authorization", "Location", "Set-Cookie", "ETag")}
				switch rapid.IntRange(0, 3).Draw(t, "content") {
				case 1:
					e.Response.Body = fmt.Sprintf(`{%q: %s, "list": [{%q: %s}, {"id": %s}], "self": "/orders/%s"}`, name(), quoted(), name(), quoted(), quoted(), url.PathEscape(one()))
				case 2:
					e.Response.Body = fmt.Sprintf(`<input type="hidden" name=%q value="%s"><a href="/order/%s?%s=%s">%s</a>`, name(), html.EscapeString(one()), url.PathEscape(one()), name(), url.QueryEscape(one()), html.EscapeString(one()))
				case 3:
					e.Response.Body = one()
				}
			}
			all = append(all, e)
		}
		holds(t, all)
	})
}

func FuzzFind(f *testing.F) {
	f.Add("http://h/a", "{}", "X-Token", "t0k3n-12345", `{"token": "8f14e45fceea"}`, "http://h/b/8f14e45fceea", "a=8f14e45fceea", "Set-Cookie", "a=8f14e45fceea; Path=/")
	f.Add("http://h/a", "", "Content-Type", "application/x-www-form-urlencoded", `<input name="_csrf" value="8f14e&#52;5fceea">`, "h", "_csrf=8f14e45fceea", "Location", "/b/8f14e45fceea#a")
	f.Add("http://h/a", "", "Cookie", "a", `"8f14e45fceea"`, "h", `["8f14e45fceea", "\ud83d"]`, "Authorization", "Bearer 8f14e45fceea")
	f.Add("/", "", "Authorization", "Basic YTo4ZjE0ZTQ1ZmNlZWE=", "token = 8f14e45fceea", "h", "--b\r\nX; name=\"a\"\r\n\r\n8f14e45fceea\r\n--b--", "X", "8f14e45fceea")
	f.Fuzz(func(t *testing.T, first, firstBody, name, value, content, second, secondBody, given, gives string) {
		field := []scenario.Header{{Name: name, Value: value}}
		answer := Response{Header: []scenario.Header{{Name: given, Value: gives}}, Body: content}
		holds(t, []Exchange{
			{URL: first, Body: firstBody, Response: answer},
			{URL: second, Header: field, Body: secondBody, Response: answer},
			{URL: first, Header: field, Body: content},
		})
	})
}
