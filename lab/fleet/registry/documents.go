package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

const configs = "/v1/configs"

func pathOf(document string) string { return configs + "/" + url.PathEscape(document) }

func inNamespace() url.Values { return url.Values{"namespace": {namespace}} }

// Read reads a document of the fleet. Without one, tag is empty.
func Read[D any](ctx context.Context, r *Registry, name string) (d D, tag string, err error) {
	var c resource.Config
	tag, err = r.ask(ctx, client.Request{Method: http.MethodGet, Path: pathOf(name), Query: inNamespace()}, &c)
	if isStatus(err, http.StatusNotFound) {
		return d, "", nil
	}
	if err == nil {
		err = decodeDocument(&c, &d)
	}
	return d, tag, err
}

func decodeDocument(c *resource.Config, into any) error {
	if err := json.Unmarshal([]byte(c.Content), into); err != nil {
		return fmt.Errorf("%s: %w", c.Ref(), err)
	}
	return nil
}

// Documents reads all documents whose names begin with a prefix, by the rest of their names. Secret ones are not
// among them.
func Documents[D any](ctx context.Context, r *Registry, prefix string) (map[string]D, error) {
	found, err := list[resource.Config](ctx, r, configs, prefix)
	all := map[string]D{}
	for i := range found {
		name, ok := strings.CutPrefix(found[i].Name, prefix)
		if !ok || found[i].Secret {
			continue
		}
		var d D
		if err := decodeDocument(&found[i], &d); err != nil {
			return nil, err
		}
		all[name] = d
	}
	return all, err
}

// Change changes a document by f. Without a document, f gets an empty one and makes it. If somebody else has
// changed the document meanwhile, f gets that.
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

// CreateSecret makes a document that lists and audits do not show.
func (r *Registry) CreateSecret(ctx context.Context, name string, document any) error {
	content, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return r.put(ctx, name, http.Header{"If-None-Match": {"*"}}, content, true)
}

func (r *Registry) put(ctx context.Context, name string, condition http.Header, content []byte, secret bool) error {
	_, err := r.ask(ctx, client.Request{
		Method: http.MethodPut, Path: pathOf(name), Query: inNamespace(), Header: condition,
		Body: map[string]any{"content": string(content), "content_type": "application/json", "secret": secret},
	}, nil)
	return err
}

// Remove removes a document, if there is one.
func (r *Registry) Remove(ctx context.Context, name string) error { return r.remove(ctx, name, nil) }

func (r *Registry) remove(ctx context.Context, name string, condition http.Header) error {
	_, err := r.ask(ctx, client.Request{Method: http.MethodDelete, Path: pathOf(name), Query: inNamespace(), Header: condition}, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// removeIf removes a document of which f says so, unless somebody changes it meanwhile.
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
