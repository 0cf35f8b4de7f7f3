package rest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"dyno/internal/leak"
	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/store"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A bed is an API on its own store, with a client that checks every response against the description.
type bed struct {
	t      *testing.T
	api    *API
	plane  *plane.Plane
	store  *store.Store
	server *httptest.Server
	schema *description
	token  string
}

func newBed(t *testing.T, change func(*Config, *plane.Config)) *bed {
	t.Helper()
	c, pc := Defaults(), plane.Defaults()
	if change != nil {
		change(&c, &pc)
	}
	if c.Gate != nil {
		pc.Book = c.Gate.Book
	}
	var s *store.Store
	if c.Plane == nil {
		c.Plane, s = planetest.Open(t, pc)
	}
	api, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	t.Cleanup(func() {
		api.Close()
		server.Close()
	})
	return &bed{t: t, api: api, plane: c.Plane, store: s, server: server, schema: describe(t, api.document)}
}

// A description is the OpenAPI document, ready to check with.
type description struct {
	paths map[string]map[string]operation

	mu       sync.Mutex // guards compiler
	compiler *jsonschema.Compiler
}

type operation struct {
	ID          string `json:"operationId"`
	RequestBody *struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

const documentURL = "urn:test:openapi.json"

func describe(t *testing.T, document []byte) *description {
	t.Helper()
	d := &description{compiler: jsonschema.NewCompiler()}
	var paths struct {
		Paths map[string]map[string]operation `json:"paths"`
	}
	if err := json.Unmarshal(document, &paths); err != nil {
		t.Fatal(err)
	}
	d.paths = paths.Paths
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.compiler.AddResource(documentURL, parsed); err != nil {
		t.Fatal(err)
	}
	return d
}

// find returns the operation of a request.
func (d *description) find(method, path string) *operation {
	asked := strings.Split(path, "/")
	for template, operations := range d.paths {
		parts := strings.Split(template, "/")
		if len(parts) != len(asked) {
			continue
		}
		same := true
		for i := range parts {
			same = same && (parts[i] == asked[i] || strings.HasPrefix(parts[i], "{"))
		}
		if o, ok := operations[strings.ToLower(method)]; same && ok {
			return &o
		}
	}
	return nil
}

// validate holds a document to a schema of the description.
func (d *description) validate(t *testing.T, what string, schema map[string]any, body []byte) {
	t.Helper()
	pointer, ok := schema["$ref"].(string)
	if !ok {
		return // text, or any object
	}
	d.mu.Lock()
	compiled, err := d.compiler.Compile(documentURL + pointer)
	d.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Errorf("%s: %v: %s", what, err, body)
		return
	}
	if err := compiled.Validate(value); err != nil {
		t.Errorf("%s: %v\n%s", what, err, body)
	}
}

// An answer is one to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// field is a value of a JSON answer, by its path of names and numbers.
func (a answer) field(t *testing.T, path ...any) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(a.body, &value); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := value.(map[string]any)
			if !ok {
				t.Fatalf("no %v in %s", path, a.body)
			}
			value = m[p]
		case int:
			l, ok := value.([]any)
			if !ok || p >= len(l) {
				t.Fatalf("no %v in %s", path, a.body)
			}
			value = l[p]
		}
	}
	return value
}

// do asks, and holds the answer to the description. Header fields are name, value, name,
// value.
func (b *bed) do(method, path, body string, header ...string) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	got, err := b.server.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	a := answer{got.StatusCode, got.Header, text}
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		body = "" // the description knows no more than that it is binary
	}
	b.check(method, path, body, a)
	return a
}

// check holds an answer to the description.
func (b *bed) check(method, path, body string, a answer) {
	b.t.Helper()
	what := fmt.Sprintf("%s %s: %d", method, path, a.status)
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if a.status >= 400 {
		if kind != "application/problem+json" {
			b.t.Errorf("%s: %s: %s", what, kind, a.body)
			return
		}
		b.schema.validate(b.t, what, ref("Problem"), a.body)
		if a.field(b.t, "status") != float64(a.status) || !slices.Contains(kinds(), problemKind(b.t, a)) {
			b.t.Errorf("%s: %s", what, a.body)
		}
		return
	}
	bare, _, _ := strings.Cut(path, "?")
	o := b.schema.find(method, bare)
	if o == nil {
		b.t.Errorf("%s: is not described", what)
		return
	}
	response, ok := o.Responses[strconv.Itoa(a.status)]
	if !ok {
		b.t.Errorf("%s: the status is not described", what)
		return
	}
	if len(response.Content) == 0 {
		if len(a.body) > 0 {
			b.t.Errorf("%s: a body that is not described: %s", what, a.body)
		}
		return
	}
	if o.ID == "configContent" {
		return // of any type
	}
	content, ok := response.Content[kind]
	if !ok {
		b.t.Errorf("%s: %s is not described", what, kind)
		return
	}
	if kind == "application/json" {
		b.schema.validate(b.t, what, content.Schema, a.body)
	}
	if o.RequestBody != nil && body != "" {
		b.schema.validate(b.t, what+", its request", o.RequestBody.Content["application/json"].Schema, []byte(body))
	}
}

func problemKind(t *testing.T, a answer) string {
	t.Helper()
	text, _ := a.field(t, "type").(string)
	return strings.TrimPrefix(text, typePrefix)
}

// want asks, and wants a status; a kind of problem for statuses from 400.
func (b *bed) want(status int, problem, method, path, body string, header ...string) answer {
	b.t.Helper()
	a := b.do(method, path, body, header...)
	if a.status != status {
		b.t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	if status >= 400 && problemKind(b.t, a) != problem {
		b.t.Errorf("%s %s: %s, want %s", method, path, a.body, problem)
	}
	return a
}

// An event is one as a client reads it.
type event struct {
	id, kind, data string
	comment        bool
}

// A stream is a client's side of a watch.
type stream struct {
	t    *testing.T
	resp *http.Response
	r    *bufio.Reader
}

func (b *bed) stream(query string, header ...string) *stream {
	b.t.Helper()
	return b.follow("/v1/watch?"+query, header...)
}

func (b *bed) follow(path string, header ...string) *stream {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.server.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	got, err := b.server.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { got.Body.Close() })
	if got.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %d", path, got.StatusCode)
	}
	return &stream{b.t, got, bufio.NewReader(got.Body)}
}

func (s *stream) next() (e event) {
	s.t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "":
			return e
		case ":":
			return event{comment: true}
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		default:
			s.t.Fatalf("line %q", line)
		}
	}
}

// want reads events, each as "kind name version", and returns the last one's id.
func (s *stream) want(list ...string) (id string) {
	s.t.Helper()
	for _, want := range list {
		e := s.next()
		for e.comment {
			e = s.next()
		}
		got := e.kind
		if e.kind == "put" || e.kind == "remove" {
			var t changeEvent
			if err := json.Unmarshal([]byte(e.data), &t); err != nil {
				s.t.Fatal(err)
			}
			got = fmt.Sprintf("%s %s %d", t.Type, t.Name, t.Version)
		}
		if got != want {
			s.t.Fatalf("event %q (%s), want %q", got, e.data, want)
		}
		id = e.id
	}
	return id
}

func escaped(text string) string { return url.QueryEscape(text) }
