package dialect

import (
	"encoding/json"
	"maps"
	"slices"
)

// A Feature is something that a request may use and that not every kind of server has.
type Feature string

// The features. Texts, answers and streams are in every dialect, and have none.
const (
	SystemMessage   Feature = "system"
	LateSystem      Feature = "late_system"
	SpeakerName     Feature = "speaker_name"
	ImageData       Feature = "image_data"
	ImageURL        Feature = "image_url"
	ImageDetail     Feature = "image_detail"
	AudioData       Feature = "audio_data"
	FileData        Feature = "file_data"
	FileURL         Feature = "file_url"
	FileID          Feature = "file_id"
	Functions       Feature = "tools"
	StrictTools     Feature = "strict_tools"
	CustomTools     Feature = "custom_tools"
	VendorTools     Feature = "vendor_tools"
	ChooseNone      Feature = "tool_choice_none"
	ChooseSome      Feature = "tool_choice_required"
	ChooseOne       Feature = "tool_choice_name"
	SingleCall      Feature = "parallel_tool_calls"
	ResultImages    Feature = "tool_result_image"
	ResultFailed    Feature = "tool_result_error"
	JSONObject      Feature = "json_object"
	JSONSchema      Feature = "json_schema"
	MaxTokens       Feature = "max_tokens"
	SetTemperature  Feature = "temperature"
	SetTopP         Feature = "top_p"
	SetTopK         Feature = "top_k"
	StopSequences   Feature = "stop"
	SetSeed         Feature = "seed"
	FrequencyWeight Feature = "frequency_penalty"
	PresenceWeight  Feature = "presence_penalty"
	ReasoningEffort Feature = "reasoning_effort"
	ReasoningBudget Feature = "reasoning_budget"
	ReasoningText   Feature = "reasoning_summary"
	ThinkingBack    Feature = "thinking"
	RedactedBack    Feature = "redacted_thinking"
	CacheMarks      Feature = "cache_control"
	UserID          Feature = "user"
	SetMetadata     Feature = "metadata"
	Prefill         Feature = "prefill"
	SeveralChoices  Feature = "n"
	TokenLogprobs   Feature = "logprobs"
	LogitBias       Feature = "logit_bias"
	AudioAnswer     Feature = "audio_answer"
	Stored          Feature = "store"
	EarlierTurns    Feature = "previous_response"
	InBackground    Feature = "background"
	ServiceTier     Feature = "service_tier"
	ServerSampling  Feature = "sampling"
	OtherField      Feature = "other"
)

// says describes each feature, in the order of the manual.
var says = []struct {
	Feature

	text string
}{
	{SystemMessage, "a system message"},
	{LateSystem, "a system message between others"},
	{SpeakerName, "names of speakers"},
	{ImageData, "images as data"},
	{ImageURL, "images by URL"},
	{ImageDetail, "the detail of images"},
	{AudioData, "recordings"},
	{FileData, "files as data"},
	{FileURL, "files by URL"},
	{FileID, "files by ID"},
	{Functions, "tools"},
	{StrictTools, "strict tools"},
	{CustomTools, "tools with a text as input"},
	{VendorTools, "tools of the vendor"},
	{ChooseNone, "forbidding tools"},
	{ChooseSome, "requiring a tool"},
	{ChooseOne, "requiring one tool by name"},
	{SingleCall, "one tool call at a time"},
	{ResultImages, "images as a tool's result"},
	{ResultFailed, "failed tools"},
	{JSONObject, "an answer in JSON"},
	{JSONSchema, "an answer by a JSON schema"},
	{MaxTokens, "a bound on the answer"},
	{SetTemperature, "a temperature"},
	{SetTopP, "top_p"},
	{SetTopK, "top_k"},
	{StopSequences, "stop sequences"},
	{SetSeed, "a seed"},
	{FrequencyWeight, "a frequency penalty"},
	{PresenceWeight, "a presence penalty"},
	{ReasoningEffort, "an effort of reasoning"},
	{ReasoningBudget, "a budget of reasoning"},
	{ReasoningText, "a summary of the reasoning"},
	{ThinkingBack, "thinking of earlier turns"},
	{RedactedBack, "redacted thinking of earlier turns"},
	{CacheMarks, "marks for the prompt's cache"},
	{UserID, "the user's ID"},
	{SetMetadata, "metadata"},
	{Prefill, "the beginning of the answer"},
	{SeveralChoices, "several answers"},
	{TokenLogprobs, "probabilities of tokens"},
	{LogitBias, "a bias of tokens"},
	{AudioAnswer, "an answer as a recording"},
	{Stored, "answers that the upstream keeps"},
	{EarlierTurns, "earlier turns that the upstream keeps"},
	{InBackground, "answers in the background"},
	{ServiceTier, "a service tier"},
	{ServerSampling, "vLLM's sampling"},
	{OtherField, "a field that only this form has"},
}

// Features returns all of them, in the order of the manual.
func Features() []Feature {
	list := make([]Feature, len(says))
	for i, s := range says {
		list[i] = s.Feature
	}
	return list
}

// Text describes it in words.
func (f Feature) Text() string {
	for _, s := range says {
		if s.Feature == f {
			return s.text
		}
	}
	return string(f)
}

// drops remove features that only tune the answer. The others carry what the client says, or what it must be able to
// rely on.
var drops = map[Feature]func(r *Request){
	SpeakerName: func(r *Request) {
		r.eachMessage(func(m *Message) { m.Name = "" })
	},
	ImageDetail: func(r *Request) {
		r.eachBlock(func(b *Block) { b.Source.Detail = "" })
	},
	StrictTools: func(r *Request) {
		r.eachTool(func(t *Tool) { t.Strict = nil })
	},
	// The result itself says what failed.
	ResultFailed: func(r *Request) {
		r.eachBlock(func(b *Block) { b.Failed = false })
	},
	SingleCall:      func(r *Request) { r.Parallel = nil },
	MaxTokens:       func(r *Request) { r.MaxTokens = 0 },
	SetTemperature:  func(r *Request) { r.Temperature = nil },
	SetTopP:         func(r *Request) { r.TopP = nil },
	SetTopK:         func(r *Request) { r.TopK = nil },
	StopSequences:   func(r *Request) { r.Stop = nil },
	SetSeed:         func(r *Request) { r.Seed = nil },
	FrequencyWeight: func(r *Request) { r.FrequencyPenalty = nil },
	PresenceWeight:  func(r *Request) { r.PresencePenalty = nil },
	ReasoningEffort: func(r *Request) { r.changeReasoning(func(g *Reasoning) { g.Effort = "" }) },
	ReasoningBudget: func(r *Request) { r.changeReasoning(func(g *Reasoning) { g.Budget, g.Adapt = 0, false }) },
	ReasoningText:   func(r *Request) { r.changeReasoning(func(g *Reasoning) { g.Summary = "" }) },
	ThinkingBack:    func(r *Request) { r.without(Thinking) },
	RedactedBack:    func(r *Request) { r.without(Redacted) },
	CacheMarks: func(r *Request) {
		r.eachBlock(func(b *Block) { b.Cache = "" })
		r.eachTool(func(t *Tool) { t.Cache = "" })
		r.withoutExtra(CacheMarks)
	},
	UserID:         func(r *Request) { r.User = "" },
	SetMetadata:    func(r *Request) { r.Metadata = nil },
	TokenLogprobs:  func(r *Request) { r.withoutExtra(TokenLogprobs) },
	LogitBias:      func(r *Request) { r.withoutExtra(LogitBias) },
	Stored:         func(r *Request) { r.withoutExtra(Stored) },
	ServiceTier:    func(r *Request) { r.withoutExtra(ServiceTier) },
	ServerSampling: func(r *Request) { r.withoutExtra(ServerSampling) },
	OtherField:     func(r *Request) { r.withoutExtra(OtherField) },
}

// extras are the features of the fields of Request.Extra; others are an OtherField.
var extras = map[string]Feature{
	"logprobs": TokenLogprobs, "top_logprobs": TokenLogprobs, "logit_bias": LogitBias, "store": Stored, "service_tier": ServiceTier,
	"n": SeveralChoices, "modalities": AudioAnswer, "audio": AudioAnswer, "web_search_options": VendorTools,
	"background": InBackground, "previous_response_id": EarlierTurns, "conversation": EarlierTurns, "continuation_id": EarlierTurns, "prompt": EarlierTurns,
	"prompt_cache_key": CacheMarks, "prompt_cache_options": CacheMarks, "prompt_cache_retention": CacheMarks,
	"min_p": ServerSampling, "repetition_penalty": ServerSampling, "length_penalty": ServerSampling, "min_tokens": ServerSampling,
	"stop_token_ids": ServerSampling, "ignore_eos": ServerSampling, "skip_special_tokens": ServerSampling, "bad_words": ServerSampling,
	"chat_template_kwargs": ServerSampling, "guided_json": ServerSampling, "guided_regex": ServerSampling, "guided_choice": ServerSampling, "structured_outputs": ServerSampling,
}

// FeatureOf returns the feature of a field of Request.Extra.
func FeatureOf(field string) Feature {
	if f, ok := extras[field]; ok {
		return f
	}
	return OtherField
}

// Droppable reports whether a request without the feature still says the same.
func (f Feature) Droppable() bool { return drops[f] != nil }

// eachMessage changes copies of the messages.
func (r *Request) eachMessage(change func(*Message)) {
	r.Messages = slices.Clone(r.Messages)
	for i := range r.Messages {
		change(&r.Messages[i])
	}
}

// eachBlock changes copies of all blocks.
func (r *Request) eachBlock(change func(*Block)) {
	var each func(list []Block) []Block
	each = func(list []Block) []Block {
		list = slices.Clone(list)
		for i := range list {
			list[i].Result = each(list[i].Result)
			change(&list[i])
		}
		return list
	}
	r.System = each(r.System)
	r.eachMessage(func(m *Message) { m.Blocks = each(m.Blocks) })
}

func (r *Request) eachTool(change func(*Tool)) {
	r.Tools = slices.Clone(r.Tools)
	for i := range r.Tools {
		change(&r.Tools[i])
	}
}

// changeReasoning changes a copy of the reasoning; nothing is left of an empty one.
func (r *Request) changeReasoning(change func(*Reasoning)) {
	if r.Reasoning == nil {
		return
	}
	g := *r.Reasoning
	change(&g)
	if r.Reasoning = &g; g == (Reasoning{}) {
		r.Reasoning = nil
	}
}

// without removes blocks of a kind.
func (r *Request) without(k Kind) {
	r.eachMessage(func(m *Message) {
		m.Blocks = slices.DeleteFunc(slices.Clone(m.Blocks), func(b Block) bool { return b.Kind == k })
	})
}

func (r *Request) withoutExtra(f Feature) {
	r.Extra = maps.Clone(r.Extra)
	maps.DeleteFunc(r.Extra, func(field string, _ json.RawMessage) bool { return FeatureOf(field) == f })
}
