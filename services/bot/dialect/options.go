package dialect

import "cmp"

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

// Choice takes out a choice of tools that is a word of OpenAI's forms. ChoiceMode.String has the words.
func (o *Object) Choice(r *Request, field string) {
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

// CacheMark takes out a mark for the cache, and returns its lifetime: OpenAI's mark, or Anthropic's, which gateways
// accept in other forms, too.
func (o *Object) CacheMark(r *Request) (lifetime string) {
	for _, kind := range [][2]string{{"cache_control", "type"}, {"prompt_cache_breakpoint", "mode"}} {
		if mark := o.Object(kind[0]); mark != nil {
			mark.Text(kind[1]) // there is only one
			lifetime = cmp.Or(mark.Text("ttl"), lifetime, "5m")
			o.Note(r, CacheMarks, kind[0])
			mark.NoteLeft(r)
		}
	}
	return lifetime
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
