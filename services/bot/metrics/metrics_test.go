package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// TestCalled: calls have their times and tokens, those without an answer no tokens; models that clients make up are others.
func TestCalled(t *testing.T) {
	s := New(nil, nil)
	for n := range maxPayers + 500 {
		s.Called(&upstream.Called{Operation: "chat", Provider: "openai", Model: fmt.Sprint("m", n), Took: time.Second, Usage: openai.Usage{Prompt: 2, Completion: 3}})
	}
	s.Called(&upstream.Called{Operation: "chat", Provider: "openai", Model: "m0", Failure: "Bad Gateway", Took: time.Second})
	all := prometheus.NewRegistry()
	all.MustRegister(s.calls, s.callTokens)
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := f.GetName()
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			if h := m.GetHistogram(); strings.Contains(labels, "other") || strings.Contains(labels, " m0") {
				got[labels] = fmt.Sprintf("%d %v", h.GetSampleCount(), h.GetSampleSum())
			}
		}
	}
	const took, tokens = "gen_ai_client_operation_duration_seconds", "gen_ai_client_token_usage"
	want := map[string]string{
		took + "  chat openai m0": "1 1", took + " Bad Gateway chat openai m0": "1 1", took + "  other other other": "500 500",
		tokens + " chat openai m0 input": "1 2", tokens + " chat openai m0 output": "1 3", tokens + " other other other input": "500 1000", tokens + " other other other output": "500 1500",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestPayers: who pays has counters of their own, up to a bound; nothing is lost beyond it.
func TestPayers(t *testing.T) {
	s := New(nil, nil)
	for n := range maxPayers + 500 {
		s.Ended(&store.Entry{Key: "k", Team: "t", Model: fmt.Sprint("m", n), Outcome: "ok", Prompt: 2, Completion: 3, Money: 5e9})
	}
	s.Ended(&store.Entry{Key: "k", Team: "t", Model: "m0", Outcome: "ok", Cached: true, Prompt: 2, Completion: 3})
	all := prometheus.NewRegistry()
	all.MustRegister(s.answersBy, s.tokensBy, s.moneyBy)
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		got[f.GetName()] = float64(len(f.GetMetric()))
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			if strings.Contains(labels, "other") || strings.Contains(labels, " m0 ") {
				got[f.GetName()+labels] = m.GetCounter().GetValue()
			}
		}
	}
	const answers, tokens, money = "bot_key_answers_total", "bot_key_tokens_total", "bot_key_money_total"
	want := map[string]float64{
		answers: maxPayers + 1, tokens: 2 * (maxPayers + 1), money: maxPayers + 1,
		answers + " k m0 ok t": 2, answers + " other other ok other": 500,
		tokens + " k prompt m0 t": 2, tokens + " k completion m0 t": 3, tokens + " other prompt other other": 1000, tokens + " other completion other other": 1500,
		money + " k m0 t": 5, money + " other other other": 2500,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
