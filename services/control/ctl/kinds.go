package ctl

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/services/control/resource"
)

// A kind is a kind of thing that arguments can name.
type kind string

// The kinds. Those of resources have the API's names.
const (
	services   kind = "service"
	instances       = kind(resource.Instances)
	configs         = kind(resource.Configs)
	policies        = kind(resource.Policies)
	sessions        = kind(resource.Sessions)
	locks           = kind(resource.Locks)
	counters        = kind(resource.Counters)
	principals      = kind(resource.Principals)
	roles           = kind(resource.Roles)
	rollouts   kind = "rollout"
	audits     kind = "audit"
)

// spellings are the accepted words for each kind; completion offers the first.
var spellings = []struct {
	kind  kind
	words []string
}{
	{services, []string{"services", "service", "svc"}},
	{instances, []string{"instances", "instance", "inst"}},
	{configs, []string{"configs", "config", "cfg"}},
	{policies, []string{"policies", "policy", "pol"}},
	{sessions, []string{"sessions", "session"}},
	{locks, []string{"locks", "lock"}},
	{counters, []string{"counters", "counter"}},
	{principals, []string{"principals", "principal"}},
	{roles, []string{"roles", "role"}},
	{rollouts, []string{"rollout", "rollouts"}},
	{audits, []string{"audit"}},
}

// kindOf parses a kind, which must be one of the wanted ones.
func kindOf(word string, wanted ...kind) (kind, error) {
	for _, s := range spellings {
		if slices.Contains(s.words, word) && slices.Contains(wanted, s.kind) {
			return s.kind, nil
		}
	}
	return "", exit.Misused("one of "+strings.Join(words(wanted), ", "), "unknown kind %q", word)
}

// words returns the words that completion offers for kinds.
func words(wanted []kind) []string {
	var list []string
	for _, s := range spellings {
		if slices.Contains(wanted, s.kind) {
			list = append(list, s.words[0])
		}
	}
	return list
}

// named parses arguments: KIND NAME… or KIND/NAME….
func named(args []string, wanted ...kind) ([]resource.Ref, error) {
	var refs []resource.Ref
	if first, _, one := strings.Cut(args[0], "/"); !one {
		k, err := kindOf(first, wanted...)
		if err != nil {
			return nil, err
		}
		for _, name := range args[1:] {
			refs = append(refs, resource.Ref{Kind: resource.Kind(k), Name: name})
		}
	} else {
		for _, arg := range args {
			word, name, ok := strings.Cut(arg, "/")
			if !ok {
				return nil, exit.Misused("such as policy/a", "%q: want KIND/NAME as before it", arg)
			}
			k, err := kindOf(word, wanted...)
			if err != nil {
				return nil, err
			}
			refs = append(refs, resource.Ref{Kind: resource.Kind(k), Name: name})
		}
	}
	if len(refs) == 0 {
		return nil, exit.Misused("such as "+args[0]+"/a", "%s: a name is missing", args[0])
	}
	for _, r := range refs {
		if r.Name == "" {
			return nil, exit.Misused("such as "+string(r.Kind)+"/a", "%s: a name is missing", r.Kind)
		}
	}
	return refs, nil
}

// namedOne is named for commands that take one resource.
func namedOne(args []string, wanted ...kind) (resource.Ref, error) {
	refs, err := named(args, wanted...)
	if err != nil {
		return resource.Ref{}, err
	}
	if len(refs) > 1 {
		return resource.Ref{}, exit.Misused("", "want one name, got %d", len(refs))
	}
	return refs[0], nil
}

// path returns the API's path of a resource other than an instance; with "", of their list.
func path(k kind, name string, more ...string) string {
	folder := resource.Kind(k).Traits().Folder
	if name != "" {
		folder += "/" + url.PathEscape(name)
	}
	for _, part := range more {
		folder += "/" + part
	}
	return folder
}

// instancePath returns the API's path of a service's instances, or of one of them.
func instancePath(service, id string) string {
	p := "/v1/services/" + url.PathEscape(service) + "/instances"
	if id != "" {
		p += "/" + url.PathEscape(id)
	}
	return p
}

// in returns a query for a namespace.
func in(namespace string) url.Values { return url.Values{"namespace": {namespace}} }

// An entry is a resource, service or change to be shown.
type entry struct {
	kind kind
	name string // NAME, or SERVICE/ID of an instance
	doc  any    // a resource.Document, *serviceView, *instanceView, *resource.Token, *holding or *resource.Audit
	raw  json.RawMessage
}

// A serviceView is a service as lists have it.
type serviceView struct {
	Name      string `json:"name"`
	Instances int    `json:"instances"`
}

// An instanceView is an instance with what the replica knows of its health.
type instanceView struct {
	resource.Instance
	Overdue bool `json:"overdue"`
}

// entryOf parses a document of the API.
func entryOf(k kind, raw json.RawMessage) (entry, error) {
	e := entry{kind: k, raw: raw}
	var err error
	read := func(into any) { e.doc, err = into, json.Unmarshal(raw, into) }
	switch k {
	case services:
		v := new(serviceView)
		read(v)
		e.name = v.Name
	case instances:
		v := new(instanceView)
		read(v)
		e.name = v.Service + "/" + v.ID
	case tokens:
		v := new(resource.Token)
		read(v)
		e.name = v.ID
	case audits:
		v := new(resource.Audit)
		read(v)
		e.name = v.Path()
	case rollouts:
	default:
		var doc resource.Document
		if doc, err = resource.Parse(resource.Kind(k), raw); err == nil {
			e.doc, e.name = doc, doc.Ref().Name
		}
	}
	return e, err
}

// masked returns the entry without secrets: for lists and watches.
func (e entry) masked() entry {
	c, ok := e.doc.(*resource.Config)
	if !ok || !c.Secret {
		return e
	}
	one := c.Masked()
	e.doc = &one
	if raw, err := json.Marshal(one); err == nil { // it was read from JSON: it can be written
		e.raw = raw
	}
	return e
}

// document returns the entry in JSON, in the form that apply reads: with its kind, and without a hidden content.
func (e entry) document() (json.RawMessage, error) {
	raw := e.raw
	if c, ok := e.doc.(*resource.Config); ok && c.Secret && c.Data() == "" {
		var err error
		if raw, err = json.Marshal(struct {
			*resource.Config
			Content string `json:"content,omitempty"` // hidden contents are left out, rather than empty
		}{Config: c}); err != nil {
			return nil, err
		}
	}
	if e.kind == audits || e.kind == rollouts {
		return raw, nil // these documents name their resources
	}
	head, err := json.Marshal(map[string]kind{"kind": e.kind})
	if err != nil || len(raw) <= 2 {
		return head, err
	}
	return append(append(head[:len(head)-1:len(head)-1], ','), raw[1:]...), nil
}

// completeKinds offers kinds.
func completeKinds(wanted ...kind) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(wanted), cobra.ShellCompDirectiveNoFileComp
	}
}
