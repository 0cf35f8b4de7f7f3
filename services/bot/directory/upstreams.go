package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/strict"
	"dyno/services/bot/upstream"
)

// Package upstream declares what providers and deployments have: an item has that as settings, in the form of the
// configuration's file. Its ID is the name. Only a provider's key is given itself, and not by a file.
const (
	nameSetting = "name"
	fileSetting = "key_file"
	keySetting  = "key"
	maxKey      = 8 << 10 // bytes
)

type settings map[string]json.RawMessage

// settings returns the struct of a kind's settings; nil if it has none.
func (k Kind) settings() reflect.Type {
	return map[Kind]reflect.Type{Providers: reflect.TypeFor[upstream.Provider](), Deployments: reflect.TypeFor[upstream.Deployment]()}[k]
}

// decode reads JSON from a client over an item.
func (i *Item) decode(k Kind, body []byte) error {
	if k.settings() == nil {
		return Decode(body, i)
	}
	if err := strict.Check(body, nil); err != nil {
		return fault("", "%v", err)
	}
	members, common := settings{}, settings{}
	maps.Copy(members, i.Settings)
	_ = json.Unmarshal(body, &members) // it was checked
	for _, f := range structFields(reflect.TypeFor[Item](), k) {
		if text, is := members[f.Name]; is {
			common[f.Name] = text
			delete(members, f.Name)
		}
	}
	maps.DeleteFunc(members, func(_ string, text json.RawMessage) bool { return string(text) == "null" })
	i.Settings = members
	return Decode([]byte(text(common)), i)
}

// upstream returns what the settings of a provider or a deployment say.
func (i Item) upstream(k Kind) (p upstream.Provider, d upstream.Deployment, err error) {
	p, d = fields.Default[upstream.Provider](), upstream.DefaultDeployment()
	if k.settings() == nil {
		return p, d, nil
	}
	s, into := settings{}, any(&d)
	maps.Copy(s, i.Settings)
	if k == Providers {
		into = &p
		if key := s[keySetting]; key != nil {
			if err := json.Unmarshal(key, &p.Key); err != nil || p.Key == "" || len(p.Key) > maxKey {
				return p, d, fault(keySetting, "must be a text of 1 to %d bytes", maxKey)
			}
			delete(s, keySetting)
		}
		if s[fileSetting] != nil {
			return p, d, fault(fileSetting, "is for the configuration's file: give the key itself, as %s", keySetting)
		}
	}
	if s[nameSetting] != nil {
		return p, d, fault(nameSetting, "is the id: give that")
	}
	if i.ID != "" {
		s[nameSetting] = json.RawMessage(text(i.ID))
	}
	if faults, is := errors.AsType[*fields.Faults](fields.ReadJSON([]byte(text(s)), into)); is {
		return p, d, settingFault(faults.Faults[0].Field, faults.Faults[0])
	}
	return p, d, nil
}

// settingFault returns the fault of a setting.
func settingFault(field string, f fields.Fault) *Error {
	if field == fileSetting {
		field = keySetting
	}
	return fault(field, "%s", strings.TrimSuffix(f.Problem+"; "+f.Hint, "; "))
}

// shown returns the settings of a provider or a deployment, with defaults, and without its name and its key.
func shown(value any) (s settings) {
	text, _ := fields.JSON(value)
	_ = json.Unmarshal(text, &s) // it was just made
	delete(s, nameSetting)
	delete(s, fileSetting)
	return s
}

// MarshalJSON puts settings and state next to the other members.
func (i Item) MarshalJSON() ([]byte, error) {
	if i.Settings == nil {
		return json.Marshal(stored(i))
	}
	all, other := settings{}, stored(i)
	other.Settings = nil
	for _, part := range []any{i.State, i.Settings, other} {
		_ = json.Unmarshal([]byte(text(part)), &all) // of plain members
	}
	return json.Marshal(all)
}

// declareUpstreams declares the file's servers and models. The caller holds mu.
func (d *Directory) declareUpstreams(base upstream.Config) {
	d.base = base
	d.declared[Providers], d.declared[Deployments] = map[string]*Item{}, map[string]*Item{}
	for _, p := range base.Providers {
		d.declared[Providers][p.Name] = &Item{ID: p.Name, Declared: true, Settings: shown(p)}
	}
	for _, one := range slices.Backward(base.All()) { // the file's own before those of upstreams
		d.declared[Deployments][one.ID] = &Item{ID: one.ID, Declared: true, Settings: shown(one)}
	}
}

// Upstreams returns the file's servers and models with those of the directory, or why they are not valid together. It takes
// one item for the directory's of that kind and ID; a nil one is deleted. Without a kind, all are as they are.
func (d *Directory) Upstreams(k Kind, id string, is *Item) (upstream.Config, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	c := d.base
	c.Providers, c.Deployments = slices.Clone(c.Providers), slices.Clone(c.Deployments)
	placed := map[string]string{} // IDs by paths
	for _, kind := range []Kind{Providers, Deployments} {
		items := maps.Clone(d.items[kind])
		if kind == k {
			items[id] = is
		}
		for _, other := range slices.Sorted(maps.Keys(items)) {
			if items[other] == nil || d.declared[kind][other] != nil {
				continue
			}
			p, one, err := items[other].upstream(kind)
			if err != nil {
				return c, err // a later version's
			}
			n := len(c.Providers)
			if kind == Providers {
				c.Providers = append(c.Providers, p)
			} else {
				n, c.Deployments = len(c.Deployments), append(c.Deployments, one)
			}
			placed[fmt.Sprintf("%s[%d]", kind, n)] = other
		}
	}
	faults, wrong := errors.AsType[*fields.Faults](c.Validate())
	if !wrong {
		return c, nil
	}
	head, field, _ := strings.Cut(faults.Faults[0].Field, "].")
	at, known := placed[head+"]"]
	if !known { // such as too many
		field = faults.Faults[0].Field
	}
	e := settingFault(field, faults.Faults[0])
	if kind, _, _ := strings.Cut(head, "["); known && (at != id || Kind(kind) != k) {
		return c, &Error{http.StatusConflict, "in_use", "", fmt.Sprintf("the %s %q would not work: %v", Kind(kind).One(), at, e)}
	}
	return c, e
}

// Reset enters into the audit that the cool-downs of a deployment were ended at a gateway. Nothing changes for others.
func (d *Directory) Reset(ctx context.Context, id string, by If) error {
	_, err := d.change(ctx, resets, id, "reset", If{By: by.By}, func(*Item) (*Item, error) { return nil, nil }) //nolint:nilnil // there is no item
	return err
}
