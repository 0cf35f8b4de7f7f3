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

// must panics on errors that only a mistake in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// marshal writes what JSON can express.
func marshal(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	must(err)
	return raw
}

// list shows entries of one kind.
func (p *printer) list(k resource.Kind, entries []entry) error {
	switch p.form {
	case asName:
		return p.names(entries)
	case asTable:
		return p.table(lookAt(k).columns, entries, nil)
	}
	items := make([]json.RawMessage, len(entries))
	for i, e := range entries {
		items[i] = e.document()
	}
	return p.text(marshal(map[string]any{"items": items}))
}

// one shows an entry by itself.
func (p *printer) one(e entry) error {
	if p.form == asTable || p.form == asName {
		return p.list(e.kind, []entry{e})
	}
	return p.text(e.document())
}

func (p *printer) names(entries []entry) error {
	for _, e := range entries {
		if _, err := fmt.Fprintln(p.out, string(e.kind)+"/"+terminal.Line(e.name)); err != nil {
			return err
		}
	}
	return nil
}

// table shows entries as rows, as layOut aligns them.
func (p *printer) table(header []string, entries []entry, widths []int) error {
	rows := make([][]string, len(entries))
	for i, e := range entries {
		rows[i] = e.row(p.now())
	}
	_, err := io.WriteString(p.out, layOut(header, rows, widths))
	return err
}

// text writes a JSON document in the chosen form.
func (p *printer) text(raw json.RawMessage) error {
	text := indent(raw)
	if p.form == asYAML {
		text = toYAML(raw)
	}
	_, err := p.out.Write(text)
	return err
}

func indent(raw json.RawMessage) []byte {
	var b bytes.Buffer
	must(json.Indent(&b, raw, "", "  ")) // it was read
	b.WriteByte('\n')
	return b.Bytes()
}

// toYAML writes a JSON document as YAML, its fields in the same order. A document that YAML would change stays JSON,
// which is valid YAML.
func toYAML(raw json.RawMessage) []byte {
	var value any
	if yaml.UnmarshalWithOptions(raw, &value, yaml.UseOrderedMap()) == nil {
		text, err := yaml.MarshalWithOptions(value, yaml.UseLiteralStyleIfMultiline(true), yaml.IndentSequence(true))
		if err == nil && terminal.IsClean(text) && same(text, raw) {
			return text
		}
	}
	return indent(raw)
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

// age returns the time since at, in its largest unit; "" is without at.
func age(at, now time.Time) string {
	if at.IsZero() {
		return ""
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
