package trial

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"dyno/host/target"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/lab/remote"
)

// Limits are what the owner of this machine allows plans that others wrote. Agents limit what is placed
// with them, or carried by them.
type Limits struct {
	Loads    *generator.Limits
	Programs *remote.Limits
}

// check refuses what a variant observes beyond the limits, and secrets of this machine. Programs are admitted when they are started, and loads when they begin:
// their addresses are known then.
func (l *Limits) check(v *plan.Variant) error {
	if l == nil {
		return nil
	}
	var faults []error
	refuse := func(field string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("variant %s: %s: %w", v.Name, field, err))
		}
	}
	if err := l.Loads.AdmitSecrets(v.Load.Scenario); err != nil {
		faults = append(faults, fmt.Errorf("variant %s: %w", v.Name, err))
	}
	for i := range v.Observe.Commands {
		c := &v.Observe.Commands[i]
		refuse("observe.commands."+c.Name, l.Programs.AdmitCommand(&target.Spec{Name: c.Name, Args: c.Run}))
	}
	for i := range v.Observe.Endpoints {
		e := &v.Observe.Endpoints[i]
		refuse("observe.endpoints."+e.Name, l.admitURL(e.URL))
	}
	refuse("observe.runtime", l.admitURL(v.Observe.Runtime))
	refuse("target.pprof", l.admitURL(v.Target.Pprof))
	if v.Target.Agent == "" && v.Observe.PID != 0 {
		refuse("observe.pid", l.Programs.AdmitSubject(false))
	}
	if v.Target.Agent == "" && v.Observe.Cgroup != "" {
		refuse("observe.cgroup", l.Programs.AdmitSubject(false))
	}
	return errors.Join(faults...)
}

// admitURL refuses to ask something elsewhere. A port that is still unknown belongs to a process of the
// plan.
func (l *Limits) admitURL(text string) error {
	if text == "" || strings.Contains(text, "{{") {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // its name is a port's
	}
	_, err = l.Loads.AdmitAddress(context.Background(), u.Hostname()+":"+port)
	return err
}

// admit refuses a program of this machine that may not be started.
func (l *Limits) admit(ctx context.Context, s *target.Spec) error {
	if l == nil {
		return nil
	}
	return l.Programs.Admit(ctx, s)
}

// bound refuses a load of this machine that goes beyond the limits, and ends one that takes too long.
func (l *Limits) bound(ctx context.Context, v *plan.Variant) (context.Context, context.CancelFunc, *plan.Variant, error) {
	if l == nil {
		return ctx, func() {}, v, nil
	}
	admitted := *v // its address becomes a number, which another trial looks up again
	if err := l.Loads.Admit(ctx, &admitted); err != nil {
		return ctx, func() {}, v, err
	}
	ctx, end := l.Loads.Bound(ctx)
	return ctx, end, &admitted, nil
}
