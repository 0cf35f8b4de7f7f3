package experiment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/load/scenario"
	"dyno/load/wire/http1"
	"dyno/load/wire/llm"
)

// isQuestion tells whether a model answers the step.
func (st *Step) isQuestion() bool { return st.Prompt != "" || len(st.Messages) > 0 }

// asksOfScenario validates what a scenario asks: load.ask says what all questions have in
// common, the steps say what is asked.
func (i *inspector) asksOfScenario(v *Variant) {
	const path = "load.ask"
	a := v.Load.Ask
	if a == nil {
		return // which is a fault of its own
	}
	for _, f := range []struct {
		field string
		given bool
	}{
		{"prompt", a.Prompt != ""},
		{"prompts", a.Prompts != ""},
		{"words", a.Words != DefaultVariant(LLM).Load.Ask.Words},
		{"words_to", a.WordsTo > 0},
		{"max_tokens_to", a.MaxTo > 0},
	} {
		if f.given {
			i.fault(path+"."+f.field, "is said by the steps of a scenario", "move it into a step, or remove it")
		}
	}
	i.scenario(v, scenario.ParseStatus)
	v.Load.Scenario.eachStep(func(at string, st *Step) {
		at = join("load.scenario", at)
		plain := st.Path != "" || st.Method != "" || st.Body != "" || st.BodyFile != ""
		switch {
		case st.Prompt != "" && len(st.Messages) > 0:
			i.fault(at+".messages", "prompt and messages exclude each other", "keep one of them")
		case st.isQuestion() && plain:
			i.fault(at, "a question has neither method, path nor body", "they are of a request that no model answers: give that a step of its own")
		case plain && st.Path == "":
			i.fault(at+".path", "is missing", "such as path: /v1/login")
		case !plain && !st.isQuestion():
			i.fault(at+".prompt", "is missing", "or messages, or the path of a request that no model answers")
		case st.MaxTokens > 0 && plain:
			i.fault(at+".max_tokens", "is only for questions", "remove it")
		case len(st.Messages) > 0 && a.API == APICompletions:
			i.fault(at+".messages", "the API completions takes prompts, not messages", "use prompt")
		}
	})
}

// script says what a scenario's users do: they ask a model, and send requests of HTTP as
// well.
func (LLMLoad) script(v *Variant, _ bool) (script, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return script{}, err
	}
	a := v.Load.Ask
	return script{
		step: func(st *Step, body string, to *scenario.Step) (err error) {
			if to.Status, err = st.statuses(scenario.ParseStatus); err != nil {
				return err
			}
			if !st.isQuestion() {
				to.Method, to.Path, to.Body = st.Method, st.Path, body
				return nil
			}
			to.Method, to.Path = "POST", a.target(end.Target)
			for _, h := range slices.Concat([]Header{{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}}, a.Headers) {
				if !slices.ContainsFunc(to.Header, func(f scenario.Field) bool { return strings.EqualFold(f.Name, h.Name) }) {
					to.Header = append(to.Header, scenario.Field{Name: h.Name, Value: h.Value})
				}
			}
			to.Body, err = a.question(st)
			return err
		},
		check: func(s *scenario.Scenario) error {
			_, err := requests(s, end)
			return err
		},
	}, nil
}

// question makes the body of the request that asks a model, which is a template.
func (a *Ask) question(st *Step) (string, error) {
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
func (a *Ask) asked(st *Step) (string, error) {
	quoted := func(field, text string) (string, error) {
		inside, err := scenario.InJSON(text)
		if err != nil {
			return "", &located{field, err.Error(), ""}
		}
		return `"` + inside + `"`, nil
	}
	turns := st.Messages
	if st.Prompt != "" {
		if a.API != APIChat {
			return quoted("prompt", st.Prompt)
		}
		turns = []ModelTurn{{Role: "user", Content: st.Prompt}}
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

// asked makes what a scenario's users are carried out with.
func (v *Variant) asked(c *Codecs, to *llm.Config, end http1.Endpoint) (err error) {
	if err := v.ready(c); err != nil {
		return err
	}
	if to.Requests, err = requests(c.Scenario, end); err != nil {
		return err
	}
	to.Fields, to.Accept = c.Scenario.HeaderNames(), anyStatus // the steps say what is expected
	v.Load.Scenario.eachStep(func(_ string, st *Step) { c.Answers = append(c.Answers, st.isQuestion()) })
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
