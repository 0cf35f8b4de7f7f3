package rest

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/directory"
	"dyno/services/bot/upstream"
	"dyno/services/internal/serve"
)

// object is a JSON object.
type object = map[string]any

// parameters says what parameters are; those of the path are IDs.
var parameters = map[string]string{
	"limit": "how many are listed at most, 1 to 1000; 100 without it", "after": "the ID after which the list begins: next of the page before",
	"search": "those whose ID, name or model contains this text", "used": "true adds used, of a limit in its window, and limits, of an item that is none: those of a key's team and user, too",
	"key": "those of a key", "team": "those of a team", "user": "those of a user", "before": "a version: older changes are listed",
	"group": "key, team, user, model and day, as many as are wanted, with commas", "from": "a day or a time (RFC 3339); the beginning of today without it",
	"to": "a day or a time (RFC 3339), which is not part of it; now without it", "If-Match": "the version of the item that is to be changed; 412 if it is another",
}

// typeOf returns the schema of a Go type.
func typeOf(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Int64 && t != reflect.TypeFor[time.Duration](), t.Kind() == reflect.Uint64, t.Kind() == reflect.Int:
		return object{"type": "integer", "format": "int64"}
	case t == reflect.TypeFor[upstream.Prices](): // one alone stands for the list
		one := typeOf(t.Elem())
		return object{"oneOf": []object{one, {"type": "array", "items": one}}}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return object{"type": "array", "items": typeOf(t.Elem())}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": typeOf(t.Elem())}
	case t.Kind() == reflect.Struct:
		members := object{}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(cmp.Or(strings.TrimPrefix(f.Tag.Get("json"), "-"), f.Tag.Get("yaml")), ",")
			members[name] = typeOf(f.Type)
		}
		return object{"type": "object", "properties": members}
	case t.Kind() == reflect.Slice:
		return object{"type": "object"} // JSON as it is
	}
	return object{"type": "string"}
}

// description returns the API in OpenAPI 3.1.
func description() object {
	ref := func(name string) object { return object{"$ref": "#/components/schemas/" + name} }
	schemas := object{
		"object": object{"type": "object"}, "rotation": typeOf(reflect.TypeFor[rotation]()), "operator": typeOf(reflect.TypeFor[serve.Operator]()), "archive": typeOf(reflect.TypeFor[Archive]()),
		"auditList": object{"type": "object", "properties": object{"changes": typeOf(reflect.TypeFor[[]change]())}},
		"priceList": object{"type": "object", "properties": object{"prices": typeOf(reflect.TypeFor[map[string]json.RawMessage]())}},
		"usageList": object{"type": "object", "properties": object{"from": typeOf(reflect.TypeFor[time.Time]()), "to": typeOf(reflect.TypeFor[time.Time]()),
			"groups": typeOf(reflect.TypeFor[[]group]()), "truncated": object{"type": "boolean"}}},
		"error": object{"type": "object", "properties": object{"error": object{"type": "object", "properties": object{
			"message": object{"type": "string"}, "type": object{"type": "string"}, "param": object{"type": []string{"string", "null"}}, "code": object{"type": []string{"string", "null"}}}}}},
	}
	for _, k := range directory.Kinds() {
		members := object{}
		for _, f := range directory.Fields(k) {
			members[f.Name] = typeOf(f.Type)
			members[f.Name].(object)["description"] = f.About
			if !f.Set {
				members[f.Name].(object)["readOnly"] = true
			}
		}
		schemas[k.One()] = object{"type": "object", "properties": members}
		schemas[k.One()+"List"] = object{"type": "object", "properties": object{"items": object{"type": "array", "items": object{"allOf": []object{ref(k.One()), {"type": "object", "properties": object{
			"used": object{"type": "integer", "format": "int64"}, "limits": object{"type": "array", "items": ref("limit")}}}}}}, "next": object{"type": "string"}}}
		schemas[k.One()+"Made"] = object{"allOf": []object{ref(k.One()), {"type": "object", "properties": object{"secret": object{"type": "string", "description": "of a key; it is shown only here"}}}}}
	}
	body := func(name string) object { return object{"application/json": object{"schema": ref(name)}} }
	paths := object{}
	for _, r := range routes() {
		operation := object{"operationId": r.id, "summary": r.about}
		var list []object
		if strings.Contains(r.path, "{id}") {
			list = append(list, object{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		for _, name := range r.parameters {
			in := "query"
			if name == "If-Match" {
				in = "header"
			}
			list = append(list, object{"name": name, "in": in, "description": parameters[name], "schema": object{"type": "string"}})
		}
		if list != nil {
			operation["parameters"] = list
		}
		if r.body != "" {
			operation["requestBody"] = object{"content": body(r.body)}
		}
		good := object{"description": "done"}
		if r.answer != "" {
			good["content"] = body(r.answer)
		}
		operation["responses"] = object{strconv.Itoa(r.status): good, "default": object{"description": "refused", "content": body("error")}}
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path].(object)[strings.ToLower(r.method)] = operation
	}
	return object{"openapi": "3.1.0", "info": object{"title": "dyno-bot: keys and deployments", "version": "1"}, "paths": paths, "components": object{"schemas": schemas}}
}
