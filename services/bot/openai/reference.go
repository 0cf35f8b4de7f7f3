package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dyno/internal/strict"
)

// A Reference is the ID of an object in a request or an answer.
type Reference struct {
	Path string // of members, without the places in lists
	Kind string
	ID   string
	// Open says that it may be used if it is not known who made it.
	Open bool
}

// maxReferences bounds the IDs in a request or an answer.
const maxReferences = 1000

// A place is where IDs may stand: in a value, or below it.
type place struct {
	Reference // without an ID; without a Kind, IDs are only below
	below     map[string]*place
	leaves    map[string]bool // the names of members with IDs, in quotes: a value without these has none
}

// forms are what requests to these paths are about, and what is in their answers. Others are chats.
var forms = map[string]string{Responses.Path(): Response, Messages.Path(): "message", Tokens.Path(): "message"}

// Form returns what a request to a path is about.
func Form(path string) string { return cmp.Or(forms[path], "chat") }

// named and shown are the places of IDs in requests and in answers, by their forms.
var (
	named = placesOf(func(k *Kind) []string { return k.Named })
	shown = placesOf(func(k *Kind) []string { return k.Shown })
)

func placesOf(paths func(*Kind) []string) map[string]*place {
	all := map[string]*place{"chat": {}, "message": {}}
	for _, k := range Kinds {
		all[k.Name] = &place{}
	}
	for _, k := range Kinds {
		for _, text := range paths(k) {
			in, path, _ := strings.Cut(text, ":")
			for name, p := range all {
				if in == "any" || in == name {
					p.add(Reference{Path: path, Kind: k.Name, Open: k.Open}, strings.Split(path, "."))
				}
			}
		}
	}
	return all
}

// add adds a place below, and the member id of objects there.
func (p *place) add(r Reference, path []string) {
	if p.below == nil {
		p.below, p.leaves = map[string]*place{}, map[string]bool{}
	}
	within := cmp.Or(p.below[path[0]], &place{})
	p.below[path[0]], p.leaves[`"`+path[len(path)-1]+`"`] = within, true
	if len(path) > 1 {
		within.add(r, path[1:])
	} else if within.Reference = r; path[0] != "id" {
		within.add(r, []string{"id"})
	}
}

// know adds the members that lead to IDs to those that are examined.
func (p *place) know(m strict.Members) strict.Members {
	for name, within := range p.below {
		if m[name] == nil {
			m[name] = strict.Members{}
		}
		within.know(m[name])
	}
	return m
}

// withNamed adds the members of all forms.
func withNamed(m strict.Members) strict.Members {
	for _, in := range named {
		in.know(m)
	}
	return m
}

// mayHave reports whether a value may have IDs. It is fast for the many that have none.
func (p *place) mayHave(value []byte) bool {
	for leaf := range p.leaves {
		if bytes.Contains(value, []byte(leaf)) {
			return true
		}
	}
	return p.Kind != "" || len(p.leaves) > 0 && bytes.Contains(value, []byte(`\u00`)) // names may be escaped
}

// references reads a value at a place, and notes its IDs.
func (w *walker) references(p *place) bool {
	switch w.sees() {
	case '[':
		return w.array(func() bool { return w.references(p) })
	case '{':
		return w.fields(func(name []byte) bool {
			if within := cmp.Or(p.below[string(name)], p.below["*"]); within != nil {
				return w.references(within)
			}
			return w.skip()
		})
	case '"':
		if p.Kind != "" {
			id, ok := w.text()
			w.note(p.Reference, id)
			return ok
		}
	}
	return w.skip()
}

// note notes an ID.
func (w *walker) note(r Reference, id string) {
	if r.ID = id; len(w.found) <= maxReferences {
		w.found = append(w.found, r)
	}
}

// references returns the IDs of objects in the fields of a request, in the order of their paths. The error is a *RequestError.
func references(fields map[string]json.RawMessage, in *place) (list []Reference, _ error) {
	for name, value := range fields {
		p, items := in.below[name], name == "input" || name == "items"
		may := p != nil && p.mayHave(value)
		if !may && !items {
			continue
		}
		w := walker{scanner: scanner{b: value}}
		ok := !may || w.references(p)
		if w.scanner = (scanner{b: value}); ok && items {
			_, ok = w.anyElement((*walker).refers)
		}
		if list = append(list, w.found...); !ok || len(list) > maxReferences {
			return nil, &RequestError{name, fmt.Sprintf("is nested too deeply, or names more than %d objects", maxReferences)}
		}
	}
	slices.SortFunc(list, func(a, b Reference) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.ID, b.ID)) })
	return slices.Compact(list), nil
}

// References returns the IDs of objects in a request of a form. The error is a *RequestError.
func (c Codec) References(form string, body []byte) ([]Reference, error) {
	var fault *strict.Error
	if err := strict.Check(body, named[form].know(strict.Members{})); errors.As(err, &fault) {
		return nil, &RequestError{cmp.Or(fault.Member, "body"), fault.Text}
	}
	var fields map[string]json.RawMessage
	_ = c.JSON.Unmarshal(body, &fields) // it is an object
	return references(fields, named[form])
}

// Names reports whether the request names an object that must be there, other than an item that may have all that is needed.
func (r *Request) Names() bool {
	return slices.ContainsFunc(r.References, func(n Reference) bool { return n.Kind != Item || !n.Open })
}

// Made returns the IDs of the objects that an answer of a form, or one of its events, says to have been made.
func Made(form string, answer []byte) []Reference {
	w := walker{scanner: scanner{b: answer}}
	if in := shown[form]; in.mayHave(answer) {
		w.references(in)
	}
	return w.found
}
