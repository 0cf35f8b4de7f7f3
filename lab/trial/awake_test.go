package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dyno/host/awake"
	"dyno/observe"
)

// A run keeps its CPUs awake and says so, or says why it could not.
func TestRunKeepsCPUsAwake(t *testing.T) {
	e := parse(t, `name: awake
awake: true
target:
  protocol: http
  start: [dyno, "null", "127.0.0.1:{{port}}"]
observe: {kernel: none}
load: {open: {rate: 200/s}, warmup: 0, window: 200ms}
design: {rounds: 1}
`)
	var l log
	o := options(t, &l)
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	env := open(t, o.Dir).Run.Environment
	allowed := observe.ReadEnvironment().AllowedCPUs
	lock, refused := awake.Start(allowed...)
	if refused != nil {
		if len(env.AwakeCPUs) > 0 || !strings.Contains(fmt.Sprint(env.Unavailable), refused.Error()) {
			t.Errorf("awake were %v, unavailable %q: want none, and %q", env.AwakeCPUs, env.Unavailable, refused)
		}
		return
	}
	if err := lock.Stop(); err != nil {
		t.Error(err)
	}
	if got := env.AwakeCPUs; !slices.Equal(got, allowed) {
		t.Errorf("awake were %v, want all of %v, since nothing has its place", got, allowed)
	}
}
