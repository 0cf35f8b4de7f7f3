package rest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

// schemas describes the documents, in JSON Schema 2020-12, by name. Texts that begin with $ stand for limits. Package
// resource has those of rules.
//
//go:embed schemas.json
var schemas []byte

// A parameter is a request's parameter, in the address or in a header field.
type parameter struct {
	in, about string
	schema    map[string]any
}

var text = map[string]any{"type": "string"}

func listSchema(items map[string]any, most int) map[string]any {
	return map[string]any{"type": "array", "items": items, "maxItems": most}
}

// condition is the schema of a list of entity tags, with at least one.
var condition = map[string]any{"type": "string", "maxLength": plane.MaxCondition, "pattern": `[^ \t,]`}

// parameters are all parameters, by name.
var parameters = map[string]parameter{
	"name":            {"path", "The resource's or the service's name. Those of configurations, locks and counters may have slashes, as %2F.", ref("ConfigName")},
	"id":              {"path", "The instance's.", ref("Name")},
	"session":         {"query", "The session that has the lock.", ref("NameOrNone")},
	"version":         {"path", "Which one.", ref("Version")},
	"namespace":       {"query", "Where the resource is; default if not given.", ref("NamespaceOrNone")},
	"dry_run":         {"query", "Check everything, and change nothing.", map[string]any{"type": "boolean"}},
	"stale":           {"query", "Answer from what this replica knows, at once, and say how old that may be.", map[string]any{"type": "boolean"}},
	"limit":           {"query", "How many entries a page may have.", map[string]any{"type": "integer", "minimum": 1, "maximum": plane.MaxLimit, "default": plane.DefaultLimit}},
	"after":           {"query", "What the page before has as next.", map[string]any{"type": "string", "maxLength": plane.MaxAfter}},
	"prefix":          {"query", "Those only whose name, or an instance's identifier, begins with this text.", map[string]any{"type": "string", "maxLength": plane.MaxPrefix}},
	"separator":       {"query", "List names instead of documents. Of names that have this text behind the prefix, the part to there is listed, once. An empty one separates none.", map[string]any{"type": "string", "maxLength": plane.MaxPrefix}},
	"search":          {"query", "Those only that have this text in their name, or in an instance's address or zone, in any case.", map[string]any{"type": "string", "maxLength": plane.MaxSearch}},
	"from":            {"query", "Only changes from this time on (RFC 3339).", map[string]any{"type": "string", "format": "date-time"}},
	"zone":            {"query", "Instances of this zone only.", text},
	"status":          {"query", "Instances of this status only.", map[string]any{"enum": []string{"", "up", "down", "draining"}}},
	"health":          {"query", "Instances of this health only: an overdue one is critical.", map[string]any{"enum": []string{"", "passing", "warning", "critical"}}},
	"client":          {"query", "Who reads: for the gray release, and for the ledger.", map[string]any{"type": "string", "maxLength": plane.MaxClient, "pattern": `^[^\x00-\x1f]*$`}},
	"label":           {"query", "NAME=VALUE, one of the reader's labels, for the gray release; may be given more than once.", listSchema(map[string]any{"type": "string", "pattern": "^[^=]+="}, resource.DefaultLimits().Labels)},
	"kind":            {"query", "May be given more than once; all if not given.", listSchema(map[string]any{"enum": resource.Kinds()}, plane.MaxTopics)},
	"since":           {"query", "The token that a long poll had as next, the id of an event, what a list has as watch, or what a read has as Dyno-Watch. Reads with a token wait until something of theirs has changed after it, and are answered in full.", text},
	"follower":        {"query", "With server-sent events: everything that the caller may read, with its secrets, and which instances are overdue, for a follower of this control plane. Of the other parameters, only kind and since count.", map[string]any{"type": "boolean"}},
	"wait":            {"query", "For how many seconds a long poll, or a read with since, may wait for a change; 30 if not given.", map[string]any{"type": "number", "minimum": 0, "maximum": maxWait.Seconds()}},
	"If-Match":        {"header", "Only if the resource has one of these entity tags; * is any.", condition},
	"If-None-Match":   {"header", "Only if the resource has none of these entity tags; * is that there is none.", condition},
	"Idempotency-Key": {"header", "A change with a key that was used before is not made again, and answered as it was.", map[string]any{"type": "string", "maxLength": plane.MaxKey}},
	"Last-Event-ID":   {"header", "The id of the last event that was received.", text},
}

// special are parameters that differ for one operation, or for one method.
var special = map[string]parameter{
	"watch name":          {"query", "A name to watch; may be given more than once; all if not given. A name is one in a namespace, not in all.", listSchema(ref("ConfigNameOrNone"), plane.MaxTopics)},
	"watch namespace":     {"query", "Where the resources are; default if not given, and * is all.", map[string]any{"type": "string", "maxLength": 63, "pattern": `^(\*|[a-z0-9]([a-z0-9-]*[a-z0-9])?)?$`}},
	"listInstances label": {"query", "NAME=VALUE, an entry of the instances' metadata; may be given more than once: they have all of them.", parameters["label"].schema},
	"revokeToken id":      {"path", "The token's.", ref("PlainName")},
	"GET If-None-Match":   {"header", "The entity tags of what the client has: with one of these there is no content.", text},
}

func ref(name string) map[string]any { return map[string]any{"$ref": "#/components/schemas/" + name} }

// describeOperation describes an operation, with references to the schemas.
func describeOperation(r route) map[string]any {
	list := []any{}
	names := slices.Clone(r.parameters)
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	for _, name := range names {
		p := parameters[name]
		for _, key := range []string{r.id + " " + name, r.method + " " + name} {
			if other, is := special[key]; is {
				p = other
			}
		}
		one := map[string]any{"name": name, "in": p.in, "description": p.about, "schema": p.schema}
		if p.in == "path" {
			one["required"] = true
		}
		list = append(list, one)
	}
	answers := map[string]any{
		"default": map[string]any{
			"description": "A problem (RFC 9457). Its type is " + typePrefix + " and one of: " + strings.Join(kinds(), ", ") + ".",
			"content":     map[string]any{"application/problem+json": map[string]any{"schema": ref("Problem")}},
		},
		"431": map[string]any{
			"description": "The address and the header fields are too long together.",
			"content":     map[string]any{"text/plain": map[string]any{"schema": text}},
		},
	}
	for status, body := range r.answers {
		answer := map[string]any{"description": http.StatusText(status)}
		if body != noBody {
			answer["content"] = describeContent(body)
		}
		answers[strconv.Itoa(status)] = answer
	}
	operation := map[string]any{"operationId": r.id, "summary": r.about, "parameters": list, "responses": answers}
	if r.body != noBody {
		operation["requestBody"] = map[string]any{"required": true, "content": describeContent(r.body)}
	}
	return operation
}

// describeContent describes a body, which may have several media types, each with the name of a schema.
func describeContent(body string) map[string]any {
	content := map[string]any{}
	for kind := range strings.FieldsSeq(body) {
		switch {
		case kind == anyBody:
			content[kind] = map[string]any{}
		case strings.Contains(kind, "/"):
			content[kind] = map[string]any{"schema": text}
		default:
			content[jsonBody] = map[string]any{"schema": ref(kind)}
		}
	}
	return content
}

// describe makes the OpenAPI 3.1 document from the table of operations.
func (a *API) describe() ([]byte, error) {
	var components map[string]any
	l := a.plane.Limits()
	limits := strings.NewReplacer(
		`"$labels"`, strconv.Itoa(l.Labels), `"$rules"`, strconv.Itoa(l.Rules), `"$content"`, strconv.Itoa(l.ConfigBytes), `"$content_base64"`, strconv.Itoa((l.ConfigBytes+2)/3*4),
	)
	if err := json.Unmarshal([]byte(limits.Replace(string(schemas))), &components); err != nil {
		return nil, fmt.Errorf("schemas: %w", err)
	}
	maps.Copy(components, resource.Schemas())
	paths := map[string]map[string]any{}
	for _, r := range a.routes {
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][strings.ToLower(r.method)] = describeOperation(r)
	}
	security := []any{map[string]any{"token": []any{}}, map[string]any{"certificate": []any{}}}
	if a.cfg.Gate.Book == nil {
		security = []any{map[string]any{}} // no credentials are needed
	}
	return json.Marshal(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "dyno control plane", "version": "1", "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Discovery, configuration and policy. Reads are linearizable unless stale=true. Resources have entity tags; changes take If-Match, If-None-Match, dry_run and Idempotency-Key.",
		},
		"paths": paths,
		"components": map[string]any{
			"schemas":         components,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}, "certificate": map[string]any{"type": "mutualTLS"}},
		},
		"security": security,
	})
}
