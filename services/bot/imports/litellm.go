// Package imports makes a configuration of this gateway of that of another one. It is pure. What has no place here is listed with
// the reason.
package imports

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/lazyregexp"
	"dyno/internal/terminal"
	"dyno/services/bot"
)

// A Left is a setting that has no place.
type Left struct {
	Line      int
	What, Why string
}

// A Result is a configuration, and what it does not have.
type Result struct {
	Text        []byte
	Deployments int
	Left        []Left // in the order of the file
}

// An importer reads a file of LiteLLM.
type importer struct {
	name      string // of the file
	env       func(name string) (string, bool)
	root, out *fields.Node
	left      []Left
	secrets   [][3]string // a value, which is not written, its file, and what the configuration says of that
	networks  []string    // that are allowed
	providers []*fields.Node
	groups    map[string][]*deployment
	all       []*deployment
}

// LiteLLM reads a configuration of LiteLLM's proxy, by the pages "All settings" and "Router" of its documentation, of 2026-11. Variables
// of the environment are read for what is no secret, and for the master key, of which the hash is kept. The result has what is left out
// with an error, too.
func LiteLLM(name string, text []byte, env func(name string) (string, bool)) (Result, error) {
	c := fields.NewCollector()
	i := &importer{name: name, env: env, root: fields.ParseTree(text, c), out: mapping(), groups: map[string][]*deployment{}}
	if err := c.Err(name, nil); err != nil {
		return Result{}, err
	}
	i.out.Insert("listen", scalar("127.0.0.1:4000"))
	for _, entry := range items(i.root.Get("model_list")) {
		i.leave(entry, i.entry(entry))
	}
	for _, group := range i.groups {
		complete(group)
	}
	for _, d := range i.all {
		if d.terms.Get("price") == nil {
			i.leave(d.from, "it has no price, as others may not: there is no table of prices, and limits of money need them in the file")
			break
		}
	}
	// Of a setting in both, that of the router counts.
	sections := []string{"router_settings", "litellm_settings", "general_settings"}
	for _, section := range sections {
		i.carry(i.root.Get(section), i.out, "", ofAll, i.setting)
	}
	i.fallbacks()
	for _, k := range keys(i.root) {
		if !slices.Contains(append(sections, "model_list", "environment_variables"), k.Name) {
			i.leave(k.Value, reason(k.Name))
		}
	}
	slices.SortStableFunc(i.left, func(a, b Left) int { return cmp.Compare(a.Line, b.Line) })
	r := Result{i.write(), len(i.all), i.left}
	err := check(r.Text)
	switch {
	case len(i.all) == 0:
		err = errors.New(name + ": no model of model_list has a place")
	case err != nil:
		err = fmt.Errorf("%s: what is made of it is no configuration:\n%w", name, err)
	}
	return r, err
}

func mapping() *fields.Node           { return &fields.Node{Kind: fields.IsMapping} }
func scalar(text string) *fields.Node { return &fields.Node{Kind: fields.IsText, Text: text} }

func list(nodes ...*fields.Node) *fields.Node {
	return &fields.Node{Kind: fields.IsList, Items: nodes}
}

func texts(list []string) *fields.Node {
	n := &fields.Node{Kind: fields.IsList}
	for _, text := range list {
		n.Items = append(n.Items, scalar(text))
	}
	return n
}

// keys returns the settings of a section that have values.
func keys(n *fields.Node) []fields.Key {
	return slices.DeleteFunc(slices.Clone(cmp.Or(n, mapping()).Keys), func(k fields.Key) bool {
		return !k.Value.Scalar() && len(k.Value.Keys)+len(k.Value.Items) == 0
	})
}

// items returns those of a list; another value is a list of one.
func items(n *fields.Node) []*fields.Node {
	if n == nil || n.Kind == fields.IsList {
		return cmp.Or(n, mapping()).Items
	}
	return []*fields.Node{n}
}

func isTrue(n *fields.Node) bool { return n != nil && strings.EqualFold(n.Text, "true") }

// place names a setting in the file that is made.
func (i *importer) place(n *fields.Node) string {
	line, _ := n.Where()
	return fmt.Sprintf("%s:%d: %s", i.name, line, n.Path)
}

// leave lists a setting, if there is a reason.
func (i *importer) leave(n *fields.Node, why string) {
	if line, _ := n.Where(); why != "" {
		i.left = append(i.left, Left{line, n.Path, why})
	}
}

const variable = "os.environ/"

// text returns a value, which may be that of a variable.
func (i *importer) text(n *fields.Node) (text, why string) {
	if n == nil || !n.Scalar() {
		return "", "is not one value"
	}
	name, is := strings.CutPrefix(n.Text, variable)
	if !is {
		return n.Text, ""
	}
	if v := i.root.Get("environment_variables").Get(name); v != nil && v.Scalar() {
		return v.Text, ""
	}
	if v, ok := i.env(name); ok {
		return v, ""
	}
	return "", fmt.Sprintf("the variable %s is not set: set it, and import again", name)
}

var form = fields.Of(reflect.TypeFor[bot.Config]())

// put gives fields below a mapping a value that has none. within is the path of the mapping.
func put(to *fields.Node, within, names, text, note string) (why string) {
	for name := range strings.FieldsSeq(names) {
		if problem, hint := form.Find(fields.Join(within, name)).ScalarFault(text); problem != "" {
			return fmt.Sprintf("%s %s; %s", name, problem, hint)
		}
		if to.Find(name) == nil {
			to.Insert(name, &fields.Node{Kind: fields.IsNumber, Text: text, Note: note})
		}
	}
	return ""
}

// carry carries the settings of a section over: by a rule, or else by what other says.
func (i *importer) carry(from, to *fields.Node, within string, rules map[string]rule, other func(section *fields.Node, k fields.Key) (why string)) {
	for _, k := range keys(from) {
		text, why := i.text(k.Value)
		v, err := strconv.ParseFloat(text, 64)
		switch r, ok := rules[k.Name]; {
		case !ok:
			why = other(from, k)
		case why == "" && err != nil:
			why = "is no number"
		case why == "":
			note := ""
			if within == "" {
				note = i.place(k.Value)
			}
			why = put(to, within, r.to, r.as(v), note)
		}
		i.leave(k.Value, why)
	}
}

// setting carries a setting over for which there is no rule, or says why it has no place.
func (i *importer) setting(section *fields.Node, k fields.Key) (why string) {
	n, to := k.Value, map[string]*fields.Node{}
	switch k.Name {
	case "drop_params", "redis_port", "redis_password": // read elsewhere
	case "model_group_alias", "model_alias_map":
		for _, k := range keys(n) {
			i.alias(k)
		}
	case "fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "default_fallbacks":
		if router := i.root.Get("router_settings"); section != router && router.Get(k.Name) != nil {
			return "those of router_settings count"
		}
	case "cache":
		if isTrue(n) && section.Find("cache_params.mode") == nil {
			v, err := strconv.ParseFloat(cmp.Or(section.Find("cache_params.ttl"), scalar("600")).Text, 64)
			if err != nil {
				return "ttl is no number"
			}
			return put(i.out, "", "cache_age", seconds(v), i.place(n))
		}
	case "callbacks", "success_callback", "failure_callback", "service_callbacks":
		for _, item := range items(n) {
			if item.Text == "prometheus" {
				to["admin"] = scalar("127.0.0.1:4001") // has /metrics
			} else {
				i.leave(item, "there are metrics, a ledger and, with trace_endpoint, traces by OTLP; nothing else is told")
			}
		}
	case "redis_host":
		host, why := i.text(n)
		port, other := i.text(cmp.Or(section.Get("redis_port"), scalar("6379")))
		if why != "" || other != "" || section.Get("redis_password") != nil || section.Get("redis_url") != nil {
			return cmp.Or(why, other, "with a password, redis_file has redis://:PASSWORD@HOST:PORT")
		}
		to["redis"] = scalar(host + ":" + port)
	case "redis_url":
		to["redis_file"] = scalar(i.secret(n, "redis"))
	case "database_url":
		to["archive"], to["postgres_file"] = scalar(string(bot.ArchivePostgres)), scalar(i.secret(n, "postgres"))
		why = reason(k.Name)
	case "master_key":
		text, why := i.text(n)
		if why != "" {
			return why + "; or write keys"
		}
		key := mapping()
		key.Insert("id", scalar("master"))
		key.Insert("sha256", scalar(fmt.Sprintf("%x", sha256.Sum256([]byte(text)))))
		to["keys"] = list(key)
	case "routing_strategy":
		by, ok := strategies[n.Text]
		if !ok {
			return "requests are divided by weight, calls under way or time"
		}
		return put(i.out, "", "upstream.balance", by, i.place(n))
	default:
		why = reason(k.Name)
	}
	for _, field := range form.FieldNames() {
		if value := to[field]; value != nil && i.out.Get(field) == nil {
			value.Note = i.place(n)
			i.out.Insert(field, value)
		}
	}
	return why
}

var shellName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secret returns the name of the file for a secret, and notes how it is written.
func (i *importer) secret(n *fields.Node, what string) (file string) {
	for _, s := range i.secrets {
		if s[0] == n.Text {
			return s[1]
		}
	}
	name, is := strings.CutPrefix(n.Text, variable)
	if is = is && shellName().MatchString(name) && i.root.Get("environment_variables").Get(name) == nil; is {
		what = strings.ToLower(name)
	}
	file = unique(what, func(name string) bool {
		return slices.ContainsFunc(i.secrets, func(s [3]string) bool { return s[1] == name+".secret" })
	}) + ".secret"
	line := file + ": the value of " + terminal.Line(i.place(n))
	if is {
		line = fmt.Sprintf(`  (umask 077; printf %%s "$%s" > %s)`, name, file)
	}
	i.secrets = append(i.secrets, [3]string{n.Text, file, line})
	return file
}

// unique returns a name that is not taken, with a number where one is needed.
func unique(name string, taken func(name string) bool) string {
	free := name
	for at := 2; taken(free); at++ {
		free = fmt.Sprintf("%s-%d", name, at)
	}
	return free
}

// write writes the configuration.
func (i *importer) write() []byte {
	if len(i.networks) > 0 {
		networks := texts(i.networks)
		networks.Note = "where the servers are that are not public; take out what is not needed"
		i.out.Insert("allow_networks", networks)
	}
	deployments, known := list(), map[string]bool{}
	for _, d := range i.all {
		n := mapping()
		n.Note = i.place(d.from)
		usual := d.provider + "/" + d.model
		name := unique(usual, func(name string) bool { return known[name] })
		if known[name] = true; name != usual {
			n.Insert("name", scalar(name))
		}
		n.Insert("provider", scalar(d.provider))
		n.Insert("model", scalar(d.model))
		n.Insert("names", texts(d.names))
		n.Keys = append(n.Keys, d.terms.Keys...)
		deployments.Items = append(deployments.Items, n)
	}
	i.out.Insert("providers", list(i.providers...))
	i.out.Insert("deployments", deployments)
	head := "# Made of " + terminal.Line(i.name) + " by dyno-bot import litellm.\n"
	if len(i.secrets) > 0 {
		head += "# Files of secrets, to be written next to this one before the start:\n"
	}
	for _, s := range i.secrets {
		head += "# " + s[2] + "\n"
	}
	return append([]byte(head), i.out.YAML()...)
}

// check returns what is wrong with a configuration, but for its files of secrets.
func check(text []byte) error {
	found, c := fields.NewCollector(), bot.Defaults()
	if root := fields.ParseTree(text, found); root != nil {
		fields.Check(found, root, form)
		(&fields.Decoder{
			Scalar: func(n *fields.Node) (string, bool) { return n.Text, n.Spec != nil && !n.Bad && !n.Spec.Custom },
			Fault:  func(*fields.Node, string, string) {}, // of files that are not read
		}).Value(root, form, reflect.ValueOf(&c).Elem())
		if c.Archive == bot.ArchivePostgres {
			c.Postgres = "postgres://localhost/dyno"
		}
		fields.NewReport(found).Examine(&c, c.Check)
	}
	return found.Err("", func(string) (line, column int) { return 0, 0 })
}
