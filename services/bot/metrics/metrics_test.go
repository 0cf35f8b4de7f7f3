package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/bot/store"
)

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
