package llm

import (
	"strings"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	for text, want := range map[string]Fault{
		"429":                {Kind: "429"},
		"429;retry_after=2s": {Kind: "429", RetryAfter: 2 * time.Second},
		"503":                {Kind: "503"},
		"cut":                {Kind: FaultCut},
		" cut ; after=3":     {Kind: FaultCut, After: 3},
		"malformed;after=1":  {Kind: FaultMalformed, After: 1},
		"no_usage":           {Kind: FaultNoUsage},
		"slow;delay=2s":      {Kind: FaultSlow, Delay: 2 * time.Second},
		"hang":               {Kind: FaultHang},
	} {
		if got, err := ParseFault(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                       "no kind",
		"200":                    "must be a status from 400",
		"600":                    "must be a status from 400",
		"burn":                   "must be a status from 400",
		"cut;after=x":            `parameter "after": "x": want a number of tokens`,
		"cut;before=1":           "must be after, delay or retry_after",
		"cut;after=-1":           "after -1",
		"cut;delay=1s":           "with slow only",
		"hang;after=1":           "with cut and malformed only",
		"slow;retry_after=1s":    "with a status only",
		"429;retry_after=1500ms": "whole seconds",
	} {
		if f, err := ParseFault(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v: want %q", text, f, err, want)
		}
	}
}

func TestParseFaultRate(t *testing.T) {
	got, err := ParseFaultRate("0.25=429;retry_after=2s")
	if want := (FaultRate{Fault{Kind: "429", RetryAfter: 2 * time.Second}, 0.25}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"429": "want PROBABILITY=FAULT", "x=429": `probability "x"`, "2=429": "probability 2", "NaN=429": "probability NaN", "0.5=": "no kind",
	} {
		if r, err := ParseFaultRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v: want %q", text, r, err, want)
		}
	}
}
