package upstream

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// comesBack returns how long an upstream wants not to be asked, by its error response; 0 is unknown. Sources, of 2026-11:
// Retry-After (RFC 9110, section 10.2.3), retry-after-ms of Azure and OpenAI, google.rpc.RetryInfo of Gemini, and for status 429
// x-ratelimit-reset-* of Azure and OpenAI and anthropic-ratelimit-*-reset.
func comesBack(status int, h http.Header, body []byte, now time.Time) time.Duration {
	wait := cmp.Or(pauseOf(h.Get("Retry-After-Ms")+"ms", now), pauseOf(h.Get("Retry-After"), now), retryInfo(body, now))
	if wait == 0 && status == http.StatusTooManyRequests {
		for name, values := range h {
			if strings.Contains(name, "Ratelimit-") && values[0] == "0" { // others are not why
				wait = max(wait, pauseOf(h.Get(strings.Replace(name, "-Remaining", "-Reset", 1)), now))
			}
		}
	}
	return wait
}

// pauseOf reads a number of seconds, a duration such as 6m0s, or the time at which it ends; 0 for anything else.
func pauseOf(text string, now time.Time) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil {
		var at time.Time
		if at, err = http.ParseTime(text); err != nil {
			at, err = time.Parse(time.RFC3339, text)
		}
		d = at.Sub(now)
	}
	if err != nil {
		return 0
	}
	return min(max(d, 0), maxRetryAfter)
}

// retryInfo reads the detail of an error of Google's APIs.
func retryInfo(body []byte, now time.Time) time.Duration {
	var v struct {
		Error struct {
			Details []struct {
				Type  string `json:"@type"`
				Delay string `json:"retryDelay"`
			} `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &v) // others have none
	for _, d := range v.Error.Details {
		if strings.HasSuffix(d.Type, "/google.rpc.RetryInfo") {
			return pauseOf(d.Delay, now)
		}
	}
	return 0
}
