package imports

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/lazyregexp"
	"dyno/services/bot/outward"
	"dyno/services/bot/upstream"
)

// A deployment is an entry of model_list.
type deployment struct {
	from, params, terms *fields.Node
	provider, model     string
	names               []string
}

const within = "deployments[0]"

// entry carries an entry of model_list over, or says why it has no place.
func (i *importer) entry(n *fields.Node) (why string) {
	group, why := i.text(n.Get("model_name"))
	if why != "" {
		return "model_name " + why
	}
	d := &deployment{from: n, params: n.Get("litellm_params"), terms: mapping(), names: []string{group}}
	if why := i.server(d, n.Find("model_info.mode")); why != "" {
		return why
	}
	if isTrue(cmp.Or(d.params.Get("drop_params"), i.root.Find("litellm_settings.drop_params"))) {
		d.terms.Insert("drop", texts([]string{"all"}))
	}
	read := []string{"model", "custom_llm_provider", "api_key", "api_base", "api_version", "organization", "extra_headers", "drop_params", "mode"}
	for _, section := range []string{"litellm_params", "model_info"} {
		i.carry(n.Get(section), d.terms, within, ofModels, func(_ *fields.Node, k fields.Key) (why string) {
			if slices.Contains(read, k.Name) {
				return ""
			}
			return reason(k.Name)
		})
	}
	i.groups[group] = append(i.groups[group], d)
	i.all = append(i.all, d)
	return ""
}

// server gives a deployment its provider and its model.
func (i *importer) server(d *deployment, mode *fields.Node) (why string) {
	model, why := i.text(d.params.Get("model"))
	if why != "" {
		return "model " + why
	}
	kind, own, ok := strings.Cut(model, "/")
	if n := d.params.Get("custom_llm_provider"); n != nil {
		kind, own = n.Text, strings.TrimPrefix(model, n.Text+"/")
	} else if !ok {
		kind, own = "openai", model
		for prefix, of := range map[string]string{"claude": "anthropic", "gemini": "vertex_ai"} {
			if strings.HasPrefix(model, prefix) {
				kind = of
			}
		}
	}
	vendor, known := vendors[kind]
	other := func(part string) bool { return strings.Contains(own, part) }
	switch many := strings.Contains(own, "*"); {
	case !known:
		return cmp.Or(unreachable[kind], fmt.Sprintf("the provider %q is not known; with custom_llm_provider: openai and api_base, it could be", kind))
	case mode != nil && mode.Text == "realtime", strings.Contains(own, "realtime"):
		return "there is no realtime API"
	case !slices.Contains([]string{"openai", "azure", "vllm"}, vendor[0]) && (mode != nil && mode.Text != "chat" && mode.Text != "responses" || mode == nil && slices.ContainsFunc(otherModels, other)):
		return "models that are not for chats are passed on to servers of OpenAI's form only"
	case own == "", strings.Count(own, "*") > 1, strings.HasSuffix(d.names[0], "*") != many, strings.Contains(strings.TrimSuffix(d.names[0], "*"), "*"):
		return "want one * at the end of model_name, and one in the model; or none in both"
	}
	for _, part := range []string{"responses/", "o_series/", "gpt5_series/"} { // say how LiteLLM asks
		own = strings.TrimPrefix(own, part)
	}
	if kind == "fireworks_ai" && !strings.ContainsAny(own, "/*") {
		own = "accounts/fireworks/models/" + own
	}
	d.model = own
	return i.provider(d, kind, vendor[0], vendor[1])
}

// provider gives a deployment its provider, which is made unless one is the same.
func (i *importer) provider(d *deployment, kind, dialect, base string) (why string) {
	own := d.params.Get("api_base")
	if own != nil {
		if base, why = i.text(own); why != "" {
			return "api_base: " + why
		}
	}
	to, err := url.Parse(base)
	if err != nil || to.Host == "" || to.User != nil {
		return "api_base: want a URL without a user"
	}
	query := to.Query()
	version := query.Get("api-version")
	if query.Del("api-version"); len(query) > 0 {
		i.leave(own, "the query may have secrets: write it into query of the provider if it has none")
	}
	if n := d.params.Get("api_version"); n != nil {
		if version, why = i.text(n); why != "" {
			return "api_version: " + why
		}
	}
	dialect, path, version := address(kind, dialect, d.model, to, version)
	to = &url.URL{Scheme: to.Scheme, Host: to.Host, Path: path}
	key := d.params.Get("api_key")
	if name, unusual := variables[kind]; key == nil && (own == nil || vendors[kind][1] == "") { // else it would go to another party
		key = scalar(variable + cmp.Or(name, strings.ToUpper(kind)+"_API_KEY"))
		if unusual && name == "" {
			key = nil
		}
	}
	if key != nil && (!key.Scalar() || key.Text == "") {
		key = nil
	}
	if why := i.allow(to, key != nil); why != "" {
		return "api_base: " + why
	}
	file := ""
	if key != nil {
		file = i.secret(key, kind)
	}
	p := mapping()
	for _, f := range [][2]string{{"dialect", strings.TrimPrefix(dialect, "openai")}, {"url", to.String()}, {"key_file", file}, {"query.api-version", version}} {
		if f[1] != "" {
			p.Insert(f[0], scalar(f[1]))
		}
	}
	i.headers(p, d.params)
	for _, other := range i.providers {
		if string((&fields.Node{Keys: other.Keys[1:]}).YAML()) == string(p.YAML()) {
			d.provider = other.Get("name").Text
			return ""
		}
	}
	d.provider = unique(kind, func(name string) bool {
		return slices.ContainsFunc(i.providers, func(p *fields.Node) bool { return p.Get("name").Text == name })
	})
	p.Keys = slices.Insert(p.Keys, 0, fields.Key{Name: "name", Value: scalar(d.provider)})
	p.Note = i.place(d.from)
	i.providers = append(i.providers, p)
	return ""
}

// address returns the dialect of a provider, the path of its URL, and the version of its API; "" is none.
func address(kind, dialect, model string, to *url.URL, version string) (string, string, string) {
	path := strings.TrimRight(strings.TrimSuffix(strings.TrimRight(to.Path, "/"), "/chat/completions"), "/")
	before := func(part string) string { at, _, _ := strings.Cut(path, part); return at }
	switch host := to.Hostname(); {
	case kind == "azure_ai" && strings.HasPrefix(model, "claude"):
		return "anthropic", before("/anthropic") + "/anthropic/v1", ""
	case kind == "azure_ai" && !strings.HasSuffix(host, ".services.ai.azure.com") && !strings.HasSuffix(host, ".openai.azure.com"):
		return "openai", strings.TrimSuffix(path, "/v1") + "/v1", ""
	case kind == "azure_ai", dialect == "azure" && (version == "" || version == "v1"):
		return dialect, strings.TrimSuffix(before("/openai"), "/models") + "/openai/v1", ""
	case dialect == "azure" && (version == "preview" || version == "latest"):
		return dialect, before("/openai") + "/openai/v1", "preview"
	case dialect == "azure":
		return dialect, before("/openai"), version
	case dialect == "anthropic":
		return dialect, strings.TrimSuffix(strings.TrimSuffix(path, "/messages"), "/v1") + "/v1", ""
	case dialect == "gemini" && path == "":
		return dialect, "/v1beta", ""
	case dialect == "ollama":
		return dialect, strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(path, "/chat"), "/api"), "/v1"), ""
	}
	return dialect, path, ""
}

var secretName = lazyregexp.New(`(?i)auth|key|token|secret|cookie`)

// headers gives a provider the header fields that cannot be secrets.
func (i *importer) headers(p, params *fields.Node) {
	headers := mapping()
	for _, k := range append(keys(params.Get("extra_headers")), fields.Key{Name: "OpenAI-Organization", Value: params.Get("organization")}) {
		text, why := i.text(k.Value)
		switch {
		case k.Value == nil:
		case secretName().MatchString(k.Name):
			i.leave(k.Value, "it may be a secret, and headers are in the file: write it there if it is none")
		case why != "":
			i.leave(k.Value, why)
		default:
			headers.Keys = append(headers.Keys, fields.Key{Name: k.Name, Value: scalar(text)})
		}
	}
	if len(headers.Keys) > 0 {
		p.Insert("headers", headers)
	}
}

// allow adds the networks that a URL needs, or says why it cannot be called.
func (i *importer) allow(to *url.URL, secret bool) (why string) {
	host := strings.ToLower(to.Hostname())
	var need []string
	switch a, err := netip.ParseAddr(host); {
	case err == nil && (to.Scheme == "http" || (outward.Policy{}).Check(a) != nil):
		need = []string{host}
	case host == "localhost":
		need = []string{"127.0.0.1"}
	case err != nil && (to.Scheme == "http" || !strings.Contains(host, ".") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal")):
		need = private
	}
	networks, err := outward.ParseNetworks(need)
	policy := outward.Policy{Allow: networks}
	if secret {
		policy = policy.RequireTLSOrAllowlist(to.String())
	}
	if err := errors.Join(err, policy.CheckURL(to.String())); err != nil {
		return err.Error()
	}
	for _, n := range need {
		if !slices.Contains(i.networks, n) {
			i.networks = append(i.networks, n)
		}
	}
	return ""
}

// complete gives deployments what others of their group have: without an order, they come after those; without a weight, they have 1.
func complete(group []*deployment) {
	last := 0
	for _, d := range group {
		at, _ := strconv.Atoi(cmp.Or(d.terms.Get("priority"), scalar("")).Text) // put made it
		last = max(last, at)
	}
	for _, f := range [][2]string{{"priority", strconv.Itoa(last + 1)}, {"weight", hundredths(1)}} {
		if slices.ContainsFunc(group, func(d *deployment) bool { return d.terms.Get(f[0]) != nil }) {
			for _, d := range group {
				put(d.terms, within, f[0], f[1], "")
			}
		}
	}
}

const unknown = "no model here has this name"

// alias gives the deployments of a group another name.
func (i *importer) alias(k fields.Key) {
	name := cmp.Or(k.Value.Get("model"), k.Value).Text
	if len(i.groups[name]) == 0 || strings.Contains(name+k.Name, "*") || k.Name == "" {
		i.leave(k.Value, unknown)
		return
	}
	for _, d := range i.groups[name] {
		if !slices.Contains(d.names, k.Name) {
			d.names = append(d.names, k.Name)
		}
	}
}

// served reports whether a model of this name can be asked for.
func (i *importer) served(name string) bool {
	return slices.ContainsFunc(i.all, func(d *deployment) bool { return upstream.Deployment{Names: d.names}.Serves(name) })
}

// fallback has models asked in place of one, after some causes.
func (i *importer) fallback(to *fields.Node, model string, models *fields.Node, on []string) {
	var others []string
	for _, item := range items(models) {
		if !i.served(item.Text) || item.Text == model || model != "*" && !i.served(model) {
			i.leave(item, unknown)
			continue
		}
		others = append(others, item.Text)
	}
	if len(others) > 0 {
		f := mapping()
		f.Note = i.place(models)
		f.Insert("model", scalar(model))
		f.Insert("to", texts(others))
		f.Insert("on", texts(on))
		to.Items = append(to.Items, f)
	}
}

// fallbacks carries over which models are asked in place of others. Those that have no list for a cause go by the general one.
func (i *importer) fallbacks() {
	router, library, list := i.root.Get("router_settings"), i.root.Get("litellm_settings"), list()
	general := []string{string(upstream.Down), string(upstream.Limited)}
	for _, kind := range []struct {
		name string
		on   upstream.Cause
	}{{"context_window_fallbacks", upstream.Context}, {"content_policy_fallbacks", upstream.Filtered}, {"fallbacks", ""}, {"default_fallbacks", ""}} {
		n, on := cmp.Or(router.Get(kind.name), library.Get(kind.name)), []string{string(kind.on)}
		switch {
		case kind.on == "":
			on = general
		case n == nil:
			general = append(general, string(kind.on))
		}
		if kind.name == "default_fallbacks" {
			i.fallback(list, "*", n, on)
			continue
		}
		for _, item := range items(n) {
			for _, k := range keys(item) {
				i.fallback(list, k.Name, k.Value, on)
			}
		}
	}
	if len(list.Items) > 0 {
		i.out.Insert("fallbacks", list)
	}
}
