package dialect

import (
	"cmp"
	"slices"
)

// An option is a field that several forms have by the same name.
type option struct {
	field string
	Feature

	to func(r *Request) any // where it is
}

// options are those of OpenAI's forms, and of many servers.
var options = []option{
	{"temperature", SetTemperature, func(r *Request) any { return &r.Temperature }},
	{"top_p", SetTopP, func(r *Request) any { return &r.TopP }},
	{"top_k", SetTopK, func(r *Request) any { return &r.TopK }},
	{"frequency_penalty", FrequencyWeight, func(r *Request) any { return &r.FrequencyPenalty }},
	{"presence_penalty", PresenceWeight, func(r *Request) any { return &r.PresencePenalty }},
	{"seed", SetSeed, func(r *Request) any { return &r.Seed }},
	{"metadata", SetMetadata, func(r *Request) any { return &r.Metadata }},
	{"user", UserID, func(r *Request) any { return &r.User }},
}

// Options takes out the options that OpenAI's forms have, and notes their features.
func (o *Object) Options(r *Request) {
	for _, option := range options {
		if o.Take(option.field, option.to(r)) {
			o.Note(r, option.Feature, option.field)
		}
	}
	if o.Take("parallel_tool_calls", &r.Parallel) && !*r.Parallel {
		o.Note(r, SingleCall, "parallel_tool_calls")
	}
	o.Take("stream", &r.Stream)
}

// Options returns the request's options as fields of OpenAI's forms, with the fields of Extra.
func (r *Request) Options() map[string]any {
	body := map[string]any{}
	for field, value := range r.Extra {
		body[field] = value
	}
	for _, option := range options {
		switch to := option.to(r).(type) {
		case **float64:
			Set(body, option.field, *to)
		case **int:
			Set(body, option.field, *to)
		case **int64:
			Set(body, option.field, *to)
		case *string:
			if *to != "" {
				body[option.field] = *to
			}
		case *map[string]string:
			if len(*to) > 0 {
				body[option.field] = *to
			}
		}
	}
	Set(body, "parallel_tool_calls", r.Parallel)
	if r.Stream {
		body["stream"] = true
	}
	return body
}

// Set sets a field that has a value.
func Set[T any](body map[string]any, field string, value *T) {
	if value != nil {
		body[field] = *value
	}
}

// inner returns the object that has the fields of something of a kind: o itself, or the one in its field of that name.
func (o *Object) inner(kind string, nested bool) *Object {
	if !nested {
		return o
	}
	within := o.Object(kind)
	if within == nil {
		o.Fail(kind, "must be there")
		return &Object{path: o.Path(kind), fault: o.fault}
	}
	return within
}

// outer returns the fields of something of a kind as inner reads them.
func outer(kind string, nested bool, fields map[string]any) map[string]any {
	if nested {
		return map[string]any{"type": kind, kind: fields}
	}
	fields["type"] = kind
	return fields
}

// The types of tools, and of their calls, in OpenAI's forms.
const (
	functionType = "function"
	customType   = "custom"
)

// ToolType returns the type of a tool, or of its call, in OpenAI's forms.
func ToolType(custom bool) string {
	if custom {
		return customType
	}
	return functionType
}

// Tools takes out the tools of OpenAI's forms, and the choice of one. Nested says that the fields of each are in an
// object of their own.
func (o *Object) Tools(r *Request, nested bool) {
	for _, t := range o.Objects("tools") {
		kind := t.Text("type")
		if kind != functionType && kind != customType {
			r.Tools = append(r.Tools, Tool{Own: t.raw})
			t.Note(r, VendorTools, "")
			continue
		}
		of := t.inner(kind, nested)
		tool := Tool{Name: of.Required("name"), Description: of.Text("description"), Custom: kind == customType}
		if tool.Custom {
			t.Note(r, CustomTools, "")
			if format := of.Object("format"); format != nil {
				if format.Text("type") == "grammar" {
					grammar := format.inner("grammar", nested)
					tool.Syntax, tool.Grammar = grammar.Text("syntax"), grammar.Text("definition")
					grammar.NoteLeft(r)
				}
				format.NoteLeft(r)
			}
		} else {
			t.Note(r, Functions, "")
			tool.Schema = of.Schema("parameters")
			if strict := false; of.Take("strict", &strict) && strict {
				tool.Strict = &strict
				of.Note(r, StrictTools, "strict")
			}
		}
		tool.Cache = cmp.Or(t.CacheMark(r), of.CacheMark(r))
		of.NoteLeft(r)
		t.NoteLeft(r)
		r.Tools = append(r.Tools, tool)
	}
	o.choice(r, nested)
}

func (o *Object) choice(r *Request, nested bool) {
	const field = "tool_choice"
	if !o.HasText(field) {
		choice := o.Object(field)
		if choice == nil {
			return
		}
		kind := choice.Text("type")
		if kind != functionType && kind != customType {
			choice.Fail("type", "must be function or custom")
			return
		}
		of := choice.inner(kind, nested)
		r.Choice = Choice{OneTool, of.Required("name")}
		o.Note(r, ChooseOne, field)
		of.NoteLeft(r)
		choice.NoteLeft(r)
		return
	}
	switch o.Text(field) {
	case Auto.String():
		r.Choice.Mode = Auto
	case NoTool.String():
		r.Choice.Mode = NoTool
		o.Note(r, ChooseNone, field)
	case SomeTool.String():
		r.Choice.Mode = SomeTool
		o.Note(r, ChooseSome, field)
	default:
		o.Fail(field, "must be none, auto or required, or name a tool")
	}
}

// ToolFields returns the tools as Tools reads them.
func (r *Request) ToolFields(nested bool) []any {
	list := []any{}
	for _, t := range r.Tools {
		if t.Own != nil {
			list = append(list, t.Own)
			continue
		}
		of := map[string]any{"name": t.Name}
		if t.Description != "" {
			of["description"] = t.Description
		}
		switch {
		case t.Grammar != "":
			of["format"] = outer("grammar", nested, map[string]any{"syntax": t.Syntax, "definition": t.Grammar})
		case !t.Custom && !nested:
			// Here, a field that is absent means true.
			of["parameters"], of["strict"] = t.Schema, t.Strict != nil && *t.Strict
		case !t.Custom:
			if Set(of, "strict", t.Strict); t.Schema != nil {
				of["parameters"] = t.Schema
			}
		}
		list = append(list, outer(ToolType(t.Custom), nested, of))
	}
	return list
}

// ChoiceField returns the choice of tools as Tools reads it.
func (r *Request) ChoiceField(nested bool) any {
	switch r.Choice.Mode {
	case AnyChoice:
		return Auto.String()
	case OneTool:
		custom := slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Custom && t.Name == r.Choice.Name })
		return outer(ToolType(custom), nested, map[string]any{"name": r.Choice.Name})
	}
	return r.Choice.Mode.String()
}

// Format takes out the form of the answer's text in OpenAI's forms.
func (o *Object) Format(r *Request, field string, nested bool) {
	f := o.Object(field)
	if f == nil {
		return
	}
	switch kind := f.Text("type"); kind {
	case "text":
	case "json_object":
		r.Format = &Format{}
		o.Note(r, JSONObject, field)
	case "json_schema":
		of := f.inner(kind, nested)
		r.Format = &Format{Name: of.Text("name"), Description: of.Text("description"), Schema: of.Schema("schema")}
		of.Take("strict", &r.Format.Strict)
		o.Note(r, JSONSchema, field)
		of.NoteLeft(r)
	default:
		f.Fail("type", "must be text, json_object or json_schema")
	}
	f.NoteLeft(r)
}

// Field returns the form of the answer's text as Object.Format reads it.
func (f *Format) Field(nested bool) map[string]any {
	switch {
	case f == nil:
		return map[string]any{"type": "text"}
	case f.Schema == nil:
		return map[string]any{"type": "json_object"}
	}
	of := map[string]any{"name": cmp.Or(f.Name, "answer"), "schema": f.Schema}
	if f.Description != "" {
		of["description"] = f.Description
	}
	Set(of, "strict", f.Strict)
	return outer("json_schema", nested, of)
}

// File takes out the file of a part in OpenAI's forms.
func (o *Object) File() Block {
	b := Block{Kind: File, Source: Source{ID: o.Text("file_id"), URL: o.Text("file_url"), Name: o.Text("filename")}}
	if data := o.Text("file_data"); data != "" {
		b.Source.URL = ""
		if b.Source.SetURL(data); b.Source.Data == "" {
			b.Source.URL, b.Source.Data = "", data // base64 alone
		}
	} else if b.Source.ID == "" && b.Source.URL == "" {
		o.Fail("", "must have data or an ID")
	}
	return b
}

// CacheMark takes out a mark for the cache, and returns its lifetime: OpenAI's mark, which lives for half an hour or
// more, or Anthropic's, which gateways accept in other forms, too.
func (o *Object) CacheMark(r *Request) (lifetime string) {
	for _, kind := range [][2]string{{"cache_control", "type"}, {"prompt_cache_breakpoint", "mode"}} {
		if mark := o.Object(kind[0]); mark != nil {
			mark.Text(kind[1]) // there is only one
			if lifetime = "5m"; cmp.Or(mark.Text("ttl"), lifetime) != lifetime {
				lifetime = "1h"
			}
			o.Note(r, CacheMarks, kind[0])
			mark.NoteLeft(r)
		}
	}
	return lifetime
}

// HasMedia reports whether there are blocks other than texts.
func HasMedia(blocks []Block) bool {
	return slices.ContainsFunc(blocks, func(b Block) bool { return b.Kind != Text })
}

// MediaFeature is the feature of an image, a recording or a file.
func (b *Block) MediaFeature() Feature {
	switch {
	case b.Kind == Audio:
		return AudioData
	case b.Source.ID != "":
		return FileID
	case b.Kind == Image && b.Source.URL != "":
		return ImageURL
	case b.Kind == Image:
		return ImageData
	case b.Source.URL != "":
		return FileURL
	}
	return FileData
}
