// Package directory has what is made at run time: teams, users, keys and limits, providers and deployments. A Directory is a copy of
// what a store has. Each change is checked against the copy, and made only if the store has not changed since; otherwise
// the copy is brought up to date, and the change checked again. So several gateways may change one store.
package directory

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// A Directory is a gateway's copy. Its methods may be called from any goroutine. The mutexes are taken in the order of
// the fields.
type Directory struct {
	Deployed func() error      // called after a change of providers or deployments, and again after an error; set before all calls
	Erased   func(user string) // called after a user was erased at some gateway; set before the calls whose changes it gets

	store   store.Directory
	changed func(ctx context.Context, key string, a *Access) error

	writing    sync.Mutex      // one change at a time
	refreshing sync.Mutex      // guards pending, accounts, redeploy and erased
	pending    map[string]bool // keys for which changed is to be called
	accounts   map[string]bool // those whose keys are to be among them
	redeploy   bool            // Deployed is to be called
	erased     []string        // users with whom Erased is to be called

	mu       sync.RWMutex // guards what follows; items are not changed
	version  int64
	items    map[Kind]map[string]*Item
	declared map[Kind]map[string]*Item
	base     upstream.Config
	hashes   map[string]string  // of the secrets of items, with the IDs of keys
	limits   map[string][]*Item // by account
}

// New returns an empty copy of a store. It calls changed for each key that changes in some way, its limits included: with
// nil if it is gone. After an error it calls again, at the next refresh.
func New(s store.Directory, changed func(ctx context.Context, key string, a *Access) error) *Directory {
	d := &Directory{store: s, changed: changed, Deployed: func() error { return nil }, Erased: func(string) {}, pending: map[string]bool{}, accounts: map[string]bool{}, items: map[Kind]map[string]*Item{}, hashes: map[string]string{}, limits: map[string][]*Item{}}
	for _, k := range Kinds() {
		d.items[k] = map[string]*Item{}
	}
	return d
}

// Declare replaces the items of the configuration's file, and its servers and models. They have precedence, and are not
// changed here.
func (d *Directory) Declare(items map[Kind][]Item, base upstream.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.declared = map[Kind]map[string]*Item{}
	for k, list := range items {
		d.declared[k] = map[string]*Item{}
		for _, i := range list {
			i.Declared = true
			d.declared[k][i.ID] = &i
		}
	}
	d.declareUpstreams(base)
}

// readAtOnce bounds the rows that are read at once.
const readAtOnce = 1000

// Refresh brings the copy up to date, and then those who were given access: first where it has ended.
func (d *Directory) Refresh(ctx context.Context) error {
	d.refreshing.Lock()
	defer d.refreshing.Unlock()
	errs := []error{d.read(ctx)}
	for _, user := range d.erased {
		d.Erased(user)
	}
	d.erased = nil
	for _, ended := range []bool{true, false} {
		for key := range d.pending {
			a := d.Access(key)
			if (a == nil || a.Refused != "") != ended {
				continue
			}
			if err := d.changed(ctx, key, a); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(d.pending, key)
		}
	}
	if d.redeploy && len(d.pending) == 0 { // the new pool is for all keys
		err := d.Deployed()
		errs, d.redeploy = append(errs, err), err != nil
	}
	return errors.Join(errs...)
}

// read reads the changes of the store. The caller holds refreshing.
func (d *Directory) read(ctx context.Context) error {
	var errs []error
	for {
		rows, err := d.store.Rows(ctx, d.Version(), readAtOnce)
		errs = append(errs, err)
		for _, r := range rows {
			errs = append(errs, d.apply(r))
		}
		if len(rows) < readAtOnce {
			break
		}
	}
	if len(d.accounts) == 0 {
		return errors.Join(errs...)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for id, key := range d.items[Keys] { // once for all changes: there may be many of each
		team, _ := d.teamOf(key)
		for _, p := range parts(id, team, key.User) {
			if d.accounts[p.Account()] {
				d.pending[id] = true
			}
		}
	}
	clear(d.accounts)
	return errors.Join(errs...)
}

// parts are those whose limits a key falls under.
func parts(id, team, user string) []store.Part {
	return []store.Part{{Key: id}, {Team: team}, {Owner: user}}
}

// apply changes an item of the copy. An item that cannot be read is none: whom it lets in is unknown.
func (d *Directory) apply(r store.Row) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind := Kind(r.Kind)
	d.version = r.Version
	if kind == erasures {
		d.erased = append(d.erased, r.ID)
	}
	if d.items[kind] == nil {
		return nil // a later version's
	}
	was := d.items[kind][r.ID]
	var is *Item
	if r.Body != "" {
		is = &Item{}
		if err = json.Unmarshal([]byte(r.Body), is); err != nil {
			is, err = nil, fmt.Errorf("directory: %s %s: %w", kind.One(), r.ID, err)
		} else {
			is.Version = r.Version
		}
	}
	if is == nil {
		delete(d.items[kind], r.ID)
	} else {
		d.items[kind][r.ID] = is
	}
	for _, i := range []*Item{was, is} {
		if i != nil {
			d.index(kind, i, i == is)
		}
	}
	return err
}

// index enters an item that is there into the copy's indexes, or removes one that was, and notes whose access it
// changes. The caller holds mu and refreshing.
func (d *Directory) index(k Kind, i *Item, is bool) {
	for _, hash := range []string{i.SHA256, i.OldSHA256} {
		if delete(d.hashes, hash); is && hash != "" {
			d.hashes[hash] = i.ID
		}
	}
	of := i.part()
	switch k {
	case Keys:
		d.pending[i.ID] = true
		return
	case Providers, Deployments:
		d.redeploy = true
		return
	case Teams:
		of = store.Part{Team: i.ID}
	case Users:
		of = store.Part{Owner: i.ID}
	case Limits:
		account := of.Account()
		d.limits[account] = slices.DeleteFunc(d.limits[account], func(o *Item) bool { return o.ID == i.ID })
		if is {
			d.limits[account] = append(d.limits[account], i)
			slices.SortFunc(d.limits[account], byID)
		}
	}
	d.accounts[of.Account()] = true
}

func byID(a, b *Item) int { return cmp.Compare(a.ID, b.ID) }

// teamOf returns a key's team, or its user's, and whether the user is there. The caller holds mu.
func (d *Directory) teamOf(key *Item) (team string, known bool) {
	user := d.items[Users][key.User]
	if key.Team == "" && user != nil {
		return user.Team, true
	}
	return key.Team, key.User == "" || user != nil
}

// Version returns the copy's version.
func (d *Directory) Version() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.version
}

// Get returns an item.
func (d *Directory) Get(k Kind, id string) (Item, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	i := cmp.Or(d.declared[k][id], d.items[k][id])
	if i == nil {
		return Item{}, false
	}
	return i.public(k), true
}

// List returns up to most items of a kind whose IDs come after one, by their IDs: all, or those that belong to a key, a
// team or a user, and those whose ID, name or model contains a text.
func (d *Directory) List(k Kind, of store.Part, search, after string, most int) []Item {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var found []*Item
	search = strings.ToLower(search)
	for _, items := range []map[string]*Item{d.declared[k], d.items[k]} {
		for id, i := range items {
			belongs := (of.Key == "" || i.Key == of.Key) && (of.Team == "" || i.Team == of.Team) && (of.Owner == "" || i.User == of.Owner)
			if id > after && belongs && strings.Contains(strings.ToLower(id+"\n"+i.Name+"\n"+i.Model), search) && (i.Declared || d.declared[k][id] == nil) {
				found = append(found, i)
			}
		}
	}
	slices.SortFunc(found, byID)
	list := []Item{}
	for _, i := range found[:min(most, len(found))] {
		list = append(list, i.public(k))
	}
	return list
}

// Limits returns the limits of an item. A key has those of its team and its user, too.
func (d *Directory) Limits(k Kind, id string) (list []Item) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	of := map[Kind][]store.Part{Teams: {{Team: id}}, Users: {{Owner: id}}}[k]
	if key := d.items[Keys][id]; k == Keys && d.declared[Keys][id] != nil {
		for _, l := range d.declared[Limits] {
			if l.Key == id {
				list = append(list, l.public(Limits))
			}
		}
		slices.SortFunc(list, func(a, b Item) int { return byID(&a, &b) })
	} else if k == Keys && key != nil {
		team, _ := d.teamOf(key)
		of = parts(id, team, key.User)
	}
	for _, p := range of {
		for _, l := range d.limits[p.Account()] {
			list = append(list, l.public(Limits))
		}
	}
	return list
}

// Audits returns up to most changes before a version, the newest first.
func (d *Directory) Audits(ctx context.Context, before int64, most int) ([]store.Audit, error) {
	return d.store.Audits(ctx, before, most)
}

// An Access is what a key may do.
type Access struct {
	Team, Owner string
	Models      [][]string // patterns; a model must match one of each list
	Limits      []store.Limit
	SHA256, Old string // hashes of secrets; Old is "" or works until OldUntil
	OldUntil    time.Time
	Expires     time.Time // zero is never
	Refused     string    // why its requests are refused; "" is not at all
}

// Access returns what a key may do; nil if there is none, or the file has it.
func (d *Directory) Access(id string) *Access {
	d.mu.RLock()
	defer d.mu.RUnlock()
	key := d.items[Keys][id]
	if key == nil || d.declared[Keys][id] != nil {
		return nil
	}
	team, known := d.teamOf(key)
	a := &Access{Team: team, Owner: key.User, SHA256: key.SHA256, Old: key.OldSHA256, OldUntil: key.OldUntil}
	if key.Expires != nil {
		a.Expires = *key.Expires
	}
	if !known || team != "" && d.items[Teams][team] == nil {
		a.Refused = "the user or the team of the API key is not known any more"
	}
	for _, of := range []struct {
		item *Item
		what string
	}{{key, "the API key"}, {d.items[Teams][team], "the team of the API key"}, {d.items[Users][key.User], "the user of the API key"}} {
		if of.item == nil {
			continue
		}
		if of.item.Disabled {
			a.Refused = of.what + " is disabled"
		}
		if len(of.item.Models) > 0 {
			a.Models = append(a.Models, of.item.Models)
		}
	}
	for _, p := range parts(id, team, key.User) {
		for _, l := range d.limits[p.Account()] {
			a.Limits = append(a.Limits, l.Limit())
		}
	}
	return a
}

// KeyIDs returns the IDs of the directory's keys.
func (d *Directory) KeyIDs() (ids []string) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for id := range d.items[Keys] {
		ids = append(ids, id)
	}
	return ids
}

// newSecret returns a secret that cannot be guessed, and its hash.
func newSecret() (secret, hash string) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	secret = "sk-" + base64.RawURLEncoding.EncodeToString(b)
	sum := sha256.Sum256([]byte(secret))
	return secret, hex.EncodeToString(sum[:])
}

// An If says who changes an item, and which version of it; 0 is any.
type If struct {
	By      string
	Version int64
}

// Create makes an item of a client's JSON. A key gets a secret, which is known only here, unless the client gives the
// hash of one.
func (d *Directory) Create(ctx context.Context, k Kind, body []byte, by If) (_ Item, secret string, err error) {
	i := Item{Created: time.Now().UTC().Truncate(time.Second)}
	was := i
	if err := i.decode(k, body); err != nil {
		return Item{}, "", err
	}
	if k == Keys && i.SHA256 == "" {
		secret, i.SHA256 = newSecret()
	}
	switch {
	case k.settings() == nil:
		i.ID = cmp.Or(i.ID, store.NewID())
	case k == Deployments && i.ID == "":
		_, d, _ := i.upstream(k) // it is checked below
		i.ID = d.Provider + "/" + d.Model
	}
	if !idForm().MatchString(i.ID) && (k.settings() == nil || !nameForm().MatchString(i.ID)) {
		return Item{}, "", fault("id", "%.80q is not possible: 1 to 64 letters, digits, dots, hyphens and underscores", i.ID)
	}
	if err := i.check(k, was); err != nil {
		return Item{}, "", err
	}
	i, err = d.change(ctx, k, i.ID, "create", by, func(found *Item) (*Item, error) {
		if found != nil {
			return nil, &Error{http.StatusConflict, "exists", "id", fmt.Sprintf("there is a %s %q", k.One(), i.ID)}
		}
		return &i, nil
	})
	return i, secret, err
}

// Patch replaces the members of an item that a client's JSON has; null removes one.
func (d *Directory) Patch(ctx context.Context, k Kind, id string, body []byte, by If) (Item, error) {
	return d.change(ctx, k, id, "update", by, func(found *Item) (*Item, error) {
		if found == nil {
			return nil, absent(k, id)
		}
		i := found.clone()
		if err := i.decode(k, body); err != nil {
			return nil, err
		}
		if i.ID != id {
			return nil, fault("id", "stays as it is")
		}
		return &i, i.check(k, *found)
	})
}

// Rotate gives a key another secret. The one before works on for a time.
func (d *Directory) Rotate(ctx context.Context, id string, grace time.Duration, by If) (_ Item, secret string, err error) {
	secret, hash := newSecret()
	i, err := d.change(ctx, Keys, id, "rotate", by, func(found *Item) (*Item, error) {
		if found == nil {
			return nil, absent(Keys, id)
		}
		if grace < 0 || grace > maxWindow {
			return nil, fault("grace", "%v is not possible: 0 to %v", grace, maxWindow)
		}
		i := found.clone()
		i.OldSHA256, i.OldUntil = "", time.Time{}
		if grace > 0 {
			i.OldSHA256, i.OldUntil = i.SHA256, time.Now().Add(grace).UTC().Truncate(time.Second)
		}
		i.SHA256 = hash
		return &i, nil
	})
	return i, secret, err
}

// Delete removes an item, and its limits. A team or user that others belong to stays.
func (d *Directory) Delete(ctx context.Context, k Kind, id string, by If) error {
	_, err := d.change(ctx, k, id, "delete", by, func(found *Item) (*Item, error) {
		if found == nil {
			return nil, absent(k, id)
		}
		of, kinds := store.Part{Team: id}, []Kind{Users, Keys}
		if k == Users {
			of, kinds = store.Part{Owner: id}, kinds[1:]
		}
		for _, other := range kinds {
			if list := d.List(other, of, "", "", 1); len(list) > 0 && (k == Teams || k == Users) {
				return nil, &Error{http.StatusConflict, "in_use", "", fmt.Sprintf("the %s %q belongs to it: move or delete that first", other.One(), list[0].ID)}
			}
		}
		return nil, nil //nolint:nilnil // nothing stays
	})
	if err != nil || k == Limits || k.settings() != nil {
		return err
	}
	of := map[Kind]store.Part{Keys: {Key: id}, Teams: {Team: id}, Users: {Owner: id}}[k]
	for _, l := range d.List(Limits, of, "", "", maxItems) {
		if err := d.Delete(ctx, Limits, l.ID, If{By: by.By}); err != nil {
			return err
		}
	}
	return nil
}

// Erase has the audit say that what there was of a user, who may be none of the directory's, was erased, and all gateways
// forget the user.
func (d *Directory) Erase(ctx context.Context, id string, by If) error {
	_, err := d.change(ctx, erasures, id, "erase", If{By: by.By}, func(*Item) (*Item, error) { return nil, nil }) //nolint:nilnil // there is no item
	return err
}

func absent(k Kind, id string) error {
	return &Error{http.StatusNotFound, "not_found", "", fmt.Sprintf("there is no %s %q", k.One(), id)}
}

// maxTries bounds the tries of a change while other gateways make theirs.
const maxTries = 32

// change makes a change of one item: by make, which is given what there is, and returns what shall be; nil deletes it.
func (d *Directory) change(ctx context.Context, k Kind, id, action string, by If, make func(found *Item) (*Item, error)) (Item, error) {
	d.writing.Lock()
	defer d.writing.Unlock()
	for range maxTries {
		d.refreshing.Lock()
		err := d.read(ctx)
		d.refreshing.Unlock()
		if err != nil {
			return Item{}, err
		}
		d.mu.RLock()
		found, declared, version := d.items[k][id], d.declared[k][id] != nil, d.version
		d.mu.RUnlock()
		if declared {
			return Item{}, &Error{http.StatusConflict, "declared", "", fmt.Sprintf("the %s %q is in the configuration's file: change it there, and send SIGHUP", k.One(), id)}
		}
		is, err := make(found)
		if err != nil {
			return Item{}, err
		}
		if by.Version != 0 && (found == nil || found.Version != by.Version) {
			return Item{}, &Error{http.StatusPreconditionFailed, "changed", "", fmt.Sprintf("the %s has changed meanwhile: read it again", k.One())}
		}
		r := store.Row{Kind: string(k), ID: id, Version: version + 1}
		a := store.Audit{Version: r.Version, At: time.Now(), By: by.By, Action: action, Kind: r.Kind, ID: id}
		if found != nil {
			a.Before = text(found.public(k))
		}
		switch k {
		case resets:
			a.Kind = string(Deployments)
		case erasures:
			a.Kind = string(Users)
		}
		if is != nil || k.settings() != nil {
			if err := d.fits(k, id, is); err != nil {
				return Item{}, err
			}
		}
		if is != nil {
			is.Version = r.Version
			r.Body, a.After = text(stored(*is)), text(is.public(k))
		}
		if err := d.store.Change(ctx, r, a); errors.Is(err, store.ErrStale) {
			continue
		} else if err != nil {
			return Item{}, err
		}
		if err := d.Refresh(ctx); err != nil {
			return Item{}, fmt.Errorf("the change is made, but this gateway does not follow it yet: %w", err)
		}
		if is == nil {
			return Item{}, nil
		}
		return is.public(k), nil
	}
	return Item{}, store.ErrStale
}

func text(i any) string {
	b, _ := json.Marshal(i) // of plain members
	return string(b)
}

// fits returns why an item does not fit to the others. Of a provider or a deployment, nil is one that is deleted.
func (d *Directory) fits(k Kind, id string, i *Item) error {
	if k.settings() != nil {
		_, err := d.Upstreams(k, id, i)
		return err
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.items[k][i.ID] == nil && len(d.items[k]) >= maxItems {
		return &Error{http.StatusConflict, "full", "", fmt.Sprintf("there are %d %s, as many as may be", maxItems, k)}
	}
	for _, r := range []struct {
		kind Kind
		id   string
	}{{Teams, i.Team}, {Users, i.User}, {Keys, i.Key}} {
		switch {
		case r.id == "" || d.items[r.kind][r.id] != nil && d.declared[r.kind][r.id] == nil:
		case d.declared[r.kind][r.id] != nil:
			return fault(r.kind.One(), "%q is in the configuration's file, and has its limits there", r.id)
		default:
			return fault(r.kind.One(), "there is no %q", r.id)
		}
	}
	if id, taken := d.hashes[i.SHA256]; taken && id != i.ID {
		return &Error{http.StatusConflict, "exists", "sha256", "another key has this secret"}
	}
	if k != Limits {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(d.limits[i.part().Account()]), func(o *Item) bool { return o.ID == i.ID })
	if len(others) >= store.MaxLimits {
		return &Error{http.StatusConflict, "full", "", fmt.Sprintf("there are %d limits, as many as may be", store.MaxLimits)}
	}
	for _, o := range others {
		if o.Limit().Counter(time.Time{}) == i.Limit().Counter(time.Time{}) {
			return &Error{http.StatusConflict, "exists", "", fmt.Sprintf("the limit %q is of this resource, model and window: change that", o.ID)}
		}
	}
	return nil
}

var _ error = (*Error)(nil)
