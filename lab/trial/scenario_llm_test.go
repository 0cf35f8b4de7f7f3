package trial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"dyno/results/rundir"
)

// A model answers each question with its last three words, after a log-in.
type model struct {
	mu    sync.Mutex // guards what follows
	asked map[string]int
	wrong []string
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var q struct {
		User     string `json:"user"`
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		m.wrong = append(m.wrong, err.Error())
	}
	if r.URL.Path == "/v1/login" {
		fmt.Fprintf(w, `{"token":"T-%s"}`, q.User)
		return
	}
	user, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer T-")
	if user == r.Header.Get("Authorization") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	m.asked[fmt.Sprint(len(q.Messages))]++
	question := q.Messages[len(q.Messages)-1].Content
	if len(q.Messages) == 3 {
		if want := "my name is \"" + user + "\""; q.Messages[1].Role != "assistant" || q.Messages[1].Content != want || q.Messages[0].Content != "Hello, "+want {
			m.wrong = append(m.wrong, fmt.Sprintf("%s: %+v", user, q.Messages))
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	words := strings.Fields(strings.TrimPrefix(question, "Hello, "))
	for i, word := range words {
		if i > 0 {
			word = " " + word
		}
		text, _ := json.Marshal(word)
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", text)
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", len(words))
}

// Users log in, ask a model, and tell it in the next question what it has answered. Each step has
// tokens and their times, in the run folder and for thresholds.
func TestScenarioOfQuestions(t *testing.T) {
	for _, load := range []string{"closed: {connections: 4}\n  workers: 2", "open: {rate: 200/s, max_connections: 4}", "closed: {connections: 4}\n  processes: 2"} {
		m := &model{asked: map[string]int{}}
		e := shopPlan(t, 20, fmt.Sprintf(`name: ask
target: {protocol: llm, url: "%s/v1"}
design: {rounds: 1}
thresholds: ["first_token.p50{step=first} < 10s", "goodput{step=second} > 0/s"]
load:
  %s
  warmup: 0
  window: 400ms
  ask: {model: m, first_token: 10s}
  scenario:
    data: {users: users.csv}
    headers: {Authorization: "Bearer {{ token }}"}
    variables: {token: none}
    steps:
      - name: login
        once: true
        path: /v1/login
        body: '{"user":"{{ user }}"}'
        extract: {token: $.token}
      - name: first
        prompt: 'Hello, my name is "{{ user }}"'
        extract: {answer: $.text, n: $.tokens}
        assert: [{json: $.tokens, equals: "4"}]
      - name: second
        messages:
          - {role: user, content: 'Hello, my name is "{{ user }}"'}
          - {role: assistant, content: "{{ answer }}"}
          - {role: user, content: What did I say?}
`, serve(t, m, false), load))
		trial := measured(t, e)
		m.mu.Lock()
		if len(m.wrong) > 0 || trial.Counts.OK == 0 || trial.Counts.Errors > 0 {
			t.Errorf("%s: %+v, %v; wrong: %.300q", load, trial.Counts, trial.Failures, m.wrong)
		}
		m.mu.Unlock()
		var tokens int64
		for _, s := range trial.Steps {
			if s.Name == "login" {
				if s.Tokens != nil {
					t.Errorf("%+v", s)
				}
				continue
			}
			if s.Tokens == nil || s.Tokens.Count != 4*s.CompletedInWindow || s.Tokens.Within != s.CompletedInWindow || s.Tokens.Goodput == nil {
				t.Fatalf("%s: %+v, %+v", load, s, s.Tokens)
			}
			tokens += s.Tokens.Count
			for _, clock := range []string{rundir.TagFirstToken, rundir.TagResponse} {
				if h, err := trial.Latency(rundir.StepTag(clock, s.Name)); err != nil || h.Count() != s.OK {
					t.Errorf("%s: %d times of %s, %v; want %d", s.Name, h.Count(), clock, err, s.OK)
				}
			}
		}
		if trial.Tokens == nil || trial.Tokens.Count != tokens {
			t.Errorf("%+v, and the steps have %d", trial.Tokens, tokens)
		}
	}
}
