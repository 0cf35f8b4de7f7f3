package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"dyno/internal/fields"
)

// A Cause is why a model has not answered.
type Cause string

// The causes.
const (
	Down     Cause = "down"     // no deployment of it could answer
	Limited  Cause = "limited"  // its rate limits are reached
	Context  Cause = "context"  // the request has more tokens than it reads
	Filtered Cause = "filtered" // the vendor's filter has refused the request
)

// A Fallback names models that are asked in place of one that has not answered.
type Fallback struct {
	Model string   `yaml:"model,required" doc:"the model that clients ask for; * is each that has no fallback of its own for that cause"`
	To    []string `yaml:"to,required" most:"16" doc:"the models that are asked in its place, one after the other, if the key may use them"`
	On    []Cause  `yaml:"on" oneof:"down limited context filtered" otherwise:"down and limited" doc:"why the model has not answered: no deployment can, rate limits, the request is too long for it, the vendor's filter"`
}

func (f Fallback) on(c Cause) bool {
	if len(f.On) == 0 {
		return c == Down || c == Limited
	}
	return slices.Contains(f.On, c)
}

// checkFallbacks reports models that no deployment serves.
func (c Config) checkFallbacks(r *fields.Report) {
	all := c.All()
	served := func(model string) bool {
		return c.Managed || slices.ContainsFunc(all, func(d Deployment) bool { return d.Serves(model) })
	}
	for i, f := range c.Fallbacks {
		at := r.At("fallbacks[%d]", i)
		at.Check(f.Model == wildcard || served(f.Model), "model", fmt.Sprintf("no deployment has %q", f.Model), "a name of models that clients use, or *")
		for j, to := range f.To {
			at.Check(served(to) && to != f.Model, fmt.Sprintf("to[%d]", j), fmt.Sprintf("%q cannot be asked in its place", to), "a name of another model that clients use")
		}
	}
}

// fallbacks returns the models to ask in place of one, after a cause; "" is any.
func (p *Pool) fallbacks(model string, c Cause) (list []string) {
	for _, of := range []string{model, wildcard} {
		for _, f := range p.cfg.Fallbacks {
			if f.Model != of || c != "" && !f.on(c) {
				continue
			}
			for _, to := range f.To {
				if to != model && !slices.Contains(list, to) {
					list = append(list, to)
				}
			}
		}
		if len(list) > 0 && c != "" {
			break
		}
	}
	return list
}

// Texts by which vendors without a code for it say that a request has too many tokens.
var tooLong = []string{"maximum context length", "prompt is too long", "exceeds the maximum number of tokens", "exceeds the available context size", "context window"}

// cause returns why a model has not answered; "" for the client's own faults.
func (e *Error) cause() Cause {
	text := strings.ToLower(e.Text)
	switch {
	case e.Status == http.StatusTooManyRequests:
		return Limited
	case e.Status >= http.StatusInternalServerError && !e.fatal:
		return Down
	case e.Body == nil:
		return ""
	case e.Code == "context_length_exceeded" || slices.ContainsFunc(tooLong, func(said string) bool { return strings.Contains(text, said) }):
		return Context
	case e.Code == "content_filter" || e.Code == "content_policy_violation":
		return Filtered
	}
	return ""
}
