package ctl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/services/control/resource"
)

// Kinds of what is shown, next to those of resources. Tokens and members cannot be named by arguments.
const (
	services resource.Kind = "service"
	tokens   resource.Kind = "token"
	members  resource.Kind = "member"
	rollouts resource.Kind = "rollout"
	audits   resource.Kind = "audit"
)

// A look says how a kind is named and shown.
type look struct {
	kind    resource.Kind
	words   []string // accepted for it; completion offers the first
	columns []string
	make    func() any      // a document to read into
	cells   func(any) []any // of a document, as cell takes them
}

// lookOf makes the look of a kind whose documents are a T. Words and columns have spaces between.
func lookOf[T any](k resource.Kind, words, columns string, cells func(*T) []any) look {
	return look{k, strings.Fields(words), strings.Fields(columns), func() any { return new(T) }, func(doc any) []any { return cells(doc.(*T)) }}
}

// looks are those of all kinds, in the order of help.
var looks = []look{
	lookOf(services, "services service svc", "NAME INSTANCES", func(d *resource.Service) []any { return []any{d.Name, d.Instances} }),
	lookOf(resource.Instances, "instances instance inst", "SERVICE ID ADDRESS STATUS WEIGHT ZONE HOLDER AGE", func(d *resource.InstanceView) []any {
		status := string(d.Status)
		if d.Overdue {
			status += ", overdue"
		}
		if d.Checked() {
			status += ", " + string(d.Health)
		}
		if d.Maintenance != "" {
			status += ", in maintenance"
		}
		return []any{d.Service, d.ID, net.JoinHostPort(d.Address, strconv.Itoa(d.Port)), status, d.Weight, d.Zone, d.Holder, d.At}
	}),
	lookOf(resource.Configs, "configs config cfg", "NAME VERSION BYTES TYPE RELEASE AGE BY", func(d *resource.Config) []any {
		size := strconv.Itoa(len(d.Data()))
		if d.Secret {
			size = "secret"
		}
		chosen := ""
		if d.Release != nil {
			chosen = release(&d.Release.Choice)
		}
		return []any{d.Name, d.Version, size, d.ContentType, chosen, d.At, d.By}
	}),
	lookOf(resource.Policies, "policies policy pol", "NAME VERSION RULES AGE BY", func(d *resource.Policy) []any { return []any{d.Name, d.Version, len(d.Rules), d.At, d.By} }),
	lookOf(resource.Sessions, "sessions session", "ID NAME TTL AGE BY", func(d *resource.Session) []any { return []any{d.ID, d.Name, strconv.Itoa(d.TTL) + "s", d.At, d.By} }),
	lookOf(resource.Locks, "locks lock", "NAME VALUE TOKEN HOLDER SESSION AGE BY", func(d *resource.Lock) []any {
		return []any{d.Name, d.Value, d.Token, d.Holder, d.Session, d.Since, d.By}
	}),
	lookOf(resource.Counters, "counters counter", "NAME VALUE AGE BY", func(d *resource.Counter) []any { return []any{d.Name, strconv.FormatInt(d.Value, 10), d.At, d.By} }),
	lookOf(resource.Principals, "principals principal", "NAME VERSION ROLES GRANTS TOKENS AGE BY", func(d *resource.Principal) []any {
		return []any{d.Name, d.Version, d.Roles, d.Grants, int64(len(d.Tokens)), d.At, d.By}
	}),
	lookOf(resource.Roles, "roles role", "NAME VERSION GRANTS GROUPS AGE BY", func(d *resource.Role) []any { return []any{d.Name, d.Version, d.Grants, d.Groups, d.At, d.By} }),
	lookOf(tokens, "", "ID DESCRIPTION EXPIRES AGE BY", func(d *resource.Token) []any { return []any{d.ID, d.Description, until(d.Expires), d.At, d.By} }),
	lookOf(members, "", "NAME ADDRESS ID VOTES", func(d *member) []any { return []any{d.Name, d.Address, d.ID, !d.Learner} }),
	lookOf(rollouts, "rollout rollouts", "CLIENT STATE VERSION RUNNING CONNECTED AGE REASON", func(d *resource.Holding) []any {
		return []any{d.Client, d.State, d.Version, d.Running, d.Connected, d.At, d.Reason}
	}),
	lookOf(audits, "audit", "TIME WHO FROM ACT WHAT OLD NEW", func(d *resource.Audit) []any {
		return []any{until(d.At), d.Who, d.From, d.Act, d.String(), d.Old, d.New}
	}),
}

// cell returns a value as a table has it. An empty one, and 0 of 64 bits, is none.
func cell(value any, now time.Time) string {
	text := ""
	switch v := value.(type) {
	case int64:
		if v != 0 {
			text = strconv.FormatInt(v, 10)
		}
	case bool:
		text = "no"
		if v {
			text = "yes"
		}
	case time.Time:
		text = age(v, now)
	case []string:
		text = strings.Join(v, ",")
	case []resource.Grant:
		var parts []string
		for _, g := range v {
			parts = append(parts, g.Namespace+":"+string(g.Role))
		}
		text = strings.Join(parts, ",")
	default:
		text = fmt.Sprint(v)
	}
	return cmp.Or(text, "-")
}

// lookAt returns the look of a kind.
func lookAt(k resource.Kind) *look {
	return &looks[slices.IndexFunc(looks, func(l look) bool { return l.kind == k })]
}

// kindOf parses a kind, which must be one of the wanted ones.
func kindOf(word string, wanted ...resource.Kind) (resource.Kind, error) {
	for _, l := range looks {
		if slices.Contains(l.words, word) && slices.Contains(wanted, l.kind) {
			return l.kind, nil
		}
	}
	return "", exit.Misused("one of "+strings.Join(words(wanted), ", "), "unknown kind %q", word)
}

// words returns the words that completion offers for kinds.
func words(wanted []resource.Kind) []string {
	var list []string
	for _, l := range looks {
		if slices.Contains(wanted, l.kind) {
			list = append(list, l.words[0])
		}
	}
	return list
}

// named parses arguments: KIND NAME… or KIND/NAME….
func named(args []string, wanted ...resource.Kind) ([]resource.Ref, error) {
	first, _, each := strings.Cut(args[0], "/")
	if _, err := kindOf(first, wanted...); err != nil {
		return nil, err
	}
	if !each {
		args = args[1:]
	}
	var refs []resource.Ref
	for _, arg := range args {
		word, name, ok := first, arg, true
		if each {
			word, name, ok = strings.Cut(arg, "/")
		}
		k, err := kindOf(word, wanted...)
		switch {
		case !ok:
			return nil, exit.Misused("such as policy/a", "%q: want KIND/NAME as before it", arg)
		case err != nil:
			return nil, err
		case name == "":
			return nil, exit.Misused("such as "+word+"/a", "%s: a name is missing", word)
		}
		refs = append(refs, resource.Ref{Kind: k, Name: name})
	}
	if len(refs) == 0 {
		return nil, exit.Misused("such as "+first+"/a", "%s: a name is missing", first)
	}
	return refs, nil
}

// namedOne is named for commands that take one resource.
func namedOne(args []string, wanted ...resource.Kind) (resource.Ref, error) {
	refs, err := named(args, wanted...)
	if err != nil {
		return resource.Ref{}, err
	}
	if len(refs) > 1 {
		return resource.Ref{}, exit.Misused("", "want one name, got %d", len(refs))
	}
	return refs[0], nil
}

// in returns a query for a namespace.
func in(namespace string) url.Values { return url.Values{"namespace": {namespace}} }

// An entry is a resource, service or change to be shown.
type entry struct {
	kind resource.Kind
	name string // NAME, or SERVICE/ID of an instance
	doc  any    // as the kind's look has it
	raw  json.RawMessage
	// event is the kind of its change, in a watch.
	event string
}

// entryOf parses a document of the API.
func entryOf(k resource.Kind, raw json.RawMessage) (entry, error) {
	l := lookAt(k)
	e := entry{kind: k, raw: raw, doc: l.make()}
	err := json.Unmarshal(raw, e.doc)
	switch d := e.doc.(type) {
	case *resource.InstanceView:
		e.name = d.Service + "/" + d.ID
	case *resource.Audit:
		e.name = d.Path()
	default:
		e.name = l.cells(d)[0].(string)
	}
	return e, err
}

// row returns the entry's cells in a table.
func (e entry) row(now time.Time) []string {
	var texts []string
	if e.event != "" {
		texts = append(texts, e.event)
	}
	for _, value := range lookAt(e.kind).cells(e.doc) {
		texts = append(texts, cell(value, now))
	}
	return texts
}

// masked returns the entry without secrets: for lists and watches.
func (e entry) masked() entry {
	c, ok := e.doc.(*resource.Config)
	if !ok || !c.Secret {
		return e
	}
	one := c.Masked()
	e.doc, e.raw = &one, marshal(one)
	return e
}

// document returns the entry in JSON, in the form that apply reads: with its kind, and without a hidden content.
func (e entry) document() json.RawMessage {
	raw := e.raw
	if c, ok := e.doc.(*resource.Config); ok && c.Secret && c.Data() == "" {
		raw = marshal(struct {
			*resource.Config
			Content string `json:"content,omitempty"` // hidden contents are left out, rather than empty
		}{Config: c})
	}
	if e.kind == audits || e.kind == rollouts {
		return raw // these documents name their resources
	}
	head := marshal(map[string]resource.Kind{"kind": e.kind})
	if len(raw) <= 2 {
		return head
	}
	return append(append(head[:len(head)-1:len(head)-1], ','), raw[1:]...)
}

// completeKinds offers kinds.
func completeKinds(wanted ...resource.Kind) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(wanted), cobra.ShellCompDirectiveNoFileComp
	}
}
