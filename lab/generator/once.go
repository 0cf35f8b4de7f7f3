package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/results/mask"
)

// A StepError says that a step which is carried out once has failed.
type StepError struct{ text string }

func (e *StepError) Error() string { return e.text }

// Bounds of what a StepError quotes.
const (
	mostAnswer  = 300 // bytes of a response
	leastSecret = 4   // bytes of a value that is masked: shorter ones stand anywhere
)

// Once carries out the setup or the teardown of a variant's scenario, in this process, and returns the values of the
// variables that it sets. Secrets are among the scenario's variables (see protocols.WithSecrets); hidden are those
// whose values no error quotes. The error is a *StepError if a response is missing or not as expected.
func Once(ctx context.Context, v *plan.Variant, seed uint64, part scenario.Part, hidden map[string]string) (values map[string]string, err error) {
	one := *v
	one.Load.Scenario = v.Load.Scenario.OfPart(part)
	one.Load.Closed, one.Load.Open, one.Load.Stages = &plan.Closed{Connections: 1}, nil, nil
	one.Load.Warmup, one.Load.Window, one.Load.Requests = 0, 0, 2*scenario.MaxSteps // the steps end it
	c, codecs, err := Config(ctx, &one, seed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, codecs.Close()) }()
	answer := ""
	c.Users.Observe = func(u *scenario.User, r *scenario.Response, failure error) {
		if values = u.Extracted(); failure == nil {
			return
		}
		body := mask.Text("", string(r.Body[:min(len(r.Body), mostAnswer)]))
		answer = fmt.Sprintf("; it answered %q", body)
		if r.Status >= 0 { // else the protocol has none
			answer = fmt.Sprintf("; it answered %s: %q", protocols.StatusName(v.Target.Protocol, r.Status), body)
		}
	}
	result, err := engine.Run(ctx, c)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case len(result.Failures) == 0:
		return values, nil
	}
	return nil, &StepError{withoutSecrets(describeFailure(&one, codecs.Scenario, result)+answer, hidden, values)}
}

// describeFailure says which step has failed, what it sends and why it failed.
func describeFailure(v *plan.Variant, s *scenario.Scenario, result *record.Result) string {
	n := slices.IndexFunc(result.Steps, func(st record.StepResult) bool { return st.Counts.ByKind != [wire.Kinds]uint64{} })
	info := s.Steps()[n]
	_, why, _ := strings.Cut(slices.Collect(maps.Keys(result.Failures))[0], ": ")
	// The path as it is written: what its variables stand for may be secret.
	st := &v.Load.Scenario.Steps[n]
	request := st.Method
	if st.Path != "" {
		request = info.Method + " " + st.Path
	}
	return fmt.Sprintf("load.scenario.%s: %s: %s", info.Path, cmp.Or(request, "the request"), why)
}

// withoutSecrets masks the values of variables in a text.
func withoutSecrets(text string, of ...map[string]string) string {
	var secrets, pairs []string
	for _, values := range of {
		for _, value := range values {
			if len(value) >= leastSecret {
				secrets = append(secrets, value)
			}
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) }) // one may begin with another
	for _, value := range secrets {
		pairs = append(pairs, value, mask.Sign)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
