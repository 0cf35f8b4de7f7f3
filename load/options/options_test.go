package options

import (
	"strings"
	"testing"
	"time"
)

// What is given stays; what is not has the default that the tags declare.
func TestWithDefaults(t *testing.T) {
	const given = 3 * time.Minute
	if got, want := WithDefaults(Timeouts{ConnectTimeout: given}), (Timeouts{30 * time.Second, given}); got != want {
		t.Errorf("timeouts %v, want %v", got, want)
	}
	for _, tt := range []struct {
		subscribers bool
		given, want Backoff
	}{
		{false, Backoff{}, Backoff{time.Second, time.Second}},
		{false, Backoff{MaxBackoff: given}, Backoff{time.Second, given}},
		{true, Backoff{}, Backoff{time.Second, 64 * time.Second}},
		{true, Backoff{MinBackoff: given}, Backoff{given, given}},
		{true, Backoff{MinBackoff: given, MaxBackoff: 1}, Backoff{given, 1}},
	} {
		if got := tt.given.WithDefaults(tt.subscribers); got != tt.want {
			t.Errorf("%+v of subscribers %v: %+v, want %+v", tt.given, tt.subscribers, got, tt.want)
		}
	}
}

// A fault names the options, the field and the bound.
func TestValidate(t *testing.T) {
	err := Validate(Waiting{MaxWaiting: -1})
	if err == nil || !strings.Contains(err.Error(), "options.Waiting: max_waiting: -1 is too little; from 1") {
		t.Error(err)
	}
	if err := Validate(WithDefaults(Timeouts{})); err != nil {
		t.Error(err)
	}
}
