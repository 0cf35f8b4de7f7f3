package plan

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
)

// Describe says what the variant's load sends, and where, such as GET http://127.0.0.1:8080/. Run-time
// variables stand in it as they do in the file.
func (v *Variant) Describe() string {
	where, l := cmp.Or(v.Target.URL, v.Target.Address), &v.Load
	through := ""
	if v.Target.Proxy != "" {
		at := strings.TrimPrefix(v.Target.Proxy, "http://")
		through = " through " + strings.TrimSuffix(at[strings.LastIndexByte(at, '@')+1:], "/")
	}
	switch {
	case l.Scenario != nil && l.Scenario.InTurn && len(l.Scenario.Flows) == 0:
		return fmt.Sprintf("%d requests in turn at %s", len(l.Scenario.Steps), where)
	case l.Scenario != nil:
		return "scenario at " + where + through
	case l.Call != nil:
		return l.Call.Method + " at " + where
	case l.Request != nil:
		if u, err := url.Parse(where); err == nil && l.Request.Path != "" {
			where = u.Scheme + "://" + u.Host + l.Request.Path
		}
		return l.Request.ActualMethod() + " " + where + through
	case l.Subscribers != nil:
		return "events of " + where
	case l.Ask != nil:
		return "answers of " + where
	}
	return strings.TrimSpace(v.Target.Protocol + " " + where)
}
