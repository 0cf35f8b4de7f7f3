package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"dyno/services/bot/outward"
	"dyno/services/internal/trace"
)

// HTTP is a plugin at a URL. It gets the call as JSON by POST, and answers {"text": "…"}, or status 204 (no content)
// for no result.
type HTTP struct {
	url    string
	client *http.Client
}

// NewHTTP returns a plugin at a URL that the policy allows. The transport must hold
// connections to the same policy, as outward.NewTransport's does.
func NewHTTP(url string, policy outward.Policy, transport http.RoundTripper) (*HTTP, error) {
	if err := policy.CheckURL(url); err != nil {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	return &HTTP{url, outward.NewClient(transport)}, nil
}

// Run calls the URL.
func (h *HTTP) Run(ctx context.Context, c Call) (string, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	trace.Inject(ctx, r.Header)
	resp, err := h.client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return "", ErrNothing
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return "", fmt.Errorf("content type %q: want application/json", resp.Header.Get("Content-Type"))
	}
	const most = 2 * maxText // with JSON's overhead
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return "", err
	}
	if len(text) > most {
		return "", fmt.Errorf("more than %d bytes", most)
	}
	var answer struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", err
	}
	if answer.Text == nil {
		return "", errors.New("the answer has no text")
	}
	return *answer.Text, nil
}
