package trial

import (
	"strings"
	"testing"

	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/lab/remote"
	"dyno/load/scenario"
)

// Secrets of a plan are read here and sent to the agents that carry its load: the owner's are no plan's.
func TestSecretsOfTheOwner(t *testing.T) {
	l := &Limits{Loads: &generator.Limits{Files: t.TempDir()}, Programs: &remote.Limits{}}
	v := plan.DefaultVariant(plan.HTTP)
	v.Load.Scenario = &scenario.Spec{Env: []string{"TOKEN"}, Secrets: "/etc/passwd"}
	err := l.check(&v)
	for _, want := range []string{"load.scenario.env: ", "load.scenario.secrets: /etc/passwd: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	if v.Load.Scenario = nil; l.check(&v) != nil || (*Limits)(nil).check(&v) != nil {
		t.Error("without secrets it is refused, too")
	}
}
