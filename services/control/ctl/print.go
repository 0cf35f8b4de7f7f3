package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/terminal"
	"dyno/services/control/resource"
)

// The forms of output.
const (
	asTable = "table"
	asJSON  = "json"
	asYAML  = "yaml"
	asName  = "name"
)

var forms = []string{asTable, asJSON, asYAML, asName}

// A printer shows entries.
type printer struct {
	out  io.Writer
	form string
	now  func() time.Time
}

// formFlag adds -o.
func formFlag(cmd *cobra.Command, form *string) {
	cmd.Flags().StringVarP(form, "output", "o", asTable, strings.Join(forms, ", "))
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp)))
}

// must panics on errors that only a mistake in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func newPrinter(cmd *cobra.Command, form string) (*printer, error) {
	if !slices.Contains(forms, form) {
		return nil, exit.Misused("one of "+strings.Join(forms, ", "), "--output: unknown form %q", form)
	}
	return &printer{cmd.OutOrStdout(), form, time.Now}, nil
}

// list shows entries of one kind.
func (p *printer) list(k kind, entries []entry) error {
	switch p.form {
	case asName:
		return p.names(entries)
	case asTable:
		rows := make([][]string, len(entries))
		for i, e := range entries {
			rows[i] = row(e, p.now())
		}
		_, err := io.WriteString(p.out, layOut(header(k), rows, nil))
		return err
	}
	items := make([]json.RawMessage, len(entries))
	for i, e := range entries {
		var err error
		if items[i], err = e.document(); err != nil {
			return err
		}
	}
	all, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		return err
	}
	return p.text(all)
}

// one shows an entry by itself.
func (p *printer) one(e entry) error {
	if p.form == asTable || p.form == asName {
		return p.list(e.kind, []entry{e})
	}
	raw, err := e.document()
	if err != nil {
		return err
	}
	return p.text(raw)
}

func (p *printer) names(entries []entry) error {
	for _, e := range entries {
		if _, err := fmt.Fprintln(p.out, string(e.kind)+"/"+terminal.Line(e.name)); err != nil {
			return err
		}
	}
	return nil
}

// text writes a JSON document in the chosen form.
func (p *printer) text(raw json.RawMessage) error {
	if p.form == asYAML {
		text, err := toYAML(raw)
		if err != nil {
			return err
		}
		_, err = p.out.Write(text)
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := p.out.Write(b.Bytes())
	return err
}

// toYAML writes a JSON document as YAML, its fields in the same order. A document that YAML would change stays JSON,
// which is valid YAML.
func toYAML(raw json.RawMessage) ([]byte, error) {
	var value any
	if yaml.UnmarshalWithOptions(raw, &value, yaml.UseOrderedMap()) == nil {
		text, err := yaml.MarshalWithOptions(value, yaml.UseLiteralStyleIfMultiline(true), yaml.IndentSequence(true))
		if err == nil && terminal.IsClean(text) && same(text, raw) {
			return text, nil
		}
	}
	var b bytes.Buffer
	err := json.Indent(&b, raw, "", "  ")
	b.WriteByte('\n')
	return b.Bytes(), err
}

// same reports whether YAML and JSON texts hold the same document.
func same(text []byte, raw json.RawMessage) bool {
	nodes, err := parseYAML(text)
	if err != nil || len(nodes) != 1 {
		return false
	}
	value, err := valueOf("", nodes[0])
	if err != nil {
		return false
	}
	back, err := json.Marshal(value)
	var x, y any
	return err == nil && json.Unmarshal(back, &x) == nil && json.Unmarshal(raw, &y) == nil && reflect.DeepEqual(x, y)
}

// layOut aligns columns. They are at least as wide as widths, which it updates. No header leaves that line out.
func layOut(header []string, rows [][]string, widths []int) string {
	all := rows
	if header != nil {
		all = append([][]string{header}, rows...)
	}
	if widths == nil && len(all) > 0 {
		widths = make([]int, len(all[0]))
	}
	for _, r := range all {
		for i := range r {
			r[i] = terminal.Line(r[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	var b strings.Builder
	for _, r := range all {
		line := ""
		for i, cell := range r {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// header returns a kind's columns.
func header(k kind) []string {
	switch k {
	case services:
		return []string{"NAME", "INSTANCES"}
	case instances:
		return []string{"SERVICE", "ID", "ADDRESS", "STATUS", "WEIGHT", "ZONE", "HOLDER", "AGE"}
	case configs:
		return []string{"NAME", "VERSION", "BYTES", "TYPE", "RELEASE", "AGE", "BY"}
	case policies:
		return []string{"NAME", "VERSION", "RULES", "AGE", "BY"}
	case sessions:
		return []string{"ID", "NAME", "TTL", "AGE", "BY"}
	case locks:
		return []string{"NAME", "VALUE", "TOKEN", "HOLDER", "SESSION", "AGE", "BY"}
	case counters:
		return []string{"NAME", "VALUE", "AGE", "BY"}
	case principals:
		return []string{"NAME", "VERSION", "ROLES", "GRANTS", "TOKENS", "AGE", "BY"}
	case roles:
		return []string{"NAME", "VERSION", "GRANTS", "GROUPS", "AGE", "BY"}
	case tokens:
		return []string{"ID", "DESCRIPTION", "EXPIRES", "AGE", "BY"}
	case rollouts:
		return []string{"CLIENT", "STATE", "VERSION", "RUNNING", "CONNECTED", "AGE", "REASON"}
	case audits:
		return []string{"TIME", "WHO", "FROM", "ACT", "WHAT", "OLD", "NEW"}
	}
	return nil
}

// row returns an entry's cells in a table.
func row(e entry, now time.Time) []string {
	switch d := e.doc.(type) {
	case *serviceView:
		return []string{d.Name, strconv.Itoa(d.Instances)}
	case *instanceView:
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
		return []string{d.Service, d.ID, hostPort(d.Address, d.Port), status, strconv.Itoa(d.Weight), or(d.Zone), or(d.Holder), age(d.At, now)}
	case *resource.Config:
		size := strconv.Itoa(len(d.Data()))
		if d.Secret {
			size = "secret"
		}
		return []string{d.Name, number(d.Version), size, or(d.ContentType), released(d.Release), age(d.At, now), or(d.By)}
	case *resource.Policy:
		return []string{d.Name, number(d.Version), strconv.Itoa(len(d.Rules)), age(d.At, now), or(d.By)}
	case *resource.Session:
		return []string{d.ID, or(d.Name), strconv.Itoa(d.TTL) + "s", age(d.At, now), or(d.By)}
	case *resource.Lock:
		return []string{d.Name, or(d.Value), number(d.Token), or(d.Holder), d.Session, age(d.Since, now), or(d.By)}
	case *resource.Counter:
		return []string{d.Name, strconv.FormatInt(d.Value, 10), age(d.At, now), or(d.By)}
	case *resource.Principal:
		return []string{d.Name, number(d.Version), or(strings.Join(d.Roles, ",")), granted(d.Grants), number(int64(len(d.Tokens))), age(d.At, now), or(d.By)}
	case *resource.Role:
		return []string{d.Name, number(d.Version), granted(d.Grants), or(strings.Join(d.Groups, ",")), age(d.At, now), or(d.By)}
	case *resource.Token:
		return []string{d.ID, or(d.Description), until(d.Expires), age(d.At, now), or(d.By)}
	case *holding:
		connected := "no"
		if d.Connected {
			connected = "yes"
		}
		return []string{d.Client, d.State, number(d.Version), number(d.Running), connected, age(d.At, now), or(d.Reason)}
	case *resource.Audit:
		return []string{d.At.UTC().Format(time.RFC3339), or(d.Who), or(d.From), string(d.Act), d.String(), number(d.Old), number(d.New)}
	}
	return nil
}

func hostPort(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// granted describes grants.
func granted(grants []resource.Grant) string {
	var parts []string
	for _, g := range grants {
		parts = append(parts, g.Namespace+":"+string(g.Role))
	}
	return or(strings.Join(parts, ","))
}

func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// released describes the clients of a configuration's gray release; nil is none.
func released(r *resource.Release) string {
	if r == nil {
		return "-"
	}
	return release(&r.Choice)
}

// release describes which clients a gray release chooses.
func release(r *resource.Choice) string {
	var parts []string
	if r.Percent > 0 {
		parts = append(parts, strconv.FormatFloat(r.Percent, 'f', -1, 64)+"%")
	}
	names := make([]string, 0, len(r.Labels))
	for name, values := range r.Labels {
		names = append(names, name+"="+strings.Join(values, "|"))
	}
	slices.Sort(names)
	return strings.Join(append(parts, names...), " ")
}

// age returns the time since at, in its largest unit.
func age(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	d := max(0, now.Sub(at))
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}
