package curl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/cli/foreign"
	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// addRequests adds the requests of a command.
func addRequests(d *draft.Draft, c *command) {
	if c.Name = ""; c.failed {
		return
	}
	if len(c.urls) == 0 {
		d.Leave(c.Line, "curl", "the command has no URL", "")
		return
	}
	var body []byte
	kind := ""
	switch chosen := c.chosen(); {
	case len(chosen) > 1:
		d.Leave(c.Line, "curl "+strings.Join(chosen, " "), "curl sends nothing, as these options exclude each other", "")
		return
	case len(c.form) > 0:
		text, of, _, err := foreign.EncodeForm(c.form, fmt.Sprintf("dyno-%04d", c.Line), c.read)
		if err != nil {
			d.Leave(c.Line, "-F", err.Error(), "run dyno import in the folder that the script runs in")
			return
		}
		body, kind = []byte(text), of
		if i := slices.IndexFunc(c.Headers, func(h scenario.Header) bool { return strings.EqualFold(h.Name, "Content-Type") }); i >= 0 {
			_, boundary, _ := strings.Cut(of, ";")
			if !strings.HasPrefix(c.Headers[i].Value, "multipart/form-data") {
				d.Leave(c.Line, c.Headers[i].Value, "curl calls the parts of such a body attachments, and dyno parts of a form", "")
			}
			c.Headers[i].Value += ";" + boundary
		}
	case c.upload != "":
		text, err := c.read(c.upload)
		if err != nil {
			d.Leave(c.Line, "-T "+c.upload, err.Error(), "run dyno import in the folder that the script runs in")
			return
		}
		body = []byte(text)
		c.Method = cmp.Or(c.Method, "PUT")
	case c.query && c.hasData:
		c.inQuery = []string{c.data} // curl 7.88 then forgets what --url-query adds
	case c.json:
		body, kind = []byte(c.data), "application/json"
		c.own("Accept", kind)
	case c.hasData:
		body, kind = []byte(c.data), "application/x-www-form-urlencoded"
	}
	if kind != "" {
		c.own("Content-Type", kind)
	}
	switch {
	case c.head:
		c.Method = cmp.Or(c.Method, "HEAD")
	case c.Method == "" && (c.hasData || len(c.form) > 0) && !c.query:
		c.Method = "POST"
	}
	if len(c.cookies) > 0 {
		c.AddHeader("Cookie", strings.Join(c.cookies, ";"))
	}
	for _, address := range c.urls {
		all, err := c.each(address)
		if err != nil {
			d.Leave(c.Line, address, err.Error()+": curl ends", "--globoff takes brackets and braces as they stand")
			break
		}
		for _, address := range all {
			c.send(address, body)
		}
	}
	c.dial()
}

// own adds a header field of curl's own, unless the command has one or does not want it.
func (c *command) own(name, value string) {
	if !slices.Contains(c.without, strings.ToLower(name)) {
		c.DefaultHeader(name, value)
	}
}

// chosen returns the options that say what kind of request is sent. There can be one.
func (c *command) chosen() (all []string) {
	for _, o := range []struct {
		given bool
		name  string
	}{{c.head, "-I"}, {c.hasData && !c.query, "-d"}, {len(c.form) > 0, "-F"}} {
		if o.given {
			all = append(all, o.name)
		}
	}
	return all
}

// send adds the request for a URL.
func (c *command) send(address string, body []byte) {
	r := c.Request
	r.Headers, r.Body = slices.Clone(c.Headers), body
	without, user, has := plan.CutUser(address)
	if has {
		address = without
	}
	address, _, _ = strings.Cut(address, "#")
	if c.upload != "" && c.upload != "-" && endsInFolder(address) {
		address = strings.TrimSuffix(address, "/") + "/" + c.upload[strings.LastIndexByte(c.upload, '/')+1:]
	}
	address = draft.WithQuery(address, percentEncoded().ReplaceAllStringFunc(strings.Join(c.inQuery, "&"), strings.ToLower))
	if slices.ContainsFunc([]byte(address), func(b byte) bool { return b <= ' ' || b == 0x7f }) {
		c.d.Leave(c.Line, address, "curl sends nothing, as there is a blank in the URL", "write %20 for a blank")
		return
	}
	if !c.asIs {
		address = withoutDots(address)
	}
	r.URL = address
	if !slices.Contains(c.without, "authorization") && !r.HasHeader("Authorization") {
		switch {
		case c.user != "":
			if !strings.Contains(c.user, ":") {
				c.d.Leave(c.Line, "-u "+c.user, "curl asks for the password, which is taken to be empty", "write it after a colon")
				c.user += ":"
			}
			r.AddHeader("Authorization", foreign.BasicAuth(c.user))
		case has:
			r.AddHeader("Authorization", foreign.UserInURL(user))
		}
	}
	if slices.Contains(c.without, "host") {
		c.d.Leave(c.Line, "-H Host:", "dyno does not leave out the field Host", "")
	}
	c.d.AddRequest(r)
}

// percentEncoded is a character that is percent-encoded. In what curl adds to a query, its digits are in small letters.
var percentEncoded = lazyregexp.New(`%[0-9A-Fa-f]{2}`)

// endsInFolder tells whether a URL names no file.
func endsInFolder(address string) bool {
	_, rest, found := strings.Cut(address, "://")
	if !found {
		rest = address
	}
	rest, _, hasQuery := strings.Cut(rest, "?")
	return !hasQuery && (strings.HasSuffix(rest, "/") || !strings.Contains(rest, "/"))
}

// withoutDots returns a URL without the segments . and .. in its path (RFC 3986, 5.2.4).
func withoutDots(address string) string {
	start := 0
	if at := strings.Index(address, "://"); at >= 0 {
		start = at + len("://")
	}
	at := strings.IndexAny(address[start:], "/?")
	if at < 0 || address[start+at] == '?' {
		return address
	}
	start += at
	path, query, hasQuery := strings.Cut(address[start:], "?")
	if !strings.Contains(path, "/.") {
		return address
	}
	var kept []string
	segments := strings.Split(path, "/")[1:]
	for i, segment := range segments {
		last := i == len(segments)-1
		switch segment {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		case ".":
		default:
			kept = append(kept, segment)
			continue
		}
		if last {
			kept = append(kept, "")
		}
	}
	address = address[:start] + "/" + strings.Join(kept, "/")
	if hasQuery {
		address += "?" + query
	}
	return address
}

// maxGlob bounds how many URLs one with brackets and braces stands for.
const maxGlob = 1000

// each returns the URLs that one stands for.
func (c *command) each(address string) ([]string, error) {
	if !c.globs {
		return []string{address}, nil
	}
	all := []string{""}
	extend := func(by []string) error {
		if len(all)*len(by) > maxGlob {
			return fmt.Errorf("it stands for more than %d URLs", maxGlob)
		}
		var out []string
		for _, before := range all {
			for _, more := range by {
				out = append(out, before+more)
			}
		}
		all = out
		return nil
	}
	for rest := address; rest != ""; {
		var set []string
		at := strings.IndexAny(rest, `[{\`)
		if at < 0 {
			at = len(rest)
		}
		if at > 0 {
			set, rest = []string{rest[:at]}, rest[at:]
		} else {
			var err error
			if set, rest, err = cutGlob(rest); err != nil {
				return nil, err
			}
		}
		if err := extend(set); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// cutGlob cuts the beginning off that stands for several texts: a set in braces, a range in brackets, or one character
// after a backslash.
func cutGlob(text string) (set []string, rest string, err error) {
	switch {
	case text[0] == '\\' && len(text) > 1 && strings.IndexByte("{}[]", text[1]) >= 0:
		return []string{text[1:2]}, text[2:], nil
	case text[0] == '\\', strings.HasPrefix(text, draft.MarkBegin):
		return []string{text[:1]}, text[1:], nil
	case text[0] == '[':
		inner, rest, closed := strings.Cut(text[1:], "]")
		if closed && strings.Contains(inner, ":") && !strings.Contains(inner, "-") { // an address of IPv6
			return []string{"[" + inner + "]"}, rest, nil
		}
		if set, err = rangeOf(inner); err != nil || !closed {
			return nil, "", errors.New("the range in brackets cannot be read")
		}
		return set, rest, nil
	}
	inner, rest, closed := strings.Cut(text[1:], "}")
	if !closed || strings.ContainsAny(inner, "{[") {
		return nil, "", errors.New("the set in braces cannot be read")
	}
	return strings.Split(inner, ","), rest, nil
}

// rangeOf returns the texts of a range such as 1-10, 001-100:2 or a-z.
func rangeOf(text string) (all []string, err error) {
	text, stepText, hasStep := strings.Cut(text, ":")
	step := 1
	if hasStep {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return nil, errors.New("no step")
		}
	}
	first, last, found := strings.Cut(text, "-")
	if found && len(first) == 1 && len(last) == 1 && (first[0] < '0' || first[0] > '9') {
		if first[0] > last[0] || int(last[0]-first[0]) > 'z'-'A' {
			return nil, errors.New("no range")
		}
		for c := int(first[0]); c <= int(last[0]); c += step {
			all = append(all, string(rune(c)))
		}
		return all, nil
	}
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if !found || err1 != nil || err2 != nil || from > to || from < 0 || (to-from)/step > maxGlob {
		return nil, errors.New("no range")
	}
	width := 0
	if strings.HasPrefix(first, "0") && len(first) > 1 {
		width = len(first)
	}
	for n := from; n <= to; n += step {
		all = append(all, fmt.Sprintf("%0*d", width, n))
	}
	return all, nil
}

// dial directs connections to where --connect-to and --resolve say.
func (c *command) dial() {
	t := c.d.Target()
	if len(c.connect)+len(c.resolve) == 0 || c.d.Base == "" {
		return
	}
	at := plan.Target{Protocol: plan.HTTP, URL: c.d.Base}
	at.Complete()
	to, faults := foreign.DialAddress(at.Address, c.connect, c.resolve)
	for _, f := range faults {
		c.d.Leave(c.Line, "curl", f.Error(), "target.address says where connections go")
	}
	if len(faults) == 0 {
		t.Address = to
	}
}
