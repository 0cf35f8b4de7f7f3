package protocols

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/load/scenario/template"
	"dyno/load/wire/http1"
	"dyno/load/wire/llm"
)

// llmScript says what a scenario's users do: they ask a model, and send requests of HTTP as
// well.
func llmScript(_ context.Context, v *plan.Variant, _ bool) (script, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return script{}, err
	}
	a := ask{v.Load.Ask}
	return script{
		step: func(st *scenario.Step, content string) (sent scenario.StepRequest, err error) {
			if !st.IsQuestion() {
				return scenario.StepRequest{Method: st.Method, Path: st.Path, Body: content}, nil
			}
			sent = scenario.StepRequest{Method: "POST", Path: a.target(end.Target)}
			sent.Header = slices.Concat([]scenario.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "text/event-stream"}}, a.Headers)
			sent.Body, err = a.question(st)
			return sent, err
		},
		check: func(s *scenario.Scenario) error {
			_, err := requests(s, end)
			return err
		},
	}, nil
}

// question makes the body of the request that asks a model, which is a template.
func (a ask) question(st *scenario.Step) (string, error) {
	asked, err := a.asked(st)
	if err != nil {
		return "", err
	}
	rest, err := a.body(cmp.Or(st.MaxTokens, a.MaxTokens))
	if err != nil {
		return "", err
	}
	member := askedIn[a.API]
	delete(rest, member)
	text, err := json.Marshal(rest)
	if err != nil {
		return "", err
	}
	// After the others: a template's text is no JSON yet.
	return fmt.Sprintf(`%s,%s:%s}`, text[:len(text)-1], strconv.Quote(member), asked), nil
}

// asked returns what a step asks, in JSON but for the expressions in it.
func (a ask) asked(st *scenario.Step) (string, error) {
	quoted := func(field, text string) (string, error) {
		inside, err := template.InJSON(text)
		if err != nil {
			return "", &scenario.Fault{Path: field, Problem: err.Error()}
		}
		return `"` + inside + `"`, nil
	}
	turns := st.Messages
	if st.Prompt != "" {
		if a.API != plan.APIChat {
			return quoted("prompt", st.Prompt)
		}
		turns = []scenario.ModelTurn{{Role: "user", Content: st.Prompt}}
	}
	var b strings.Builder
	for i, m := range turns {
		field := fmt.Sprintf("messages[%d].content", i)
		if st.Prompt != "" {
			field = "prompt"
		}
		text, err := quoted(field, m.Content)
		if err != nil {
			return "", err
		}
		b.WriteString(map[bool]string{true: "[", false: ","}[i == 0])
		fmt.Fprintf(&b, `{"role":%s,"content":%s}`, strconv.Quote(m.Role), text)
	}
	b.WriteByte(']')
	return b.String(), nil
}

// playAsks makes what a scenario's users are carried out with.
func playAsks(ctx context.Context, v *plan.Variant, c *Codecs, to *llm.Config, end http1.Endpoint) (err error) {
	if err := ready(ctx, v, c, llmScript); err != nil {
		return err
	}
	if to.Requests, err = requests(c.Scenario, end); err != nil {
		return err
	}
	to.Fields, to.Accept = c.Scenario.HeaderNames(), anyStatus // the steps say what is expected
	v.Load.Scenario.EachUserStep(func(_ string, st *scenario.Step) { c.Answers = append(c.Answers, st.IsQuestion()) })
	steps := c.Scenario.Steps()
	for _, o := range c.Scenario.Outlines() {
		expect := llm.Expect{Plain: !c.Answers[o.Step]}
		if info := steps[o.Step]; info.WantsBody {
			expect.Keep = info.MaxBody
		}
		to.Expects = append(to.Expects, expect)
	}
	return nil
}
