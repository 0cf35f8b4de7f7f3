package planfile

import (
	"encoding/json"
	"math"

	"dyno/lab/plan"
	"dyno/lab/schema"
)

// JSONSchema returns the JSON Schema of the experiment file (draft 2020-12), as
// published in schema.json: made from the tags that the reader uses. The
// reader refuses whatever the schema refuses, and more.
func JSONSchema() ([]byte, error) {
	file, _ := plan.Declared()
	out := jsonOf(file, false)
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	out["title"] = "dyno experiment"
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// templatePattern is any text that holds a template: it is checked only when
// its variables are known.
const templatePattern = `\{\{`

// jsonOf returns what the spec says in the words of JSON Schema. With
// templates, text that holds one may stand for any scalar.
func jsonOf(s *schema.Spec, templates bool) map[string]any {
	templates = templates || s.Template
	out := plainJSON(s, templates)
	if s.Short != nil {
		out = map[string]any{"anyOf": []any{jsonOf(s.Short, templates), out}}
	}
	if doc := description(s); doc != "" {
		out["description"] = doc
	}
	return out
}

func plainJSON(s *schema.Spec, templates bool) map[string]any {
	written := func(pattern string) map[string]any { return map[string]any{"type": "string", "pattern": pattern} }
	var ways []any // in which it may be given
	switch {
	case s.Kind == schema.Mapping:
		return mappingJSON(s, templates)
	case s.Kind == schema.List:
		return map[string]any{"type": "array", "items": jsonOf(s.Item, templates), "minItems": s.Min, "maxItems": s.Max}
	case s.Kind == schema.Word:
		out := map[string]any{"type": []any{"string", "number", "boolean"}}
		if s.Pattern != nil {
			out["pattern"] = s.Pattern.Expression // of a string; JSON Schema applies it to nothing else
		}
		return out
	case s.Kind == schema.Text && s.Pattern == nil:
		return map[string]any{"type": "string", "minLength": 1}
	case s.Kind == schema.Text:
		ways = append(ways, written(s.Pattern.Expression))
	case s.Kind == schema.Boolean:
		ways = append(ways, map[string]any{"type": "boolean"})
	case s.Kind == schema.Choice:
		ways = append(ways, map[string]any{"enum": s.Choices})
	default: // a number, or text that stands for one
		bounds := map[string]any{"type": s.Kind.JSON()}
		if !math.IsInf(s.Max, 0) {
			bounds["minimum"], bounds["maximum"] = s.Min, s.Max
		}
		if ways = append(ways, bounds); s.Kind.Pattern() != "" {
			ways = append(ways, written(s.Kind.Pattern()))
		}
		if len(s.Choices) > 0 {
			ways = append(ways, map[string]any{"enum": s.Choices})
		}
	}
	if templates {
		ways = append(ways, written(templatePattern))
	}
	if len(ways) == 1 {
		return ways[0].(map[string]any)
	}
	return map[string]any{"anyOf": ways}
}

func mappingJSON(s *schema.Spec, templates bool) map[string]any {
	out := map[string]any{"type": "object", "additionalProperties": false}
	properties, required := map[string]any{}, []string{}
	for _, f := range s.Fields {
		properties[f.Name] = jsonOf(f.Spec, templates)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	if len(required) > 0 {
		out["required"] = required
	}
	if s.Item != nil {
		out["additionalProperties"] = jsonOf(s.Item, templates)
		out["maxProperties"] = s.Most()
		out["propertyNames"] = map[string]any{"pattern": s.Names.Expression}
	}
	if s.NonEmpty {
		out["minProperties"] = 1
	}
	return out
}
