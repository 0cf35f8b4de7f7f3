package fields

import "math"

// templatePattern is any text that holds a template: it is checked only when
// its variables are known.
const templatePattern = `\{\{`

// Schema returns what the spec says in the words of JSON Schema. With
// templates, text that holds one may stand for any scalar.
func (s *Spec) Schema(templates bool) map[string]any {
	templates = templates || s.Template
	out := s.plainSchema(templates)
	if s.Short != nil {
		out = map[string]any{"anyOf": []any{s.Short.Schema(templates), out}}
	}
	if doc := s.description(); doc != "" {
		out["description"] = doc
	}
	return out
}

func (s *Spec) plainSchema(templates bool) map[string]any {
	written := func(pattern string) map[string]any { return map[string]any{"type": "string", "pattern": pattern} }
	var ways []any // in which it may be given
	switch {
	case s.Kind == Mapping:
		return s.mappingSchema(templates)
	case s.Kind == List:
		return map[string]any{"type": "array", "items": s.Item.Schema(templates), "minItems": s.Min, "maxItems": s.Max}
	case s.Kind == Word:
		out := map[string]any{"type": []any{"string", "number", "boolean"}}
		if s.pattern != nil {
			out["pattern"] = s.pattern.expression // of a string; JSON Schema applies it to nothing else
		}
		return out
	case s.Kind == Text && s.pattern == nil:
		return map[string]any{"type": "string", "minLength": 1}
	case s.Kind == Text:
		ways = append(ways, written(s.pattern.expression))
	case s.Kind == Boolean:
		ways = append(ways, map[string]any{"type": "boolean"})
	case s.Kind == Choice:
		ways = append(ways, map[string]any{"enum": s.Choices})
	default: // a number, or text that stands for one
		bounds := map[string]any{"type": forms[s.Kind].json}
		if !math.IsInf(s.Max, 0) {
			bounds["minimum"], bounds["maximum"] = s.Min, s.Max
		}
		if ways = append(ways, bounds); forms[s.Kind].pattern != "" {
			ways = append(ways, written(forms[s.Kind].pattern))
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

func (s *Spec) mappingSchema(templates bool) map[string]any {
	out := map[string]any{"type": "object", "additionalProperties": false}
	properties, required := map[string]any{}, []string{}
	for _, f := range s.Fields {
		properties[f.Name] = f.Spec.Schema(templates)
		if f.required {
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
		out["additionalProperties"] = s.Item.Schema(templates)
		out["maxProperties"] = s.most()
		out["propertyNames"] = map[string]any{"pattern": s.Names.expression}
	}
	if s.few {
		out["minProperties"] = 1
	}
	return out
}
