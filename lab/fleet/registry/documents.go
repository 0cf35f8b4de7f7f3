package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

const configs = "/v1/configs"

func pathOf(document string) string { return configs + "/" + url.PathEscape(document) }

func (r *Registry) inNamespace() url.Values { return url.Values{"namespace": {r.namespace}} }

// A Broken is an unreadable document or instance, such as one written by another program. It counts neither as an
// agent nor as a task.
type Broken struct {
	Name   string // of the agent or the task
	Reason string
}

func newBroken(name string, err error) Broken {
	return Broken{name, strings.ReplaceAll(err.Error(), "\n", "; ")}
}

// A BrokenError says that a document cannot be read.
type BrokenError struct {
	Name string
	Err  error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("%s cannot be read: %v", e.Name, e.Err) }
func (e *BrokenError) Unwrap() error { return e.Err }

// A checker is a document with rules beyond its fields' types.
type checker interface {
	// Check validates the document of this name.
	Check(name string) error
}

// Read reads a document of the namespace. Without one, tag is empty. The error is a *BrokenError if the document cannot be
// read; tag is its tag then.
func Read[D any](ctx context.Context, r *Registry, name string) (d D, tag string, err error) {
	var c resource.Config
	tag, err = r.ask(ctx, client.Request{Method: http.MethodGet, Path: pathOf(name), Query: r.inNamespace()}, &c)
	if isStatus(err, http.StatusNotFound) {
		return d, "", nil
	}
	if err == nil {
		err = decodeDocument(&c, &d)
	}
	return d, tag, err
}

func decodeDocument(c *resource.Config, into any) error {
	err := json.Unmarshal([]byte(c.Content), into)
	if of, ok := into.(checker); err == nil && ok {
		err = of.Check(c.Name)
	}
	if err != nil {
		return &BrokenError{c.Name, err}
	}
	return nil
}

var errSecret = errors.New("it is secret")

// Documents reads all documents whose names begin with a prefix. It returns them by the rest of their names, and
// lists the unreadable ones.
func Documents[D any](ctx context.Context, r *Registry, prefix string) (map[string]D, []Broken, error) {
	found, err := list[resource.Config](ctx, r, configs, prefix)
	all := map[string]D{}
	var broken []Broken
	for i := range found {
		if name, ok := strings.CutPrefix(found[i].Name, prefix); ok {
			var d D
			if err := decodeListed(&found[i], &d); err != nil {
				broken = append(broken, newBroken(name, err))
				continue
			}
			all[name] = d
		}
	}
	return all, broken, err
}

// decodeListed reads a document of a list, which has no secrets.
func decodeListed(c *resource.Config, into any) error {
	if c.Secret {
		return errSecret
	}
	err := decodeDocument(c, into)
	if of, ok := errors.AsType[*BrokenError](err); ok {
		return of.Err
	}
	return err
}

// Change changes a document by f. If there is none, f gets an empty one. If another client changes the document
// meanwhile, f gets the new one.
func Change[D any](ctx context.Context, r *Registry, name string, f func(*D) error) (D, error) {
	for range maxAttempts {
		d, tag, err := Read[D](ctx, r, name)
		if err != nil {
			return d, err
		}
		before, err := json.Marshal(d)
		if err == nil {
			err = f(&d)
		}
		if err != nil {
			return d, err
		}
		after, err := json.Marshal(d)
		if err != nil || tag != "" && bytes.Equal(before, after) {
			return d, err
		}
		condition := http.Header{"If-Match": {tag}}
		if tag == "" {
			condition = http.Header{"If-None-Match": {"*"}}
		}
		if err = r.put(ctx, name, condition, after, false); !isStatus(err, http.StatusPreconditionFailed) {
			return d, err
		}
	}
	var none D
	return none, fmt.Errorf("%s: others change it all the time", name)
}

// CreateSecret makes a document whose content lists and audits hide.
func (r *Registry) CreateSecret(ctx context.Context, name string, document any) error {
	content, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return r.put(ctx, name, http.Header{"If-None-Match": {"*"}}, content, true)
}

func (r *Registry) put(ctx context.Context, name string, condition http.Header, content []byte, secret bool) error {
	_, err := r.ask(ctx, client.Request{
		Method: http.MethodPut, Path: pathOf(name), Query: r.inNamespace(), Header: condition,
		Body: map[string]any{"content": string(content), "content_type": "application/json", "secret": secret},
	}, nil)
	return err
}

// Remove removes a document, if there is one.
func (r *Registry) Remove(ctx context.Context, name string) error { return r.remove(ctx, name, nil) }

func (r *Registry) remove(ctx context.Context, name string, condition http.Header) error {
	_, err := r.ask(ctx, client.Request{Method: http.MethodDelete, Path: pathOf(name), Query: r.inNamespace(), Header: condition}, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// removeIf removes a document if f accepts it, unless another client changes it meanwhile.
func removeIf[D any](ctx context.Context, r *Registry, name string, f func(D) bool) error {
	d, tag, err := Read[D](ctx, r, name)
	if err != nil || tag == "" || !f(d) {
		return err
	}
	if err = r.remove(ctx, name, http.Header{"If-Match": {tag}}); isStatus(err, http.StatusPreconditionFailed) {
		return nil
	}
	return err
}
