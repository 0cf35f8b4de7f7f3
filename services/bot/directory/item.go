package directory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"dyno/internal/lazyregexp"
	"dyno/internal/strict"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// A Kind is a kind of items, as paths name it.
type Kind string

// The kinds.
const (
	Teams       Kind = "teams"
	Users       Kind = "users"
	Keys        Kind = "keys"
	Limits      Kind = "limits"
	Providers   Kind = "providers"
	Deployments Kind = "deployments"
	resets      Kind = "resets" // of rows without an item, as erasures
	erasures    Kind = "erasures"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Teams, Users, Keys, Limits, Providers, Deployments} }

// One returns the word for one item.
func (k Kind) One() string { return strings.TrimSuffix(string(k), "s") }

// An Item is a team, a user, a key, a limit, a provider or a deployment. Kinds with a field are in the tag of; a field without the tag is the
// gateway's to set.
type Item struct {
	ID       string            `json:"id" of:"teams users keys limits providers deployments" doc:"its name: 1 to 64 letters, digits, dots, hyphens and underscores; one is made without it. Of a deployment it is provider/model without it, and may have other characters"`
	Version  int64             `json:"version" doc:"the version of the directory at the last change of the item"`
	Created  time.Time         `json:"created,omitzero" doc:"when it was made"`
	Declared bool              `json:"declared,omitempty" doc:"it is in the configuration's file, and can be changed only there"`
	Name     string            `json:"name,omitempty" of:"teams users keys" doc:"what people call it"`
	Team     string            `json:"team,omitempty" of:"users keys limits" doc:"the ID of its team"`
	User     string            `json:"user,omitempty" of:"keys limits" doc:"the ID of its user; a key without a team has the user's"`
	Key      string            `json:"key,omitempty" of:"limits" doc:"the ID of its key; a limit has either a key, a team or a user"`
	Models   []string          `json:"models,omitempty" of:"teams users keys" doc:"the models that its keys may use, such as gpt-4o or openai/*; none is all"`
	Expires  *time.Time        `json:"expires,omitempty" of:"keys" doc:"when it ends, such as 2030-01-02T15:04:05Z"`
	Disabled bool              `json:"disabled,omitempty" of:"teams users keys" doc:"requests by its keys are refused"`
	Model    string            `json:"model,omitempty" of:"limits" doc:"the model that it is for, or several, as in openai/*; none is all of them together"`
	Resource store.Resource    `json:"resource,omitempty" of:"limits" doc:"requests, tokens, money or parallel (requests under way)"`
	Amount   *int64            `json:"amount,omitempty" of:"limits" doc:"the amount within one window; money in billionths"`
	Window   string            `json:"window,omitempty" of:"limits" doc:"the length of a window, such as 1m or 24h; none never ends"`
	Metadata map[string]string `json:"metadata,omitempty" of:"teams users keys limits providers deployments" doc:"texts of your own, by name"`
	Secret   string            `json:"secret,omitempty"`                              // only the answer has it that makes a key
	Settings settings          `json:"settings,omitempty" of:"providers deployments"` // answers have its members
	State    *upstream.State   `json:"-"`                                             // of a deployment, for answers; nil is unknown
	// Only lists have these, if they are asked for: what was used of a limit in its window, and the limits of another item.
	Used   *int64 `json:"used,omitempty"`
	Limits []Item `json:"limits,omitempty"`
	// No answer has the hashes.
	SHA256    string    `json:"sha256,omitempty" of:"keys" doc:"the SHA-256 of a secret of your own; without it one is made. It is never shown"`
	OldSHA256 string    `json:"old_sha256,omitempty"`
	OldUntil  time.Time `json:"old_until,omitzero" doc:"until when the secret before the last rotation works"`
}

// A stored item is one as stores have it.
type stored Item

// A Field is a field of items, for descriptions and flags.
type Field struct {
	Name, About string
	Set         bool // by clients
	Type        reflect.Type
}

// Fields returns the fields that clients see of a kind.
func Fields(k Kind) (list []Field) {
	list = structFields(reflect.TypeFor[Item](), k)
	if of := k.settings(); of != nil {
		list = append(list, structFields(of, k)...)
	}
	if k == Deployments {
		list = append(list, structFields(reflect.TypeFor[upstream.State](), k)...)
	}
	return list
}

// structFields returns those fields of a struct that clients see of a kind. They set the settings, and what has a tag of.
func structFields(t reflect.Type, k Kind) (list []Field) {
	for _, f := range reflect.VisibleFields(t) {
		of, limited := f.Tag.Lookup("of")
		name, setting := f.Tag.Lookup("yaml")
		name, _, _ = strings.Cut(cmp.Or(name, f.Tag.Get("json")), ",")
		about := f.Tag.Get("doc")
		if name == fileSetting {
			name, about = keySetting, "the key that it is sent; to a public address, only by https. It is never shown"
		}
		if about != "" && (!limited || slices.Contains(strings.Fields(of), string(k))) && (name != nameSetting || !setting) {
			list = append(list, Field{name, about, limited || setting, f.Type})
		}
	}
	return list
}

// public returns the item without secrets and their hashes.
func (i Item) public(k Kind) Item {
	i.SHA256, i.OldSHA256 = "", ""
	switch p, d, _ := i.upstream(k); k { // it was checked
	case Providers:
		i.Settings = shown(p)
	case Deployments:
		i.Settings = shown(d)
	}
	return i
}

// Part returns whose usage a limit bounds.
func (i Item) part() store.Part {
	return store.Part{Key: i.Key, Team: i.Team, Owner: i.User, Model: i.Model}
}

// Limit returns a valid limit as stores have it.
func (i Item) Limit() store.Limit {
	window, _ := time.ParseDuration(i.Window) // 0 for ""
	l := store.Limit{Resource: i.Resource, Amount: *i.Amount, Window: window, Part: i.part()}
	l.Part.Key = "" // the reservation's
	return l
}

// An Error says why a change is refused.
type Error struct {
	Status      int // of HTTP
	Code, Field string
	Text        string
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Text
	}
	return e.Text
}

func fault(field, format string, args ...any) *Error {
	return &Error{http.StatusBadRequest, "invalid", field, fmt.Sprintf(format, args...)}
}

// Bounds of items.
const (
	maxItems    = 100_000 // of a kind
	maxText     = 256     // bytes
	maxList     = 256
	maxMetadata = 64
	maxAmount   = 1 << 53 // Redis compares amounts in floating point
	maxWindow   = 8784 * time.Hour
)

// Decode reads JSON from a client over to, which has named members only. Members that are null become zero.
func Decode(body []byte, to any) error {
	names, is := strict.Members{}, map[string]reflect.Value{}
	for f, v := range reflect.ValueOf(to).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name], is[name] = nil, v
	}
	if err := strict.Check(body, names); err != nil {
		return fault("", "%v", err)
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(body, &members) // it was checked
	for name, text := range members {
		if v, known := is[name]; known && string(text) == "null" {
			v.SetZero()
		}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil && err != io.EOF {
		return fault("", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// The forms of IDs and of hashes.
var (
	idForm   = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	nameForm = lazyregexp.New(`^[\pL\pN\pP\pS ]{1,256}$`) // of what the file may have, too
	hashForm = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// check returns the first fault of an item that replaces another, as far as it is seen without others. Of one that is
// new, was has only what the gateway sets.
func (i Item) check(k Kind, was Item) error {
	is, before := reflect.ValueOf(i), reflect.ValueOf(was)
	for n, f := range slices.Collect(is.Type().Fields()) {
		of, set := f.Tag.Lookup("of")
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !set && !reflect.DeepEqual(is.Field(n).Interface(), before.Field(n).Interface()):
			return fault(name, "is the gateway's to set")
		case set && !slices.Contains(strings.Fields(of), string(k)) && !is.Field(n).IsZero():
			return fault(name, "%s have none", k)
		}
	}
	for name, text := range map[string]string{"name": i.Name, "model": i.Model} {
		if len(text) > maxText {
			return fault(name, "has %d bytes; %d at most", len(text), maxText)
		}
	}
	if len(i.Models) > maxList || len(i.Metadata) > maxMetadata {
		return fault("", "%d models and %d metadata; %d and %d at most", len(i.Models), len(i.Metadata), maxList, maxMetadata)
	}
	for _, m := range append([]string{i.Model}, i.Models...) {
		if strings.Contains(strings.TrimSuffix(m, "*"), "*") || len(m) > maxText || m == "" && slices.Contains(i.Models, m) {
			return fault("models", "%q is not possible: a model's name, or the beginning of some with * at its end", m)
		}
	}
	for name, text := range i.Metadata {
		if len(name) > maxText || len(text) > maxText {
			return fault("metadata", "%.40q has more than %d bytes", name, maxText)
		}
	}
	if k == Keys && !hashForm().MatchString(i.SHA256) {
		return fault("sha256", "%.80q is not possible: 64 hexadecimal digits in lower case", i.SHA256)
	}
	if k == Limits {
		return i.checkLimit()
	}
	_, _, err := i.upstream(k)
	return err
}

func (i Item) checkLimit() error {
	owners := 0
	for _, id := range []string{i.Key, i.Team, i.User} {
		if id != "" {
			owners++
		}
	}
	resources := []store.Resource{store.Requests, store.Tokens, store.Money, store.Parallel}
	window, err := time.Duration(0), error(nil)
	if i.Window != "" {
		window, err = time.ParseDuration(i.Window)
	}
	switch {
	case owners != 1:
		return fault("key", "a limit has either a key, a team or a user, and this one has %d of them", owners)
	case !slices.Contains(resources, i.Resource):
		return fault("resource", "%q is not one of requests, tokens, money and parallel", i.Resource)
	case i.Amount == nil || *i.Amount < 0 || *i.Amount > maxAmount:
		return fault("amount", "must be there, from 0 to %d", int64(maxAmount))
	case err != nil || window != 0 && (window < time.Second || window > maxWindow || window%time.Millisecond != 0):
		return fault("window", "%q is not possible: 1s to %v, in whole milliseconds", i.Window, maxWindow)
	case window != 0 && i.Resource == store.Parallel:
		return fault("window", "requests under way have none: leave it out")
	}
	return nil
}

// clone returns a copy of an item that shares nothing with it.
func (i Item) clone() (c Item) {
	_ = json.Unmarshal([]byte(text(stored(i))), &c) // of plain members
	return c
}
