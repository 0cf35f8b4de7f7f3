package upstream

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// TestComesBack: what each vendor says of the time at which it can be asked again.
func TestComesBack(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration, form string) string { return now.Add(d).Format(form) }
	const info = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12.5s"}]}}`
	for _, c := range []struct {
		status int
		header map[string]string
		body   string
		want   time.Duration
	}{
		{429, map[string]string{"Retry-After": ""}, "", 0},
		{429, map[string]string{"Retry-After": "5"}, "", 5 * time.Second},
		{429, map[string]string{"Retry-After": "-5"}, "", 0},
		{429, map[string]string{"Retry-After": "x"}, "no JSON", 0},
		{429, map[string]string{"Retry-After": "99999999"}, "", maxRetryAfter},
		{503, map[string]string{"Retry-After": in(time.Minute, http.TimeFormat)}, "", time.Minute},
		{429, map[string]string{"Retry-After": in(-time.Minute, http.TimeFormat)}, "", 0},
		{429, map[string]string{"Retry-After-Ms": "250", "Retry-After": "1"}, "", 250 * time.Millisecond},
		{429, nil, info, 12500 * time.Millisecond},
		{503, nil, info, 12500 * time.Millisecond},
		{429, map[string]string{"Retry-After": "3"}, info, 3 * time.Second},
		{429, nil, `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"-1s"}]}}`, 0},
		{429, nil, `{"error":{"message":"\"retryDelay\":\"1s\""}}`, 0},
		{429, map[string]string{"X-Ratelimit-Remaining-Requests": "9", "X-Ratelimit-Reset-Requests": "6m0s", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "1m20ms"}, "", time.Minute + 20*time.Millisecond}, // OpenAI
		{429, map[string]string{"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "7"}, "", 7 * time.Second},                                                                                                     // Azure
		{429, map[string]string{
			"Anthropic-Ratelimit-Requests-Remaining": "0", "Anthropic-Ratelimit-Requests-Reset": in(20*time.Second, time.RFC3339),
			"Anthropic-Ratelimit-Input-Tokens-Remaining": "0", "Anthropic-Ratelimit-Input-Tokens-Reset": in(30*time.Second, time.RFC3339),
			"Anthropic-Ratelimit-Output-Tokens-Remaining": "8000", "Anthropic-Ratelimit-Output-Tokens-Reset": in(40*time.Second, time.RFC3339),
		}, "", 30 * time.Second},
		{429, map[string]string{"X-Ratelimit-Remaining-Tokens": "0"}, "", 0},
		{500, map[string]string{"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "7"}, "", 0},
	} {
		h := http.Header{}
		for name, value := range c.header {
			h.Set(name, value)
		}
		if got := comesBack(c.status, h, []byte(c.body), now); got != c.want {
			t.Errorf("%d %v %s: %v, want %v", c.status, c.header, c.body, got, c.want)
		}
	}
}

// TestRetryInfo: a deployment cools down for the time that its error's body says, and the client is told.
func TestRetryInfo(t *testing.T) {
	inBubble(t, []Upstream{{Server: Server{Dialect: Gemini}}}, func(c *Config) { c.Attempts, c.Failures = 1, 100 }, nil, func(t *testing.T, b *bed) {
		b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"code":429,"message":"m","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"42s"}]}}`)
		}
		var e *Error
		if _, err := b.Ask(t.Context(), ask(t, false), nil); !errors.As(err, &e) || e.RetryAfter != 42*time.Second || time.Until(b.States()[0].Until) != 42*time.Second {
			t.Errorf("%+v, %+v", e, b.States())
		}
	})
}

// FuzzPauseOf: no text has an upstream left alone for less than nothing, or too long.
func FuzzPauseOf(f *testing.F) {
	for _, text := range []string{"", "5", "6m0s", "1e3", "9223372036.9", "-1h", "Tue, 01 Jan 2030 00:00:00 GMT", "2030-01-01T00:00:00Z", "0001-01-01T00:00:00Z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d := pauseOf(text, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)); d < 0 || d > maxRetryAfter {
			t.Errorf("%q: %v", text, d)
		}
	})
}
