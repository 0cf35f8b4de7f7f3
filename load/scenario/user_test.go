package scenario

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/internal/contentcoding/codingtest"
	"dyno/load/pace"
	"dyno/load/wire"
)

// get is a step that gets a path.
func get(name, path string) Step { return Step{Name: name, Path: path} }

// A message is a request with its outline and parts put together.
type message struct {
	*Request
	method, path, body string
	header             []Header
}

// assemble puts a request together as a codec does.
func assemble(s *Scenario, r *Request) *message {
	o, parts := s.Outlines()[r.Outline], r.Parts
	next := func(varies bool, text string) string {
		if varies {
			text, parts = string(parts[0]), parts[1:]
		}
		return text
	}
	m := &message{Request: r, method: o.Method, path: next(o.VariesPath, o.Path)}
	for _, f := range o.Header {
		m.header = append(m.header, Header{f.Name, next(f.Varies, f.Value)})
	}
	m.body = next(o.VariesBody, o.Body)
	if len(parts) > 0 || o.Step != r.Step {
		panic(fmt.Sprintf("%d parts too many for outline %d, of step %d", len(parts), r.Outline, o.Step))
	}
	return m
}

// next returns a user's next request, or nil at its end.
func next(u *User, now int64) (*message, *wire.Error) {
	var r Request
	ok, err := u.Next(now, &r)
	if !ok {
		return nil, err
	}
	return assemble(u.w.s, &r), err
}

// answer is a response with a body and with header fields by their numbers. Cookies have
// number 0.
func answer(status int, body string, header ...HeaderField) *Response {
	return &Response{Status: status, Header: header, Body: []byte(body), Size: int64(len(body))}
}

// line writes a request down: method, path, header, body.
func line(m *message) string {
	if m == nil {
		return "end"
	}
	text := m.method + " " + m.path
	for _, f := range m.header {
		text += " " + f.Name + ":" + f.Value
	}
	if m.body != "" {
		text += " " + m.body
	}
	return text
}

// script takes a user through answers, and returns what it sent: the empty answer is none.
func script(tb testing.TB, u *User, answers ...*Response) (sent []string) {
	tb.Helper()
	for _, a := range answers {
		r, err := next(u, 0)
		if err != nil {
			tb.Fatal(err)
		}
		sent = append(sent, line(r))
		if r == nil {
			return sent
		}
		if a == nil {
			u.Failed()
		} else if err := u.Response(0, a); err != nil {
			sent[len(sent)-1] += " !" + err.Error()
		}
	}
	return sent
}

func check(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("%d: %q, want %q", i, g, w)
		}
	}
}

// shop is a scenario of log-in, list and post.
func shop(tb testing.TB, users string, order string) Spec {
	return Spec{
		Cookies:   true,
		Variables: map[string]string{"base": "/v1"},
		Data:      []Data{{Name: "users", File: users, Order: order}},
		Steps: []Step{
			{
				Name: "login", Once: true, Path: "{{ base }}/login",
				Headers: []Header{{"Content-Type", "application/json"}},
				Body:    `{"email":"{{ json_escape(email) }}","password":"{{ json_escape(password) }}"}`,
				Status:  "200-201", Extract: extract("token", "$.data.token"),
			},
			{
				Name: "list", Path: "{{ base }}/items?user={{ urlencode(email) }}",
				Headers: []Header{{"Authorization", "Bearer {{ token }}"}},
				Extract: extract("id", "$.items[0].id"),
				Think:   pace.Think{Constant: time.Second},
			},
			{
				Name: "post", Path: "{{ base }}/items/{{ id }}", Body: "n={{ counter() }}",
				Headers: []Header{{"Authorization", "Bearer {{ token }}"}, {"X-Fixed", "1"}},
				Assert:  []Assertion{{JSON: "$.id", Equals: new("{{ id }}")}},
			},
		},
	}
}

const usersCSV = "email,password\nada@x.y,\"p\"\"1\"\nbob@x.y,p2\n"

func TestShop(t *testing.T) {
	w := mustCompile(t, shop(t, rows(t, "users.csv", usersCSV), "sequential")).Worker(whole, 1)
	ada, bob := w.User(), w.User()
	cookie := HeaderField{Name: 0, Value: []byte("sid=7; Path=/v1")}
	check(t, script(t, ada,
		answer(200, `{"data":{"token":"T1"}}`, cookie),
		answer(200, `{"items":[{"id":11},{"id":12}]}`),
		answer(200, `{"id":"11"}`),
		answer(200, `{"items":[{"id":"x-2"}]}`),
	), []string{
		`POST /v1/login Content-Type:application/json {"email":"ada@x.y","password":"p\"1"}`,
		`GET /v1/items?user=ada%40x.y Authorization:Bearer T1 Cookie:sid=7`,
		`POST /v1/items/11 Authorization:Bearer T1 X-Fixed:1 Cookie:sid=7 n=0`,
		`GET /v1/items?user=ada%40x.y Authorization:Bearer T1 Cookie:sid=7`,
	})
	check(t, script(t, bob, answer(201, `{"data":{"token":"T2"}}`), answer(200, `{"items":[{"id":13}]}`), answer(200, `{"id":14}`)), []string{
		`POST /v1/login Content-Type:application/json {"email":"bob@x.y","password":"p2"}`,
		`GET /v1/items?user=bob%40x.y Authorization:Bearer T2`,
		`POST /v1/items/13 Authorization:Bearer T2 X-Fixed:1 n=1 !assertion: step "post": its value at $.id does not equal "{{ id }}"`,
	})
	check(t, script(t, ada, nil), []string{`POST /v1/items/x-2 Authorization:Bearer T1 X-Fixed:1 Cookie:sid=7 n=2`})
}

// A step's own cookies are sent before those that the user keeps, in one field.
func TestOwnCookies(t *testing.T) {
	u := mustCompile(t, Spec{
		Cookies: true, Variables: map[string]string{"v": "x"},
		Steps: []Step{
			{Name: "own", Path: "/own", Headers: []Header{{"cookie", "theme=dark"}}, Extract: extract("v", "$.v")},
			{Name: "varies", Path: "/varies", Headers: []Header{{"Cookie", "v={{ v }}"}}, Body: "b"},
			get("none", "/none"),
		},
	}).Worker(whole, 1).User()
	cookie := HeaderField{Name: 0, Value: []byte("sid=1")}
	check(t, script(t, u, answer(200, `{"v":"y"}`), answer(200, "", cookie), answer(200, ""), answer(200, `{"v":"z"}`), answer(200, ""), answer(200, ""), answer(200, `{"v":"a\nb"}`)), []string{
		"GET /own Cookie:theme=dark", "POST /varies Cookie:v=y b", "GET /none Cookie:sid=1",
		"GET /own Cookie:theme=dark; sid=1", "POST /varies Cookie:v=z; sid=1 b", "GET /none Cookie:sid=1", "GET /own Cookie:theme=dark; sid=1",
	})
	if _, err := next(u, 0); err == nil || err.Kind != wire.Generator || !strings.Contains(err.Text, "cookies") {
		t.Errorf("a line break in a cookie: %v", err)
	}
}

// A step that must succeed once is tried until it does, from the first one on and without
// cookies.
func TestOnceIsTriedAgain(t *testing.T) {
	u := mustCompile(t, Spec{
		Cookies: true,
		Steps: []Step{
			get("loop", "/loop"),
			{Name: "form", Once: true, Path: "/form"},
			{Name: "login", Once: true, Path: "/login"},
		},
	}).Worker(whole, 1).User()
	cookie := HeaderField{Name: 0, Value: []byte("a=1")}
	check(t, script(t, u, nil, answer(200, "", cookie), answer(401, ""), answer(200, ""), answer(200, "", cookie), nil, answer(500, ""), answer(200, "")), []string{
		"GET /form", "GET /form", "GET /login Cookie:a=1 !status: status 401", "GET /form", "GET /login", "GET /loop Cookie:a=1", "GET /loop Cookie:a=1 !status: status 500", "GET /loop Cookie:a=1",
	})
}

// A user whose log-in fails waits longer each time, up to a bound. After a good log-in it begins again
// with the shortest pause. Pauses are drawn with the seed.
func TestFailedLoginsBackOff(t *testing.T) {
	s := mustCompile(t, Spec{Steps: []Step{
		{Name: "login", Once: true, Path: "/"}, {Name: "role", Once: true, Path: "/", Think: pace.Think{Constant: 300 * time.Millisecond}}, get("loop", "/"),
	}})
	pauses := func(u *User, answers ...*Response) (all []time.Duration) {
		for _, a := range answers {
			var r Request
			if ok, err := u.Next(0, &r); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if u.LoggedOut() {
				t.Error("a user with a request waits to log in")
			}
			if a == nil {
				u.Failed()
			} else {
				_ = u.Response(0, a)
			}
			all = append(all, u.Pause(&r))
		}
		return all
	}
	const ms = time.Millisecond
	ok, no := answer(200, ""), answer(500, "")
	answers := []*Response{no, nil, no, ok, no, no, no, no, no, ok, ok, no, ok}
	longest := []time.Duration{100 * ms, 200 * ms, 400 * ms, 0, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms, 0, 0, 0, 0}
	w := s.Worker(whole, 1)
	user, other := w.User(), w.User()
	got := pauses(user, answers...)
	for i, d := range got {
		least := longest[i] / 2
		switch i {
		case 4: // of the second step, which has a pause of its own
			least = 400 * ms
		case 10:
			least = 300 * ms
			longest[i] = 300 * ms
		}
		if d < least || d > longest[i] {
			t.Errorf("pause %d: %v, want %v to %v", i, d, least, longest[i])
		}
	}
	if w.FailedLogins() != 8 || user.LoggedOut() {
		t.Errorf("%d failed log-ins, waits: %v", w.FailedLogins(), user.LoggedOut())
	}
	if again := pauses(s.Worker(whole, 1).User(), answers...); !slices.Equal(again, got) {
		t.Errorf("with the same seed %v, before %v", again, got)
	}
	if first := pauses(other, no)[0]; first == got[0] || !other.LoggedOut() {
		t.Errorf("two users pause %v, waits: %v", first, other.LoggedOut())
	}
	user.Restart()
	pauses(user, no, no)
	user.Restart()
	if first := pauses(user, no)[0]; first > 100*ms {
		t.Errorf("a new user begins with a pause of %v", first)
	}
}

// After a step that fails the user goes on, unless a later step needs what it should have
// set.
func TestFailedSteps(t *testing.T) {
	u := mustCompile(t, Spec{
		Variables: map[string]string{"page": "0"},
		Steps: []Step{
			{Name: "a", Path: "/a?{{ page }}", Extract: extract("page", "$.page")},
			{Name: "b", Path: "/b", Extract: extract("id", "$.id")},
			{Name: "c", Path: "/c?{{ page }}"},
			{Name: "d", Path: "/d/{{ id }}", Extract: extract("unused", "$.x")},
			{Name: "e", Path: "/e"},
		},
	}).Worker(whole, 1).User()
	check(t, script(t, u,
		nil, nil, // a has a value from the start; b ends the iteration
		answer(200, `{"page":2}`), answer(200, `{"id":5}`), nil, answer(503, ""), answer(200, ""),
		answer(200, `{}`), answer(200, `{"id":6}`), answer(200, ""), answer(200, "{}"), answer(200, ""),
		answer(200, ""),
	), []string{
		"GET /a?0", "GET /b",
		"GET /a?0", "GET /b", "GET /c?2", "GET /d/5 !status: status 503", "GET /e",
		`GET /a?2 !assertion: step "a": nothing for "page": its value at $.page is missing`, "GET /b", "GET /c?2", `GET /d/6 !assertion: step "d": nothing for "unused": its value at $.x is missing`, "GET /e",
		`GET /a?2 !assertion: step "a": its body is not JSON, in which the value at $.page is looked for`,
	})
}

func TestExtractions(t *testing.T) {
	var tests = []struct {
		extraction Extraction
		response   *Response
		value      string
		err        string
		misses     uint64
	}{
		{Extraction{JSON: "$.a"}, answer(200, `{"a":"\u00e9\n"}`), "é\n", "", 0},
		{Extraction{JSON: "$.a"}, answer(200, `{"a":[1, 2]}`), "[1, 2]", "", 0},
		{Extraction{JSON: "$.a"}, answer(200, `{"b":1}`), "old", `nothing for "v": its value at $.a is missing`, 1},
		{Extraction{JSON: "$.a"}, answer(200, `<html>`), "old", "its body is not JSON, in which the value at $.a is looked for", 1},
		{Extraction{JSON: "$.a", Pattern: `é(\w+)`}, answer(200, `{"a":"x\u00e9yz"}`), "yz", "", 0},
		{Extraction{JSON: "$.a", Pattern: `\d`}, answer(200, `{"a":"x"}`), "old", `nothing for "v": its value at $.a is missing or does not match "\\d"`, 1},
		{Extraction{Header: "Location", Pattern: `/orders/(\d+)`}, answer(201, "", HeaderField{Name: 0, Value: []byte("http://h/orders/12?x")}), "12", "", 0},
		{Extraction{}, answer(200, "a token"), "a token", "", 0},
		{Extraction{JSON: "$.a", Keep: true}, answer(200, `{"b":1}`), "old", "", 1},
		{Extraction{JSON: "$.a", Default: new("none")}, answer(200, ``), "none", "", 1},
		{Extraction{Header: "Location"}, answer(302, "", HeaderField{Name: 1, Value: []byte("y")}, HeaderField{Name: 0, Value: []byte("/x")}, HeaderField{Name: 0, Value: []byte("/z")}), "/x", "", 0},
		{Extraction{Header: "Location", Pattern: `^b=(\w+)`}, answer(200, "", HeaderField{Name: 0, Value: []byte("a=1")}, HeaderField{Name: 1, Value: []byte("b=2")}, HeaderField{Name: 0, Value: []byte("b=3")}), "3", "", 0},
		{Extraction{Header: "Location", Pattern: `^c=(\w+)`}, answer(200, "", HeaderField{Name: 0, Value: []byte("a=1")}), "old", `nothing for "v": its header field Location is missing or does not match "^c=(\\w+)"`, 1},
		{Extraction{Header: "location"}, answer(200, ""), "old", `nothing for "v": its header field location is missing`, 1},
		{Extraction{Pattern: `csrf="([^"]*)"`}, answer(200, `<p csrf="a&b">`), "a&b", "", 0},
		{Extraction{Pattern: `csrf="([^"]*)"`, Decode: "html"}, answer(200, `<p csrf="a&amp;b&#43;c">`), "a&b+c", "", 0},
		{Extraction{Pattern: `^t=([^;]*)`, Decode: "url"}, answer(200, `t=a%3D+b; x`), "a=+b", "", 0},
		{Extraction{Pattern: `^t=([^;]*)`, Decode: "url"}, answer(200, `t=100%; x`), "100%", "", 0},
		{Extraction{Pattern: `(?s)<form id="b".*?</form`, Decode: "form"}, answer(200, `<form id="a"><input type="hidden" name="no"></form>
			<form id="b"><input type=hidden name=csrf value="a&amp;b c"><input name="user" value="x"><INPUT value='1' name='n[]' type='HIDDEN'><input type="hidden" value="2"></form>`), "csrf=a%26b+c&n%5B%5D=1", "", 0},
		{Extraction{Decode: "form"}, answer(200, `<form></form>`), "", "", 0},
		{Extraction{JSON: "$.a", As: "json"}, answer(200, `{"a":7}`), "7", "", 0},
		{Extraction{JSON: "$.a", As: "json"}, answer(200, `{"a":"x\n"}`), `"x\n"`, "", 0},
		{Extraction{JSON: "$.a", As: "json"}, answer(200, `{"a":{"b": null}}`), `{"b": null}`, "", 0},
		{Extraction{JSON: "$.a", As: "json", Default: new("null")}, answer(200, `{}`), "null", "", 1},
		{Extraction{JSON: "$.a", As: "text"}, answer(200, `{"a":"x"}`), "x", "", 0},
		{Extraction{Pattern: `(a)(b)`, Group: 2}, answer(200, `ab`), "b", "", 0},
		{Extraction{Pattern: `(a)|b`}, answer(200, `b`), "old", `nothing for "v": its body does not match "(a)|b"`, 1},
		{Extraction{Pattern: `.*`}, answer(200, strings.Repeat("x", MaxValue+1)), "old", `more than 16384 bytes for "v"`, 0},
		{Extraction{Pattern: `.*`}, &Response{Status: 200, Body: []byte("x"), Size: 2}, "old", "its body is longer than the 100000 bytes that max_body has kept", 0},
		{Extraction{JSON: "$.a"}, answer(404, `{"a":1}`), "old", "status 404", 0},
	}
	for _, tt := range tests {
		tt.extraction.Variable = "v"
		w := mustCompile(t, Spec{
			Variables: map[string]string{"v": "old"},
			Steps: []Step{
				{Name: "s", Path: "/", Extract: []Extraction{tt.extraction}, MaxBody: 100_000},
				{Name: "t", Path: "/", Headers: []Header{{"V", "{{ json_escape(v) }}"}}},
			},
		}).Worker(whole, 1)
		u := w.User()
		if _, err := next(u, 0); err != nil {
			t.Fatal(err)
		}
		err := u.Response(0, tt.response)
		switch {
		case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Text, tt.err)):
			t.Errorf("%+v: error %v, want %q", tt.extraction, err, tt.err)
		case err != nil && err.Kind != wire.Assertion && tt.response.Status < 400:
			t.Errorf("%+v: kind %v", tt.extraction, err.Kind)
		}
		if value := string(u.state.Values[0]); value != tt.value {
			t.Errorf("%+v: %q, want %q", tt.extraction, value, tt.value)
		}
		if got := w.Misses(nil); len(got) != 1 || got[0] != (Miss{Step: 0, Name: "v", Count: tt.misses}) {
			t.Errorf("%+v: misses %+v, want %d", tt.extraction, got, tt.misses)
		}
	}
}

// All of several extractions are tried, and the first failure is reported.
func TestSeveralExtractions(t *testing.T) {
	w := mustCompile(t, Spec{Steps: []Step{
		{Name: "a", Path: "/"},
		{Name: "s", Path: "/", Extract: []Extraction{
			{Variable: "x", JSON: "$.x"}, {Variable: "y", JSON: "$.y"}, {Variable: "z", JSON: "$.z"},
		}},
	}}).Worker(whole, 1)
	u := w.User()
	got := script(t, u, answer(200, ""), answer(200, `{"y":1}`))
	if want := `GET / !assertion: step "s": nothing for "x": its value at $.x is missing`; got[1] != want {
		t.Errorf("%q, want %q", got[1], want)
	}
	if got, want := w.Misses(nil), []Miss{{1, "x", 1}, {1, "y", 0}, {1, "z", 1}}; !slices.Equal(got, want) {
		t.Errorf("misses %+v, want %+v", got, want)
	}
}

func TestAssertions(t *testing.T) {
	etag := HeaderField{Name: 0, Value: []byte(`"a1"`)}
	const doc = `{"s":"a\u00e9","n":1.50,"o":{"x":1}}`
	for _, tt := range []struct {
		assertion Assertion
		ok, bad   *Response
		failure   string
	}{
		{Assertion{Equals: new("{{ v }}!")}, answer(200, "né!"), answer(200, "né"), `its body does not equal "{{ v }}!"`},
		{Assertion{Contains: "{{ base64(v) }}"}, answer(200, "xbsOpx"), answer(200, "x"), `its body does not contain "{{ base64(v) }}"`},
		{Assertion{Matches: `^\d+$`}, answer(200, "12"), answer(200, "12x"), `its body does not match "^\\d+$"`},
		{Assertion{Header: "Etag", Exists: true}, answer(200, "", etag), answer(200, ""), "its header field Etag is missing"},
		{Assertion{Header: "ETag", Equals: new(`"a1"`)}, answer(200, "", etag), answer(200, ""), "its header field ETag does not equal"},
		{Assertion{JSON: "$.s", Equals: new("aé")}, answer(200, doc), answer(200, `{"s":"ae"}`), `its value at $.s does not equal "aé"`},
		{Assertion{JSON: "$.o.x", Exists: true}, answer(200, doc), answer(200, `{"o":{}}`), "its value at $.o.x is missing"},
		{Assertion{JSON: "$.s", Exists: true}, answer(200, doc), answer(200, `<html>`), "its body is not JSON, in which the value at $.s is looked for"},
		{Assertion{JSON: "$.s", Equals: new("{{ json_escape(v) }}")}, answer(200, `{"s":"n\u00e9"}`), answer(200, doc), "its value at $.s does not equal"},
	} {
		u := mustCompile(t, Spec{Variables: map[string]string{"v": "né"}, Steps: []Step{{Name: "s", Path: "/", Assert: []Assertion{tt.assertion}}}}).Worker(whole, 1).User()
		got := script(t, u, tt.ok, tt.bad)
		if got[0] != "GET /" {
			t.Errorf("%+v: %s", tt.assertion, got[0])
		}
		if want := `GET / !assertion: step "s": ` + tt.failure; !strings.HasPrefix(got[1], want) {
			t.Errorf("%+v: %q, want %q", tt.assertion, got[1], want)
		}
	}
}

// Assertions and extractions look into what a body decodes to.
func TestDecodedBodies(t *testing.T) {
	const doc = `{"id":"17"}`
	coded := func(field string, body []byte) *Response {
		r := answer(200, string(body))
		for value := range strings.SplitSeq(field, "|") {
			r.Header = append(r.Header, HeaderField{Name: 0, Value: []byte(value)})
		}
		return r
	}
	decoded := coded("gzip", []byte(doc))
	decoded.Decoded = true
	gzip := codingtest.Encode("gzip", []byte(doc))
	bombField, bomb := codingtest.Bomb(1 << 20)
	const broken, tooLarge = "its body is not what its Content-Encoding says, or is cut off", "its body is longer than the 1000 bytes that max_body has kept"
	for _, tt := range []struct {
		name   string
		answer *Response
		want   string // what is wrong
	}{
		{"no field", answer(200, doc), ""},
		{"identity", coded("identity", []byte(doc)), ""},
		{"an empty field", coded("", []byte(doc)), ""},
		{"gzip", coded("gzip", gzip), ""},
		{"x-gzip, upper case", coded("X-GZIP", gzip), ""},
		{"deflate", coded("deflate", codingtest.Encode("deflate", []byte(doc))), ""},
		{"deflate without a header", coded("deflate", codingtest.Encode(codingtest.Raw, []byte(doc))), ""},
		{"br", coded("br", codingtest.Encode("br", []byte(doc))), ""},
		{"zstd", coded("zstd", codingtest.Encode("zstd", []byte(doc))), ""},
		{"two in one field", coded("br, gzip", codingtest.Encode("br, gzip", []byte(doc))), ""},
		{"two in two fields", coded("identity|zstd|gzip", codingtest.Encode("zstd, gzip", []byte(doc))), ""},
		{"decoded by the engine", decoded, ""},
		{"cut off", coded("gzip", gzip[:len(gzip)-1]), broken},
		{"another coding", coded("br", gzip), broken},
		{"not encoded", coded("zstd", []byte(doc)), broken},
		{"too many codings", coded("gzip,gzip,gzip,gzip,gzip", gzip), broken},
		{"unknown", coded("compress", gzip), "its body has a Content-Encoding that is none of gzip, deflate, br and zstd"},
		{"a bomb", coded(bombField, bomb), tooLarge},
		{"too large", coded("gzip", codingtest.Encode("gzip", make([]byte, 1001))), tooLarge},
		{"too large as it is sent", coded("gzip", make([]byte, 1001)), tooLarge},
		{"another value", coded("gzip", codingtest.Encode("gzip", []byte(`{"id":"18"}`))), `its value at $.id does not equal "17"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := mustCompile(t, Spec{Steps: []Step{{
				Name: "s", Path: "/{{ id }}", Once: true, MaxBody: 1000, Assert: []Assertion{{JSON: "$.id", Equals: new("17")}}, Extract: extract("id", "$.id"),
			}}, Variables: map[string]string{"id": ""}})
			if got := s.HeaderNames(); !slices.Equal(got, []string{"content-encoding"}) {
				t.Fatalf("the engine is to keep %q", got)
			}
			if int64(len(tt.answer.Body)) > 1000 {
				tt.answer.Body = tt.answer.Body[:1000]
			}
			want := "GET /"
			if tt.want != "" {
				want += ` !assertion: step "s": ` + tt.want
			}
			check(t, script(t, s.Worker(whole, 1).User(), tt.answer), []string{want})
		})
	}
}

// A coding is requested only for bodies that are read.
func TestUnreadBodies(t *testing.T) {
	s := mustCompile(t, Spec{Steps: []Step{{Name: "s", Path: "/", Headers: []Header{{"Accept-Encoding", "compress"}}, Assert: []Assertion{{Header: "Etag", Exists: true}}}}})
	if got := s.HeaderNames(); !slices.Equal(got, []string{"etag"}) {
		t.Errorf("the engine is to keep %q", got)
	}
}

func TestStatuses(t *testing.T) {
	u := mustCompile(t, Spec{Steps: []Step{{Name: "s", Path: "/", Status: "200-204, 404"}}}).Worker(whole, 1).User()
	check(t, script(t, u, answer(204, ""), answer(404, ""), answer(205, ""), answer(500, "")), []string{
		"GET /", "GET /", `GET / !assertion: step "s": its status is not among 200-204, 404`, `GET / !assertion: step "s": its status is not among 200-204, 404`,
	})
	u = mustCompile(t, Spec{Steps: []Step{get("s", "/")}}).Worker(whole, 1).User()
	check(t, script(t, u, answer(399, ""), answer(400, ""), answer(12345, "")), []string{"GET /", "GET / !status: status 400", "GET / !status: status 999"})
}

func TestBodyOnly(t *testing.T) {
	u := mustCompileFor(t, Spec{Steps: []Step{{Name: "s", Body: "ping", Assert: []Assertion{{Equals: new("pong")}}}}}, Protocol{BodyOnly: true}).Worker(whole, 1).User()
	check(t, script(t, u, answer(0, "pong"), answer(0, "x")), []string{"  ping", `  ping !assertion: step "s": its body does not equal "pong"`})
}

// A request that its values would break is not sent.
func TestUnsendableRequests(t *testing.T) {
	u := mustCompile(t, Spec{Variables: map[string]string{"v": ""}, Steps: []Step{
		{Name: "set", Path: "/", Extract: extract("v", "$")},
		{Name: "path", Path: "/{{ v }}"},
		{Name: "header", Path: "/{{ urlencode(v) }}", Headers: []Header{{"A", "{{ v }}"}, {"B", "{{ base64(v) }}"}}},
		{Name: "whole", Path: "{{ v }}"},
	}}).Worker(whole, 1).User()
	for _, tt := range []struct {
		value string
		bad   []string
	}{
		{"a", []string{"whole"}},
		{"/a?b=%20", nil},
		{"a b", []string{"path", "whole"}},
		{"a\r\nX: y", []string{"path", "header", "whole"}},
		{"é", []string{"path", "whole"}},
		{"", []string{"whole"}},
	} {
		script(t, u, answer(200, fmt.Sprintf("%q", tt.value)))
		var bad []string
		for _, name := range []string{"path", "header", "whole"} {
			r, err := next(u, 0)
			if err != nil {
				if bad = append(bad, name); err.Kind != wire.Generator || r == nil || !strings.HasPrefix(err.Text, fmt.Sprintf("step %q: the ", name)) {
					t.Errorf("%q: %v, %v", name, r, err)
				}
			}
			u.Failed()
		}
		if !slices.Equal(bad, tt.bad) {
			t.Errorf("%q cannot be sent in %v, want %v", tt.value, bad, tt.bad)
		}
	}
}

// A request's bytes are its owner's: no other user's request or response changes them.
func TestRequestsKeepTheirBytes(t *testing.T) {
	w := mustCompile(t, shop(t, rows(t, "users.csv", usersCSV), "sequential")).Worker(whole, 1)
	var ada, bob Request
	users := []*User{w.User(), w.User()}
	if _, err := users[0].Next(0, &ada); err != nil {
		t.Fatal(err)
	}
	before := line(assemble(w.s, &ada))
	for range 10 {
		if _, err := users[1].Next(0, &bob); err != nil {
			t.Fatal(err)
		}
		if err := users[1].Response(0, answer(200, `{"data":{"token":"T2"},"items":[{"id":13}],"id":"13"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if after := line(assemble(w.s, &ada)); after != before {
		t.Errorf("%q has become %q", before, after)
	}
	if err := users[0].Response(0, answer(200, `{"data":{"token":"T1"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := users[0].Next(0, &ada); err != nil || !strings.Contains(line(assemble(w.s, &ada)), "Bearer T1") {
		t.Errorf("%q, %v", line(assemble(w.s, &ada)), err)
	}
}

// An iteration is from Between to Between.
func TestBetween(t *testing.T) {
	login, a, b := Step{Name: "login", Once: true, Path: "/"}, get("a", "/"), get("b", "/")
	weighted := func(s Step) Step { s.Weight = 1; return s }
	needs := Step{Name: "needs", Path: "/{{ id }}"}
	gives := Step{Name: "gives", Path: "/", Extract: extract("id", "$.id")}
	for _, tt := range []struct {
		name  string
		steps []Step
		ok    string // of each response: y or n
		want  string // after each: whether the user is between two iterations
	}{
		{"in their order", []Step{a, b}, "yyyn", "nyny"},
		{"by weight", []Step{weighted(a), weighted(b)}, "yyn", "yyy"},
		{"once, then in their order", []Step{login, a, b}, "yyyyy", "nnyny"},
		{"once, then by weight", []Step{login, weighted(a)}, "yyy", "nyy"},
		{"once fails", []Step{login, a}, "nyy", "yny"},
		{"what others need fails", []Step{gives, needs}, "nn", "yy"},
	} {
		u := mustCompile(t, Spec{Steps: tt.steps}).Worker(whole, 1).User()
		if !u.Between() {
			t.Errorf("%s: not between iterations at the beginning", tt.name)
		}
		got := ""
		for _, ok := range tt.ok {
			if _, err := next(u, 0); err != nil || u.Between() {
				t.Errorf("%s: between iterations with a request under way; %v", tt.name, err)
			}
			if ok == 'y' {
				if err := u.Response(0, answer(200, `{"id":1}`)); err != nil {
					t.Errorf("%s: %v", tt.name, err)
				}
			} else {
				u.Failed()
			}
			if u.Between() {
				got += "y"
			} else {
				got += "n"
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// steps returns which steps a user takes.
func steps(u *User, n int) (names []string) {
	for range n {
		r, _ := next(u, 0)
		if r == nil {
			return append(names, "end")
		}
		names = append(names, u.w.s.steps[r.Step].info.Name)
		if err := u.Response(0, answer(200, "")); err != nil {
			return append(names, err.Error())
		}
	}
	return names
}

func TestOnlyOnce(t *testing.T) {
	w := mustCompile(t, Spec{Steps: []Step{{Name: "a", Once: true, Path: "/"}, {Name: "b", Once: true, Path: "/"}}}).Worker(whole, 1)
	u := w.User()
	check(t, steps(u, 9), []string{"a", "b", "end"})
	check(t, steps(u, 9), []string{"end"})
	if u.Restart(); u.number != 1 {
		t.Errorf("user %d, want 1", u.number)
	}
	check(t, steps(u, 9), []string{"a", "b", "end"})
}

// Steps are drawn by weight: chi-squared with two degrees of freedom at the 0.1 % level,
// with a fixed seed.
func TestMixOfSteps(t *testing.T) {
	w := mustCompile(t, Spec{Steps: []Step{
		{Name: "once", Once: true, Path: "/"}, {Name: "a", Weight: 70, Path: "/"}, {Name: "b", Weight: 25, Path: "/"}, {Name: "c", Weight: 5, Path: "/"},
	}}).Worker(whole, 1)
	const n = 20_000
	counts := map[string]float64{}
	first := steps(w.User(), n+1)
	for i, name := range first {
		if (name == "once") != (i == 0) {
			t.Fatalf("%s at %d", name, i)
		}
		counts[name]++
	}
	var chi float64
	for name, share := range map[string]float64{"a": 0.7, "b": 0.25, "c": 0.05} {
		d := counts[name] - share*n
		chi += d * d / (share * n)
	}
	if chi > 13.8 {
		t.Errorf("%v: chi-squared %.1f", counts, chi)
	}
	if slices.Equal(first[:50], steps(w.User(), 50)) {
		t.Error("two users draw the same steps")
	}
}

// The next user takes the next of the steps in turn. Each worker goes through all of them, so that a
// slow one leaves none out.
func TestStepsInTurn(t *testing.T) {
	s := mustCompile(t, Spec{InTurn: true, Steps: []Step{
		{Name: "once", Once: true, Path: "/"}, get("a", "/"), get("b", "/"), get("c", "/"),
	}})
	w := s.Worker(whole, 1)
	one, two := w.User(), w.User()
	check(t, steps(one, 3), []string{"once", "a", "b"})
	check(t, steps(two, 3), []string{"once", "c", "a"})
	check(t, steps(one, 2), []string{"b", "c"})
	if !one.Between() {
		t.Error("an iteration is more than a step")
	}
	check(t, steps(s.Worker(pace.Shard{Index: 1, Count: 3}, 1).User(), 5), []string{"once", "b", "c", "a", "b"})
}

// Each flow has about its share of any number of users, whatever the seed and the shards.
func TestMixOfFlows(t *testing.T) {
	spec := Spec{Flows: []Flow{
		{Name: "a", Weight: 6, Steps: []Step{get("a", "/")}}, {Name: "b", Weight: 3, Steps: []Step{get("b", "/")}}, {Name: "c", Steps: []Step{get("c", "/")}},
	}}
	s := mustCompile(t, spec)
	for seed := range uint64(20) {
		flows := map[uint64]string{}
		for i := range 3 {
			w := s.Worker(pace.Shard{Index: i, Count: 3}, seed)
			for range 100 {
				u := w.User()
				flows[u.number] = steps(u, 1)[0]
			}
		}
		counts := map[string]int{}
		for n := range uint64(300) {
			counts[flows[n]]++
			for name, share := range map[string]float64{"a": 0.6, "b": 0.3, "c": 0.1} {
				if off := math.Abs(float64(counts[name]) - share*float64(n+1)); off > 3 {
					t.Fatalf("seed %d: of %d users %d take flow %s", seed, n+1, counts[name], name)
				}
			}
		}
		other := s.Worker(whole, seed)
		for n := range uint64(50) {
			if got := steps(other.User(), 1)[0]; got != flows[n] {
				t.Fatalf("seed %d: user %d takes %s, and %s in another shard", seed, n, got, flows[n])
			}
		}
	}
}

func TestFeeds(t *testing.T) {
	var text strings.Builder
	text.WriteString("n,unused\n")
	for i := range 6 {
		fmt.Fprintf(&text, "%d,x\n", i)
	}
	numbers := rows(t, "n.csv", text.String())
	loop := []Step{{Name: "a", Path: "/a/{{ n }}"}, {Name: "b", Path: "/b/{{ f.n }}"}, get("c", "/c")}
	once := append([]Step{{Name: "o", Once: true, Path: "/o/{{ n }}"}}, loop...)
	ok := answer(200, "")
	for _, tt := range []struct {
		name  string
		data  Data
		steps []Step
		want  []string // of two users in turn
	}{
		{"a row for each iteration", Data{}, loop, []string{"/a/0", "/a/1", "/b/0", "/b/1", "/c", "/c", "/a/2", "/a/3", "/b/2", "/b/3"}},
		{"a row for each user", Data{Per: "user"}, loop, []string{"/a/0", "/a/1", "/b/0", "/b/1", "/c", "/c", "/a/0", "/a/1"}},
		{"a row for each user, as it is needed once", Data{}, once, []string{"/o/0", "/o/1", "/a/0", "/a/1", "/b/0", "/b/1", "/c", "/c", "/a/0", "/a/1"}},
	} {
		tt.data.Name, tt.data.File = "f", numbers
		w := mustCompile(t, Spec{Data: []Data{tt.data}, Steps: tt.steps}).Worker(whole, 1)
		users := []*User{w.User(), w.User()}
		for i, want := range tt.want {
			if got := script(t, users[i%2], ok)[0]; got != "GET "+want {
				t.Errorf("%s: %d: %s, want %s", tt.name, i, got, want)
			}
		}
	}

	// When the rows end, users that need one end too.
	w := mustCompile(t, Spec{Data: []Data{{Name: "f", File: numbers, End: "stop"}}, Steps: append([]Step{get("first", "/first")}, loop[0])}).Worker(pace.Shard{Index: 1, Count: 4}, 1)
	u := w.User()
	check(t, script(t, u, ok, ok, ok, ok, ok, ok, ok), []string{"GET /first", "GET /a/1", "GET /first", "GET /a/5", "GET /first", "end"})
	check(t, script(t, u, ok), []string{"end"})
	if w.Err() != nil {
		t.Error(w.Err())
	}
	u.Restart()
	check(t, script(t, u, ok, ok), []string{"GET /first", "end"})
}

// A file that is cut off while it is in use ends the users, and the worker says why.
func TestFeedThatFails(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows lets nobody change a file that is mapped")
	}
	numbers := rows(t, "n.csv", "n\n"+strings.Repeat("12345678\n", 1_000_000))
	w := mustCompile(t, Spec{Data: []Data{{Name: "f", File: numbers}}, Steps: []Step{get("s", "/{{ n }}")}}).Worker(whole, 1)
	u := w.User()
	check(t, script(t, u, answer(200, "")), []string{"GET /12345678"})
	if err := os.Truncate(numbers, 2); err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, _ := next(u, 0); r != nil; r, _ = next(u, 0) {
		n++
	}
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), "the file has changed since it was opened") || n > 100_000 {
		t.Errorf("after %d requests: %v", n, err)
	}
}

func TestRestart(t *testing.T) {
	w := mustCompile(t, Spec{
		Cookies: true, Variables: map[string]string{"v": "first"},
		Steps: []Step{{Name: "s", Path: "/{{ v }}", Extract: extract("v", "$.v")}},
	}).Worker(pace.Shard{Index: 1, Count: 2}, 1)
	u := w.User()
	cookie := HeaderField{Name: 0, Value: []byte("a=1")}
	check(t, script(t, u, answer(200, `{"v":"x"}`, cookie), nil), []string{"GET /first", "GET /x Cookie:a=1"})
	w.User()
	if u.Restart(); u.number != 5 {
		t.Errorf("user %d, want 5", u.number)
	}
	check(t, script(t, u, nil), []string{"GET /first"})
}

// The iterations of a user have numbers, and so have those of all users of a worker. Steps that are carried out once, and
// failed log-ins, belong to the first iteration. What is skipped is an iteration, too.
func TestIterationsHaveNumbers(t *testing.T) {
	const path = `/{{ user() }}/{{ iteration() }}/{{ iteration("all") }}`
	s := mustCompile(t, Spec{Steps: []Step{
		{Name: "login", Once: true, Path: "/login" + path}, {Name: "odd", If: "iteration() != 1", Path: "/a" + path}, get("b", "/b"+path),
	}})
	w := s.Worker(pace.Shard{Index: 1, Count: 2}, 1)
	ok := func() *Response { return answer(200, "") }
	u := w.User()
	check(t, script(t, u, answer(500, ""), ok(), ok(), ok(), ok()), []string{"GET /login/2/0/1 !status: status 500", "GET /login/2/0/1", "GET /a/2/0/1", "GET /b/2/0/1", "GET /b/2/1/3"})
	other := w.User()
	check(t, script(t, other, ok(), ok()), []string{"GET /login/4/0/5", "GET /a/4/0/5"})
	check(t, script(t, u, ok(), nil), []string{"GET /a/2/2/7", "GET /b/2/2/7"})
	u.Restart()
	check(t, script(t, u, ok()), []string{"GET /login/6/0/9"})
}

// Users of flows that have workers of their own have numbers of their own.
func TestUsersOfFlowsHaveNumbers(t *testing.T) {
	s := mustCompile(t, Spec{Flows: []Flow{{Name: "a", Steps: []Step{get("a", "/{{ user() }}")}}, {Name: "b", Steps: []Step{get("b", "/{{ user() }}")}}}})
	for flow, want := range []string{"GET /1 GET /3 GET /5", "GET /2 GET /4 GET /6"} {
		w := s.Worker(whole, 1)
		w.Only(flow)
		var got []string
		for range 3 {
			r, _ := next(w.User(), 0)
			got = append(got, line(r))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("flow %d: %q, want %s", flow, got, want)
		}
	}
}

// Next without a word on the request before takes it for failed; what comes without a
// request is passed over.
func TestOutOfTurn(t *testing.T) {
	u := mustCompile(t, Spec{Steps: []Step{get("a", "/a"), get("b", "/b")}}).Worker(whole, 1).User()
	if err := u.Response(0, answer(500, "")); err != nil {
		t.Error(err)
	}
	u.Failed()
	for _, want := range []string{"GET /a", "GET /b", "GET /a"} {
		if r, _ := next(u, 0); line(r) != want {
			t.Errorf("%s, want %s", line(r), want)
		}
	}
}

// A feed that has ended ends the flows that need it. Further users of the worker take the others.
func TestFlowsWithoutRows(t *testing.T) {
	numbers := rows(t, "n.csv", "n\n0\n1\n2\n")
	w := mustCompile(t, Spec{
		Data: []Data{{Name: "f", File: numbers, End: "stop"}},
		Flows: []Flow{
			{Name: "rows", Weight: 8, Steps: []Step{get("a", "/{{ n }}")}},
			{Name: "b", Weight: 1, Steps: []Step{get("b", "/b")}},
			{Name: "c", Weight: 3, Steps: []Step{get("c", "/c")}},
		},
	}).Worker(whole, 1)
	ok := answer(200, "")
	u := w.User()
	for script(t, u, ok)[0] == "GET /b" || u.chosen != 0 {
		u.Restart()
	}
	if w.Dry() {
		t.Error("dry before the rows have ended")
	}
	for script(t, u, ok)[0] != "end" {
		if w.Dry() || u.Dry() {
			t.Error("dry before the rows have ended")
		}
	}
	if !u.Dry() || w.Dry() {
		t.Errorf("the user is dry: %v, the worker: %v", u.Dry(), w.Dry())
	}
	seen := map[string]int{}
	for range 400 {
		u.Restart()
		seen[script(t, u, ok)[0]]++
	}
	if seen["GET /b"] < 95 || seen["GET /b"] > 105 || seen["GET /c"] != 400-seen["GET /b"] {
		t.Errorf("%v, want a quarter and three quarters", seen)
	}
}
