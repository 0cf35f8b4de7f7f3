package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"dyno/cli/imports/draft"
)

// openAPI has no tool that sends. A library for servers judges instead: it decodes each request by the description. There,
// each value has its example as the only one that is allowed.
var openAPI = tool{format: "openapi"}

// asJSON is an object of JSON.
type asJSON = map[string]any

func TestOpenAPIGenerated(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	requests, listed := 0, 0
	for n := range generatedInputs {
		d := descriptionOf{r: rand.New(rand.NewPCG(uint64(n), 2))} //nolint:gosec // the same each time
		text, err := json.MarshalIndent(d.make(), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "api.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		sent, items := openAPI.sent(t, newServer(t), dir, "api.json")
		t.Chdir(root)
		faults := judged(t, text, sent)
		requests += len(sent)
		switch {
		case len(faults) == 0:
		case hasLine(items):
			listed++
			t.Logf("input %d: %v\nthe list:\n%s", n, faults, texts(items))
		default:
			t.Errorf("input %d: %s\n%s\nthe list:\n%s", n, strings.Join(faults, "\n"), text, texts(items))
		}
	}
	t.Logf("openapi: %d generated inputs with %d requests: %d with listed differences", generatedInputs, requests, listed)
}

// hasLine tells whether a list is about a part of a file.
func hasLine(items []draft.Item) bool {
	for _, i := range items {
		if i.Line > 0 {
			return true
		}
	}
	return false
}

// judged returns what is wrong with requests by a description.
func judged(t *testing.T, text []byte, sent []request) (faults []string) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := doc.Paths.Len(); len(sent) != want {
		faults = append(faults, fmt.Sprintf("%d requests were sent, want %d", len(sent), want))
	}
	for _, r := range sent {
		target, err := url.Parse(r.target)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		found := false
		for template, item := range doc.Paths.Map() {
			values, is := pathValues(template, target.EscapedPath())
			operation := item.Operations()[r.method]
			if !is || operation == nil {
				continue
			}
			found = true
			in, err := http.NewRequestWithContext(t.Context(), r.method, r.target, bytes.NewReader(r.body))
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range r.header {
				name, value, _ := strings.Cut(field, ": ")
				in.Header.Add(name, value)
			}
			err = openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
				Request: in, PathParams: values,
				Route: &routers.Route{Spec: doc, Path: template, PathItem: item, Method: r.method, Operation: operation},
			})
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s %s %q: %v", r.method, r.target, r.body, err))
			}
		}
		if !found {
			faults = append(faults, r.method+" "+r.target+" is not described")
		}
	}
	return faults
}

// pathValues returns the parameters of a path.
func pathValues(template, path string) (map[string]string, bool) {
	names := regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(template, -1)
	pattern := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(template), `([^/]*)`)
	m := regexp.MustCompile(`^` + pattern + `$`).FindStringSubmatch(path)
	if m == nil {
		return nil, false
	}
	values := map[string]string{}
	for i, name := range names {
		text, err := url.PathUnescape(m[i+1])
		if err != nil {
			return nil, false
		}
		values[name[1]] = text
	}
	return values, true
}

// A descriptionOf makes the description of an API at random.
type descriptionOf struct{ r *rand.Rand }

func (d *descriptionOf) make() asJSON {
	paths := asJSON{}
	for n := range 1 + d.r.IntN(3) {
		operation := asJSON{"responses": asJSON{"200": asJSON{"description": "ok"}}}
		path := fmt.Sprintf("/p%d", n)
		var parameters []asJSON
		for i := range d.r.IntN(5) {
			p := d.parameter(fmt.Sprintf("v%d", i))
			if p["in"] == "path" {
				path += fmt.Sprintf("/{v%d}", i)
			}
			parameters = append(parameters, p)
		}
		if parameters != nil {
			operation["parameters"] = parameters
		}
		method := choose(d.r, "get", "post", "put", "patch", "delete")
		if method != "get" && method != "delete" {
			operation["requestBody"] = asJSON{"required": true, "content": d.content()}
		}
		paths[path] = asJSON{method: operation}
	}
	return asJSON{"openapi": "3.0.3", "info": asJSON{"title": "t", "version": "1"}, "servers": []asJSON{{"url": "http://" + written}}, "paths": paths}
}

// only returns the schema of one value.
func only(kind string, value any) asJSON { return asJSON{"type": kind, "enum": []any{value}} }

// scalar returns a value with its schema. A safe one has no characters that styles have between values.
func (d *descriptionOf) scalar(safe bool) (value any, schema asJSON) {
	switch d.r.IntN(4) {
	case 0:
		value = d.r.IntN(100000000)
		return value, only("integer", value)
	case 1:
		return true, only("boolean", true)
	}
	text := choose(d.r, word(d.r), "yes", "é", "a&b", "100%", "@me", "<x", "{{ a }}", "a+b", "1e3", "%41", "#", "a?b", "x/y")
	if !safe && d.r.IntN(2) == 0 {
		text = choose(d.r, "a b", "a,b", "a|b", "k=v", "a;b", ".a")
	}
	return text, only("string", text)
}

// value returns a value with its schema: a scalar, an array or an object.
func (d *descriptionOf) value() (value any, schema asJSON) {
	switch d.r.IntN(3) {
	case 0:
		return d.scalar(false)
	case 1:
		var items []any
		for range 1 + d.r.IntN(3) {
			items = append(items, choose(d.r, word(d.r), "é", "a&b", "100%", "@x", "a+b"))
		}
		return items, asJSON{"type": "array", "items": asJSON{"type": "string"}, "enum": []any{items}}
	}
	value, schema = asJSON{}, asJSON{}
	for i := range 1 + d.r.IntN(2) {
		name := fmt.Sprintf("m%d%s", i, word(d.r))
		value.(asJSON)[name], schema[name] = d.scalar(true) //nolint:errcheck // it was made above
	}
	return value, asJSON{"type": "object", "properties": schema, "required": slices.Sorted(maps.Keys(schema))}
}

// rules returns a schema without an example: the import has to make a value of it.
func (d *descriptionOf) rules(depth int) asJSON {
	const all, scalars = 11, 7
	n := d.r.IntN(all)
	if depth > 2 {
		n = d.r.IntN(scalars)
	}
	low := d.r.IntN(40) - 20
	switch n {
	case 0:
		return asJSON{"type": "integer", "minimum": low, "maximum": low + 10, "exclusiveMinimum": d.r.IntN(2) == 0, "multipleOf": 1 + d.r.IntN(4)}
	case 1:
		return asJSON{"type": "number", "minimum": float64(low) / 8, "exclusiveMinimum": d.r.IntN(2) == 0, "maximum": float64(low)/8 + 0.5, "exclusiveMaximum": d.r.IntN(2) == 0}
	case 2:
		return asJSON{"type": "string", "minLength": d.r.IntN(9), "maxLength": 8 + d.r.IntN(3)}
	case 3:
		return asJSON{"type": "string", "pattern": choose(d.r, `^[a-z]{3}$`, `^\d+-(x|y)\w*$`, `^(ab)+c?$`, `[^a-z]`, `^\S+@\S+\.\w{2,}$`, `^v(?:0|[1-9]\d*)\.\d$`)}
	case 4:
		return asJSON{"type": "string", "format": choose(d.r, "date", "date-time", "uuid", "email", "ipv4", "byte")}
	case 5:
		return asJSON{"type": "integer", "maximum": low, "nullable": true}
	case 6:
		return asJSON{"type": "string", "enum": []any{word(d.r), word(d.r)}}
	case 7:
		return asJSON{"type": "array", "items": d.rules(depth + 1), "minItems": 1, "maxItems": 3}
	case 8:
		return asJSON{"allOf": []any{d.object(depth, "a"), d.object(depth, "b"), asJSON{"allOf": []any{d.object(depth, "c")}}}}
	case 9:
		return asJSON{choose(d.r, "oneOf", "anyOf"): []any{d.object(depth, "a"), d.object(depth, "b")}}
	}
	return d.object(depth, "a")
}

// object returns the rules of an object that has one property of this name.
func (d *descriptionOf) object(depth int, name string) asJSON {
	return asJSON{"type": "object", "required": []string{name}, "properties": asJSON{name: d.rules(depth + 1), "never" + name: asJSON{"type": "string", "readOnly": true}}}
}

func (d *descriptionOf) parameter(name string) asJSON {
	value, schema := d.value()
	p := asJSON{"name": name, "required": true, "schema": schema, "example": value}
	kind := schema["type"]
	switch p["in"] = choose(d.r, "path", "query", "query", "query", "header", "cookie"); p["in"] {
	case "path":
		p["style"], p["explode"] = choose(d.r, "simple", "label", "matrix"), d.r.IntN(2) == 0
	case "query":
		if p["style"], p["explode"] = "form", d.r.IntN(2) == 0; kind == "array" {
			p["style"] = choose(d.r, "form", "spaceDelimited", "pipeDelimited")
		} else if kind == "object" && d.r.IntN(2) == 0 {
			p["style"], p["explode"] = "deepObject", true
		}
	case "header":
		p["name"], p["explode"] = "X-"+name, d.r.IntN(2) == 0
	case "cookie": // the library decodes nothing here
		value = word(d.r)
		p["schema"], p["example"] = only("string", value), value
	}
	return p
}

// content returns the content of a request, with a property of each kind.
func (d *descriptionOf) content() asJSON {
	kind := choose(d.r, "application/json", "application/json", "application/json; charset=utf-8", "multipart/form-data", "application/x-www-form-urlencoded")
	properties := asJSON{}
	for i := range 1 + d.r.IntN(3) {
		_, property := d.value()
		if strings.Contains(kind, "urlencoded") { // the library knows no objects and no allOf in it
			_, property = d.scalar(false)
		}
		if strings.Contains(kind, "json") && d.r.IntN(2) == 0 {
			property = d.rules(0)
		}
		properties[fmt.Sprintf("f%d", i)] = property
	}
	schema := asJSON{"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(properties))}
	media := asJSON{"schema": schema}
	if strings.Contains(kind, "json") && d.r.IntN(2) == 0 {
		media["schema"] = asJSON{"allOf": []any{schema, asJSON{"type": "object", "properties": asJSON{"more": asJSON{"allOf": []any{only("integer", 7)}}}, "required": []string{"more"}}}}
	}
	return asJSON{kind: media}
}
