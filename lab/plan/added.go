package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Register adds a protocol of a program to dyno's own. Its targets have an address. Users carry out scenarios whose steps
// send messages, if it is scripted. Fields is the type of a struct whose tags declare what is in load.NAME, as those of
// TCPLoad do. Its Go fields are exported, and can be encoded as JSON. A method Check() error of a pointer to it refuses what
// tags cannot, with the remedy after a semicolon. Register is called when a program begins, before anything is planned: it changes what all plans may say.
func Register(name, title string, fields reflect.Type, isScripted bool) error {
	has := func(p protocol) bool { return p.name == name || p.added == fields }
	if !patterns["observer"].Matches(name) || DeclaredAt("load."+name) != nil || slices.ContainsFunc(protocols, has) {
		return fmt.Errorf("protocol %q: want a name and a struct that nothing else has, and as the name %s", name, patterns["observer"].Hint)
	}
	p := protocol{name: name, title: title, validator: added{}, added: fields, groups: []string{Loaded, exchanges, asScheme}}
	if isScripted {
		p.groups = append(p.groups, scripted, messages)
	}
	protocols = append(protocols, p)
	declared = sync.OnceValues(declare)
	return nil
}

// added describes targets with such a protocol.
type added struct{}

// validate judges a scenario, and what tags cannot say of the fields.
func (added) validate(i *inspector, _ *Experiment, v *Variant) {
	if v.Load.Scenario != nil {
		i.scenario(v)
	}
	if fields, ok := v.Load.Added.(interface{ Check() error }); ok {
		if err := fields.Check(); err != nil {
			problem, hint, _ := strings.Cut(err.Error(), "; ")
			i.fault("load."+v.Target.Protocol, problem, hint)
		}
	}
}

// UnmarshalJSON reads what another process of the same program has written.
func (v *Variant) UnmarshalJSON(text []byte) error {
	var spoken struct{ Target struct{ Protocol string } }
	if err := json.Unmarshal(text, &spoken); err != nil {
		return err
	}
	if t := protocolNamed(spoken.Target.Protocol).added; t != nil {
		v.Load.Added = reflect.New(t).Interface()
	}
	type plain Variant
	return json.Unmarshal(text, (*plain)(v))
}
