package rest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestSchemaIsKept: the server takes no document or parameter that its description has not,
// and says which place of it is wrong.
func TestSchemaIsKept(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "PUT", "/v1/configs/c", `{"content":"x"}`)
	b.want(201, "", "PUT", "/v1/services/s/instances/i", `{"address":"10.0.0.1","port":80}`)
	for _, c := range []struct{ method, path, body, pointer string }{
		{"PUT", "/v1/configs/c", `{}`, "#/content"},
		{"PUT", "/v1/configs/c", `null`, "#"},
		{"PUT", "/v1/configs/c", `{"content":null}`, "#/content"},
		{"PUT", "/v1/configs/c", `{"content":"x","labels":null}`, "#/labels"},
		{"PUT", "/v1/configs/c", `{"content":"x","content_type":"text"}`, "#/content_type"},
		{"PUT", "/v1/configs/c/release", `{"percent":5}`, "#/content"},
		{"PUT", "/v1/policies/p", `{"rules":[{"action":"deny"},{"action":"allow","match":null}]}`, "#/rules/1/match"},
		{"PUT", "/v1/policies/p", `{"rules":null}`, "#/rules"},
		{"PUT", "/v1/services/s/instances/i", `{"address":"10.0.0.1","port":80,"metadata":{"a/b":null}}`, "#/metadata/a~1b"},
		{"POST", "/v1/heartbeats", `{}`, "#/instances"},
		{"POST", "/v1/heartbeats", `{"instances":null}`, "#/instances"},
		{"POST", "/v1/acks", `{"client":"a"}`, "#/acks"},
		{"POST", "/v1/acks", `{"client":"a\u0000","acks":[]}`, "#"},
		{"POST", "/v1/acks", `{"client":"a","acks":[{"kind":"other","name":"a","version":1,"state":"applied"}]}`, "#/acks/0"},
		{"POST", "/v1/acks", `{"client":"a","acks":[{"kind":"policy","name":"a","id":"b","version":1,"state":"applied"}]}`, "#/acks/0"},
	} {
		if a := b.want(422, "invalid", c.method, c.path, c.body); a.field(t, "errors", 0, "pointer") != c.pointer {
			t.Errorf("%s %s: %s, want %s", c.path, c.body, a.body, c.pointer)
		}
	}
	for _, path := range []string{"services?namespace=A", "policies?namespace=-", "rollouts/configs?namespace=a.b", "services/s/instances?status=asleep", "configs/c/content?client=%01", "audit?from=", "policies?limit=", "policies?stale=", "watch?wait="} {
		b.want(400, "parameter", "GET", "/v1/"+path, "")
	}
	if got := b.want(200, "", "GET", "/v1/configs/c", ""); got.field(t, "content") != "x" || got.field(t, "version") != 1.0 {
		t.Errorf("it was changed: %s", got.body)
	}
	b.want(200, "", "PUT", "/v1/configs/c", `{"content":"null"}`)
	b.want(200, "", "PUT", "/v1/configs/c", `{"content":""}`)
}

// TestUncleanPaths: a path with empty or dotted parts is none, rather than a page that says
// where to go.
func TestUncleanPaths(t *testing.T) {
	b := newBed(t, nil)
	for _, path := range []string{"/v1//policies", "//v1/policies", "/v1/./policies", "/v1/configs/%2e%2e/policies", "/v1/policies/"} {
		b.want(404, "path", "GET", path, "")
	}
}

// TestSecurityIsDescribed: credentials are described where they are needed, and only there.
func TestSecurityIsDescribed(t *testing.T) {
	for name, c := range map[string]struct {
		b    *bed
		want string
	}{
		"nobody is known": {newBed(t, nil), `[{}]`},
		"principals":      {withBook(t, nil), `[{"token":[]},{"certificate":[]}]`},
	} {
		var document struct {
			Security json.RawMessage `json:"security"`
		}
		if err := json.Unmarshal(c.b.api.document, &document); err != nil {
			t.Fatal(err)
		}
		if string(document.Security) != c.want {
			t.Errorf("%s: %s, want %s", name, document.Security, c.want)
		}
	}
}

// TestSchemas: each schema of the description is one, and takes what it should.
func TestSchemas(t *testing.T) {
	b := newBed(t, nil)
	for _, c := range []struct {
		schema, text string
		valid        bool
	}{
		{"Rule", `{"action":"allow"}`, true},
		{"Rule", `{"action":"allow","timeout_seconds":1}`, false},
		{"Rule", `{"action":"limit"}`, false},
		{"Rule", `{"action":"limit","limit":{"requests_per_second":0.5}}`, true},
		{"Rule", `{"action":"route","route":[{"service":"a","weight":0}]}`, false},
		{"Rule", `{"action":"route","route":[{"service":"a","weight":0},{"service":"b","weight":1}]}`, true},
		{"Release", `{"content":"x"}`, false},
		{"Release", `{"content":"x","percent":0}`, false},
		{"Release", `{"content":"x","labels":{"a":["b"]}}`, true},
		{"ConfigInput", `{"content":"x","content_type":"text/plain; a=\"\\\"b\""}`, true},
		{"ConfigInput", `{"content":"x","content_type":"text"}`, false},
		{"ConfigInput", `{"content_base64":"/w=="}`, true},
		{"ConfigInput", `{"content":"","content_base64":"/w==","name":""}`, true},
		{"ConfigInput", `{"content":"x","content_base64":"/w=="}`, false},
		{"ConfigInput", `{"content_base64":""}`, false},
		{"ConfigInput", `{"content_base64":"/"}`, false},
		{"Release", `{"content_base64":"/w==","percent":5}`, true},
		{"Release", `{"content_base64":"/w=="}`, false},
		{"ConfigNew", `{"name":"app/größe","content":"x"}`, true},
		{"ConfigNew", `{"name":"app//x","content":"x"}`, false},
		{"InstanceInput", `{"address":"a..b","port":1}`, false},
		{"InstanceInput", `{"address":"a.b","port":1,"status":"","ttl_seconds":0,"namespace":"","version":0}`, true},
		{"PolicyNew", `{"rules":[]}`, false},
		{"PolicyInput", `{"rules":[]}`, true},
		{"Acks", `{"client":"a","acks":[{"kind":"instance","name":"a","version":1,"state":"applied"}]}`, false},
	} {
		schema, err := b.schema.compiler.Compile(documentURL + "#/components/schemas/" + c.schema)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != c.valid {
			t.Errorf("%s %s: %v", c.schema, c.text, err)
		}
		// What the schema has, the server has.
		place, ok := map[string][2]string{"Rule": {"PUT", "/v1/policies/x"}, "ConfigInput": {"PUT", "/v1/configs/x"}, "ConfigNew": {"POST", "/v1/configs"}, "Release": {"PUT", "/v1/configs/x/release"}, "InstanceInput": {"PUT", "/v1/services/x/instances/x"}, "PolicyNew": {"POST", "/v1/policies"}, "PolicyInput": {"PUT", "/v1/policies/x"}, "Acks": {"POST", "/v1/acks"}}[c.schema]
		if !ok {
			t.Fatalf("%s: nowhere", c.schema)
		}
		body := c.text
		if c.schema == "Rule" {
			body = `{"rules":[` + c.text + `]}`
		}
		if a := b.do(place[0], place[1], body); (a.status == 422) == c.valid {
			t.Errorf("%s %s: %d %s", c.schema, c.text, a.status, a.body)
		}
	}
}

// TestDescriptionIsWhole: what is referred to is there, and each parameter has a place.
func TestDescriptionIsWhole(t *testing.T) {
	b := newBed(t, nil)
	var document map[string]any
	if err := json.Unmarshal(b.api.document, &document); err != nil {
		t.Fatal(err)
	}
	schemas := document["components"].(map[string]any)["schemas"].(map[string]any)
	operations := 0
	var check func(at string, v any)
	check = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				check(at, one)
			}
		case map[string]any:
			if v["operationId"] != nil {
				operations++
			}
			if name, ok := v["$ref"].(string); ok && schemas[strings.TrimPrefix(name, "#/components/schemas/")] == nil {
				t.Errorf("%s: no %s", at, name)
			}
			if place, ok := v["in"]; ok && v["name"] != nil && place == "" {
				t.Errorf("%s: no parameter %v", at, v["name"])
			}
			for name, one := range v {
				check(at+"/"+name, one)
			}
		}
	}
	check("", document)
	if operations != len(b.api.routes) {
		t.Errorf("%d operations of %d are described", operations, len(b.api.routes))
	}
}
