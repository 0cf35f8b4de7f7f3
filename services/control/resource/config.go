package resource

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"slices"
	"unicode/utf8"
)

// A Config is a piece of configuration, which services read. Its content is a text in Content, or other bytes in Binary.
// While Release is given, some clients have its content instead.
type Config struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Content     string            `json:"content"`
	Binary      []byte            `json:"content_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"` // a media type; "" is unknown
	// Secret keeps the content out of the audit and of lists.
	Secret  bool     `json:"secret,omitempty"`
	Release *Release `json:"release,omitempty"`
	Change
}

// A Release is a gray release: content for some clients first.
type Release struct {
	Content string `json:"content"`
	Binary  []byte `json:"content_base64,omitempty"`
	Choice
}

// A PolicyRelease is a gray release of a policy: rules for some clients first.
type PolicyRelease struct {
	Rules []Rule `json:"rules"`
	Choice
}

// A Choice says for which clients a gray release is.
type Choice struct {
	// Labels choose clients that have one of the values of every label. Percent chooses that share of all others, by
	// their ID: a client chosen at 5 % stays chosen at 20 %.
	Labels  map[string][]string `json:"labels,omitempty"`
	Percent float64             `json:"percent,omitempty"`
	// Since is the resource's version when the release was begun. Another release
	// chooses other clients.
	Since int64 `json:"since,omitempty"`
}

// mediaType matches a media type (RFC 9110, section 8.3.1). The API's description has it, too. The description of the
// API has it, too.
var mediaType = func() *regexp.Regexp {
	const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	return regexp.MustCompile(`^` + token + `/` + token + `([ \t]*;[ \t]*` + token + `=(` + token + `|"([^"\\\x00-\x1f\x7f]|\\[ -~])*"))*$`)
}()

// Ref names the configuration.
func (c *Config) Ref() Ref { return Ref{Kind: Configs, Namespace: c.Namespace, Name: c.Name} }

// Check returns Invalid with every fault of the configuration.
func (c *Config) Check(l Limits) error {
	var f faults
	c.Ref().check(&f)
	checkLabels(&f, "/labels", c.Labels, l.Labels)
	checkContent(&f, "/content", c.Content, c.Binary, l.ConfigBytes)
	if c.ContentType != "" {
		f.check(len(c.ContentType) <= maxLabelValue && mediaType.MatchString(c.ContentType), "/content_type", "%.80q: must be a media type such as application/json", c.ContentType)
	}
	if c.Release != nil {
		c.Release.check(&f, "/release", l)
		f.check(len(c.Data())+len(c.Release.Data()) <= l.ConfigBytes, "/release/content", "with the content, must have %d bytes at most", l.ConfigBytes)
	}
	return f.err()
}

// Check returns Invalid with every fault of a release by itself.
func (r *Release) Check(l Limits) error {
	var f faults
	f.check(r.Since == 0, "/since", "is not the client's to say")
	r.check(&f, "", l)
	return f.err()
}

func (r *Release) check(f *faults, at string, l Limits) {
	checkContent(f, at+"/content", r.Content, r.Binary, l.ConfigBytes)
	r.Choice.check(f, at, l)
}

// Check returns Invalid with every fault of a release by itself.
func (r *PolicyRelease) Check(l Limits) error {
	var f faults
	f.check(r.Since == 0, "/since", "is not the client's to say")
	r.check(&f, "", l)
	return f.err()
}

func (r *PolicyRelease) check(f *faults, at string, l Limits) {
	r.Choice.check(f, at, l)
	checkRules(f, at+"/rules", r.Rules, l)
}

func (r *Choice) check(f *faults, at string, l Limits) {
	f.check(r.Percent >= 0 && r.Percent <= 100, at+"/percent", "%v: must be from 0 to 100", r.Percent)
	f.check(r.Percent > 0 || len(r.Labels) > 0, at, "must choose clients, by percent or by labels")
	f.check(len(r.Labels) <= l.Labels, at+"/labels", "has %d entries: must have %d at most", len(r.Labels), l.Labels)
	for name, values := range r.Labels {
		one := at + "/labels/" + escape(name)
		f.check(name != "" && len(name) <= maxLabelName && plain(name), one, "the name must have 1 to %d printable bytes", maxLabelName)
		f.check(len(values) > 0 && len(values) <= maxList, one, "has %d values: must have 1 to %d", len(values), maxList)
		for i, v := range values {
			f.check(len(v) <= maxLabelValue && utf8.ValidString(v), fmt.Sprintf("%s/%d", one, i), "must be UTF-8 of %d bytes at most", maxLabelValue)
		}
	}
}

func checkContent(f *faults, at, text string, binary []byte, limit int) {
	n := max(len(text), len(binary))
	f.check(n <= limit, at, "has %d bytes: must have %d at most", n, limit)
	f.check(utf8.ValidString(text), at, "must be UTF-8")
	f.check(text == "" || len(binary) == 0, at+"_base64", "is given next to content: want one of them")
	f.check(text != "" || binary == nil || n > 0, at, "must be given")
}

// Data returns the content, of any bytes.
func (c *Config) Data() string { return cmp.Or(c.Content, string(c.Binary)) }

// SetData sets the content: a text as Content, other bytes as Binary.
func (c *Config) SetData(data string) { c.Content, c.Binary = divide(data) }

// Data returns the content, of any bytes.
func (r *Release) Data() string { return cmp.Or(r.Content, string(r.Binary)) }

// SetData sets the content: a text as Content, other bytes as Binary.
func (r *Release) SetData(data string) { r.Content, r.Binary = divide(data) }

func divide(data string) (text string, binary []byte) {
	if utf8.ValidString(data) {
		return data, nil
	}
	return "", []byte(data)
}

// A Client has the properties by which releases choose clients.
type Client struct {
	ID     string
	Labels map[string]string
}

// For returns a client's content, and whether that is the release's.
func (c *Config) For(who Client) (content string, released bool) {
	if r := c.Release; r != nil && r.chooses(c.Namespace, c.Name, who) {
		return r.Data(), true
	}
	return c.Data(), false
}

// For returns a client's rules, and whether they are the release's.
func (p *Policy) For(who Client) (rules []Rule, released bool) {
	if r := p.Release; r != nil && r.chooses(p.Namespace, p.Name, who) {
		return r.Rules, true
	}
	return p.Rules, false
}

func (r *Choice) chooses(namespace, name string, who Client) bool {
	if len(r.Labels) > 0 {
		all := true
		for name, values := range r.Labels {
			value, ok := who.Labels[name]
			all = all && ok && slices.Contains(values, value)
		}
		if all {
			return true
		}
	}
	return who.ID != "" && r.Percent > 0 && position(namespace, name, r.Since, who.ID) < r.Percent/100
}

// position returns a client's place among all, from 0 to below 1: the same for as long as the release lasts.
func position(namespace, name string, since int64, id string) float64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%d\x00%s", namespace, name, since, id) // a hash accepts every write
	// FNV's upper bits hardly depend on the last bytes: mixed as in MurmurHash3.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / math.Exp2(53)
}

// Masked returns the configuration without a secret content.
func (c Config) Masked() Config {
	if !c.Secret {
		return c
	}
	c.SetData("")
	if c.Release != nil {
		r := *c.Release
		r.SetData("")
		c.Release = &r
	}
	return c
}
