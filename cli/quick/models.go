package quick

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"dyno/cli/arguments"
	"dyno/internal/contentcoding"
	"dyno/internal/errno"
	"dyno/internal/exit"
	"dyno/lab/detect"
	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/engine"
	"dyno/load/wire"
)

// Bounds of asking a server for its models.
const (
	askModels = 10 * time.Second
	mostBytes = 4 << 20
)

// ChooseModel gives --model the first model that the server at a URL lists, unless it was
// given.
func (q *Load) ChooseModel(ctx context.Context, where string) error {
	if q.Given("model") {
		return nil
	}
	where = arguments.WithScheme(where)
	parsed, malformed := url.Parse(where)
	if malformed != nil || parsed.Host == "" {
		return nil //nolint:nilerr // the plan says what is wrong with it
	}
	e, faults := q.unjudged(plan.LLM, where)
	if len(faults) > 0 {
		return nil // they are reported with the plan
	}
	secure, err := protocols.ModelsTLS(&e.Variants[0].Target)
	if err != nil {
		return exit.With(exit.Usage, err, "")
	}
	headers, err := q.fields.Value("header")
	if err != nil {
		return nil //nolint:nilerr // the plan says what is wrong with it
	}
	name, err := firstModel(ctx, parsed, q.unix, headers, secure)
	address := e.Variants[0].Target.Address
	if errno.Is(err, syscall.ECONNREFUSED) {
		return &engine.Unreachable{Address: address, Err: err}
	}
	if err != nil && secure == nil && detect.SpeaksTLS(ctx, "tcp", address) {
		return exit.With(exit.Target, fmt.Errorf("%s speaks TLS, and was asked for its models in plain text: %w", address, err), "begin the URL with https://")
	}
	if err != nil {
		return exit.With(exit.Target, fmt.Errorf("--model is not given, and the server does not say which it has: %w", err), "give it with --model")
	}
	return q.set("model", name)
}

// firstModel asks a server for its models.
func firstModel(ctx context.Context, parsed *url.URL, unix string, headers []string, secure *tls.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askModels)
	defer cancel()
	parsed.Path, parsed.RawPath, parsed.RawQuery = protocols.ModelsPath(parsed.Path), "", ""
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, parsed.String(), nil)
	if err != nil {
		return "", err
	}
	for _, h := range headers {
		if name, value, ok := strings.Cut(h, ":"); ok {
			r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}
	if unix != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", unix)
		}
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	body, err := contentcoding.Body(response, mostBytes)
	if err != nil {
		return "", fmt.Errorf("GET %s: %w", parsed, err)
	}
	if response.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(io.LimitReader(body, wire.MaxRefusal)) // it is worth having only as far as it comes
		return "", fmt.Errorf("GET %s: %s", parsed, new(wire.Refusals).Error(wire.StatusError(min(response.StatusCode, 999)), content).Text)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return "", fmt.Errorf("GET %s: the answer is no list of models in JSON", parsed)
	}
	if len(list.Data) == 0 || list.Data[0].ID == "" {
		return "", fmt.Errorf("GET %s: it lists no model", parsed)
	}
	return list.Data[0].ID, nil
}
