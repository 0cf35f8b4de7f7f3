package upstream

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/chat"
	"dyno/services/bot/dialect/embedding"
	"dyno/services/bot/dialect/gemini"
	"dyno/services/bot/dialect/messages"
	"dyno/services/bot/dialect/ollama"
	"dyno/services/bot/dialect/responses"
	"dyno/services/bot/openai"
)

// A Dialect is a form of the requests and answers of servers.
type Dialect string

// The dialects.
const (
	OpenAI    Dialect = "openai"
	Azure     Dialect = "azure"
	VLLM      Dialect = "vllm"
	Anthropic Dialect = "anthropic"
	Gemini    Dialect = "gemini"
	Ollama    Dialect = "ollama"
)

// A vendor says how servers of a dialect are asked.
type vendor struct {
	url    string            // of the vendor's own servers; "" is none
	key    string            // the header field of the key; "" is Authorization, as a bearer token
	header map[string]string // that each request needs
	native []openai.Endpoint // whose requests and answers pass as they are
	passes bool              // it has OpenAI's other endpoints, or some of them
	embeds embedding.Form    // None has no embeddings
	keeps  bool              // it keeps files and batches, too
	lines  bool              // streams are lines of JSON
	known  string            // its name in OpenTelemetry's conventions; "" is that of the dialect
	badKey string            // what the body of an error has if the key is not valid, whatever its status; "" is nothing
	form   func(s Server, d Deployment) dialect.Server
}

var vendors = map[Dialect]vendor{
	OpenAI: {
		url: "https://api.openai.com/v1", passes: true, embeds: embedding.OpenAI, keeps: true, native: []openai.Endpoint{openai.Chat, openai.Responses},
		form: func(Server, Deployment) dialect.Server { return chat.New(chat.Options{Variant: chat.OpenAI}) },
	},
	Azure: {
		key: "Api-Key", known: "azure.ai.openai", passes: true, embeds: embedding.OpenAI, keeps: true, native: []openai.Endpoint{openai.Chat, openai.Responses},
		form: func(s Server, _ Deployment) dialect.Server {
			return chat.New(chat.Options{Variant: chat.Azure, APIVersion: s.Query[apiVersion]})
		},
	},
	VLLM: {
		passes: true, embeds: embedding.OpenAI, native: []openai.Endpoint{openai.Chat},
		form: func(Server, Deployment) dialect.Server { return chat.New(chat.Options{Variant: chat.VLLM}) },
	},
	Anthropic: {
		url: "https://api.anthropic.com/v1", key: "X-Api-Key", header: map[string]string{"Anthropic-Version": "2023-06-01"}, native: []openai.Endpoint{openai.Messages, openai.Tokens},
		form: func(_ Server, d Deployment) dialect.Server { return messages.Server{MaxTokens: d.MaxTokens} },
	},
	Gemini: {
		url: "https://generativelanguage.googleapis.com/v1beta", key: "X-Goog-Api-Key", known: "gcp.gemini", badKey: `"API_KEY_INVALID"`, // with 400
		native: []openai.Endpoint{openai.Contents, openai.ContentTokens}, embeds: embedding.Batch,
		form: func(Server, Deployment) dialect.Server { return gemini.Server{} },
	},
	Ollama: {
		lines: true,
		form:  func(Server, Deployment) dialect.Server { return ollama.Server{} },
	},
}

// clients are the forms of endpoints, by their numbers. Counts of tokens are not translated.
var clients = [openai.Endpoints]dialect.Client{openai.Chat: chat.Client, openai.Responses: responses.Client, openai.Messages: messages.Client{}, openai.Contents: gemini.Client{}}

// status returns the status of an error response by its body.
func (v vendor) status(status int, body []byte) int {
	if v.badKey != "" && bytes.Contains(body, []byte(v.badKey)) {
		return http.StatusUnauthorized
	}
	return status
}

// authorize sets the header fields of a provider's requests: its vendor's, the client's, and its own.
func (p *provider) authorize(h http.Header, client map[string]string) {
	for _, fields := range []map[string]string{p.vendor.header, client, p.Headers} {
		for name, value := range fields {
			h.Set(name, value)
		}
	}
	switch {
	case p.Key == "":
	case p.vendor.key == "":
		h.Set("Authorization", "Bearer "+string(p.Key))
	default:
		h.Set(p.vendor.key, string(p.Key))
	}
}

// at returns the URL of a path, which may have a query, below the provider's.
func (p *provider) at(path string) (*url.URL, error) {
	to, err := url.Parse(p.URL + path)
	if err != nil {
		return nil, err
	}
	query := to.Query()
	for name, value := range p.Query {
		query.Set(name, value)
	}
	to.RawQuery = query.Encode()
	return to, nil
}

// apiVersion is the parameter of a query that Azure's API with deployments needs.
const apiVersion = "api-version"

// base returns the URL below which paths are. That of Azure may be the resource's alone.
func (s Server) base() string {
	base := strings.TrimSuffix(s.url(), "/")
	if s.Dialect != Azure || strings.Contains(base, "/openai") {
		return base
	}
	if s.Query[apiVersion] != "" {
		return base + "/openai"
	}
	return base + "/openai/v1"
}

// path returns the path of an endpoint that the provider serves itself.
func (t *target) path(e openai.Endpoint, model string, stream bool) string {
	switch e {
	case openai.Chat, openai.Contents:
		return t.form.Path(model, stream)
	case openai.ContentTokens:
		return strings.TrimSuffix(t.form.Path(model, false), "generateContent") + "countTokens"
	}
	return e.Path()
}
