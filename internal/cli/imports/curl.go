package imports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"dyno/internal/cli/foreign"
	"dyno/lab/plan"
)

// readCurl reads the commands of a shell script. Only those of curl are carried over, and sleep as a pause.
func readCurl(d *draft, src []byte) error {
	file, err := syntax.NewParser(syntax.KeepComments(false)).Parse(bytes.NewReader(src), "")
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), ":"))
	}
	d.pass = true
	variables := map[string]string{}
	config := &expand.Config{Env: expand.FuncEnviron(func(name string) string {
		if value, known := variables[name]; known || name == "IFS" { // without, words end at blanks
			return value
		}
		return d.environment(0, name, os.Getenv(name))
	})}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ForClause, *syntax.WhileClause:
			if f, is := n.(*syntax.ForClause); is {
				firstOf(config, variables, f)
			}
			d.leave(line(n), text(src, n), "what is repeated is carried over once", "load.closed.connections and load.window say how often all is sent")
		case *syntax.IfClause, *syntax.CaseClause:
			d.leave(line(n), text(src, n), "all of its branches are carried over", "take the steps out that are not wanted, or give them a condition (if)")
		case *syntax.FuncDecl:
			d.leave(line(n), n.Name.Value, "the function's commands are carried over where it stands, and not where it is called", "")
		case *syntax.CallExpr:
			d.shellCommand(config, variables, src, n)
			return false
		}
		return true
	})
	return nil
}

// firstOf gives the variable of a loop the first of its values.
func firstOf(config *expand.Config, variables map[string]string, f *syntax.ForClause) {
	if i, is := f.Loop.(*syntax.WordIter); is {
		if values, err := expand.Fields(config, i.Items...); err == nil && len(values) > 0 {
			variables[i.Name.Value] = values[0]
		}
	}
}

func line(n syntax.Node) int { return int(n.Pos().Line()) }

// text returns a node as it stands in the file.
func text(src []byte, n syntax.Node) string { return string(src[n.Pos().Offset():n.End().Offset()]) }

// shellCommand carries over an assignment or a command.
func (d *draft) shellCommand(config *expand.Config, variables map[string]string, src []byte, n *syntax.CallExpr) {
	for _, a := range n.Assigns {
		value, err := expand.Literal(config, a.Value)
		if err != nil || a.Append || a.Naked || a.Array != nil {
			d.leave(line(a), text(src, a), "the value is known only to a shell", "give the variable "+variableName(a.Name.Value)+" a value in load.scenario.variables")
			continue
		}
		variables[a.Name.Value] = value
	}
	var words []string
	for _, w := range n.Args {
		more, err := expand.Fields(config, w)
		if err != nil {
			d.leave(line(w), text(src, w), "what it stands for is known only to a shell", "write it out")
			return
		}
		words = append(words, more...)
	}
	if len(words) == 0 {
		return
	}
	switch filepath.Base(words[0]) {
	case "curl":
		d.curlCommand(line(n), words[1:])
	case "sleep":
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(strings.Join(words[1:], " "), "s"), 64)
		if err != nil || seconds < 0 || seconds > maxThink.Seconds() {
			d.leave(line(n), text(src, n), "the pause is not a number of seconds, up to an hour", "give the step think")
			return
		}
		d.think(plan.Think{Constant: time.Duration(seconds * float64(time.Second))})
	case ":", "set", "echo", "printf", "true", "exit": // they send nothing
	default:
		d.leave(line(n), text(src, n), "only commands of curl are carried over", "")
	}
}

// A curl is a command that is being read.
type curl struct {
	request
	d       *draft
	urls    []string
	data    []string // parts of the body
	form    []string
	query   bool // data stands in the query
	head    bool
	json    bool
	connect []string
	resolve []string
	failed  bool
}

// A curlOption is one of curl's.
type curlOption struct {
	names string // without dashes; the short one first, where there is one
	bare  bool   // it takes no value
	take  func(c *curl, value string)
}

// sends is an option that adds a header field.
func sends(name string) func(c *curl, value string) {
	return func(c *curl, value string) { c.headers = append(c.headers, plan.Header{Name: name, Value: value}) }
}

// differs is an option that the experiment has no equivalent for.
func differs(why, hint string) func(c *curl, value string) {
	return func(c *curl, value string) { c.d.leave(c.line, c.name, why, hint) }
}

// curlOptions are the options that change what is sent. Others are about curl's output, or are listed.
func curlOptions() []curlOption {
	none := func(*curl, string) {}
	return []curlOption{
		{"X request", false, func(c *curl, v string) { c.method = v }},
		{"url", false, func(c *curl, v string) { c.urls = append(c.urls, v) }},
		{"H header", false, (*curl).header},
		{"d data data-ascii", false, func(c *curl, v string) { c.add(v, true, false) }},
		{"data-binary", false, func(c *curl, v string) { c.add(v, false, false) }},
		{"data-raw", false, func(c *curl, v string) { c.data = append(c.data, v) }},
		{"data-urlencode", false, func(c *curl, v string) { c.add(v, false, true) }},
		{"json", false, func(c *curl, v string) {
			c.add(v, false, false)
			c.json = true
		}},
		{"F form form-string", false, func(c *curl, v string) { c.form = append(c.form, v) }},
		{"G get", true, func(c *curl, _ string) { c.query = true }},
		{"I head", true, func(c *curl, _ string) { c.head = true }},
		{"T upload-file", false, func(c *curl, v string) {
			c.add("@"+v, false, false)
			c.method = cmp.Or(c.method, "PUT")
		}},
		{"A user-agent", false, sends("User-Agent")},
		{"e referer", false, sends("Referer")},
		{"r range", false, func(c *curl, v string) { sends("Range")(c, "bytes="+v) }},
		{"b cookie", false, func(c *curl, v string) {
			if strings.Contains(v, "=") {
				sends("Cookie")(c, v)
				return
			}
			c.d.scenario.Cookies = true
		}},
		{"c cookie-jar", false, func(c *curl, _ string) { c.d.scenario.Cookies = true }},
		{"u user", false, func(c *curl, v string) { c.headers = authorize(c.headers, v) }},
		{"oauth2-bearer", false, func(c *curl, v string) { sends("Authorization")(c, "Bearer "+v) }},
		{"compressed", true, func(c *curl, _ string) { sends("Accept-Encoding")(c, "deflate, gzip") }},
		{"k insecure", true, func(c *curl, _ string) { c.d.tls().Insecure = true }},
		{"cacert", false, func(c *curl, v string) { c.d.tls().CA = c.d.relative(c.line, v) }},
		{"E cert", false, func(c *curl, v string) { c.d.tls().Certificate = c.d.relative(c.line, v) }},
		{"key", false, func(c *curl, v string) { c.d.tls().Key = c.d.relative(c.line, v) }},
		{"x proxy", false, func(c *curl, v string) {
			if !strings.Contains(v, "://") {
				v = "http://" + v
			}
			c.d.target().Proxy = plan.Quote(v)
		}},
		{"m max-time", false, func(c *curl, v string) { c.duration(v, &c.d.load().Timeout) }},
		{"connect-timeout", false, func(c *curl, v string) { c.duration(v, &c.d.load().ConnectTimeout) }},
		{"connect-to", false, func(c *curl, v string) { c.connect = append(c.connect, v) }},
		{"resolve", false, func(c *curl, v string) { c.resolve = append(c.resolve, v) }},
		{"unix-socket", false, func(c *curl, v string) { c.d.target().Address = plan.Quote("unix:" + v) }},
		{"http2", true, none}, {"0 http1.0", true, differs("dyno has no HTTP/1.0", "")}, {"http1.1", true, func(c *curl, _ string) { c.d.load().HTTP2.Use = plan.HTTP2Never }},
		{"http2-prior-knowledge", true, func(c *curl, _ string) { c.d.load().HTTP2.Use = plan.HTTP2Always }},
		{"L location", true, differs("users of a scenario follow no redirects", "request the last address, or extract the field Location and request it by a step of its own")},
		{"retry", false, differs("a failed request is counted, and not sent again", "")},
		{"K config", false, differs("files of options are not read", "write the options out")},
		{"limit-rate", false, differs("dyno reads as fast as it can", "")},
		{"parallel", true, none}, {"Z", true, none}, {"f fail fail-with-body", true, none},
		{"s silent", true, none}, {"S show-error", true, none}, {"v verbose", true, none}, {"i include show-headers", true, none},
		{"# progress-bar", true, none}, {"N no-buffer", true, none}, {"g globoff", true, none}, {"q disable", true, none}, {"4 ipv4", true, none}, {"6 ipv6", true, none},
		{"o output", false, none}, {"O remote-name", true, none}, {"J remote-header-name", true, none}, {"w write-out", false, none}, {"D dump-header", false, none},
		{"stderr", false, none}, {"trace", false, none}, {"trace-ascii", false, none}, {"no-progress-meter", true, none}, {"tcp-nodelay", true, none}, {"path-as-is", true, none},
	}
}

func (c *curl) header(v string) {
	name, value, found := strings.Cut(v, ":")
	if name, isEmpty := strings.CutSuffix(strings.TrimSpace(v), ";"); isEmpty && !found {
		c.headers = append(c.headers, plan.Header{Name: name})
		return
	}
	switch {
	case strings.HasPrefix(v, "@"):
		c.d.leave(c.line, "-H "+v, "files of header fields are not read", "write them out")
	case !found || strings.TrimSpace(value) == "":
		return // curl takes a field of its own away, which dyno does not have
	default:
		c.headers = append(c.headers, plan.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
}

// add adds a part of the body: a text, or what a file holds, without line breaks if it is text.
func (c *curl) add(v string, isText, encode bool) {
	name, content := "", v
	if encode {
		at := strings.IndexAny(v, "=@")
		if at < 0 {
			c.data = append(c.data, url.QueryEscape(v))
			return
		}
		if name = v[:at]; name != "" {
			name += "="
		}
		if content = v[at:]; content[0] == '=' {
			c.data = append(c.data, name+url.QueryEscape(content[1:]))
			return
		}
	}
	file, isFile := strings.CutPrefix(content, "@")
	if isFile {
		read, err := c.d.read(file)
		if err != nil {
			c.lose("-d "+v, err.Error(), "run dyno import in the folder that the script runs in")
			return
		}
		content = read
		if isText {
			content = strings.NewReplacer("\r", "", "\n", "").Replace(content)
		}
	}
	if encode {
		content = url.QueryEscape(content)
	}
	c.data = append(c.data, name+content)
}

// lose says that the request cannot be sent.
func (c *curl) lose(what, why, hint string) {
	c.d.leave(c.line, what, why, hint)
	c.failed = true
}

func (c *curl) duration(v string, to *time.Duration) {
	seconds, err := strconv.ParseFloat(v, 64)
	if err != nil || seconds < 0.001 || seconds > 3600 {
		c.d.leave(c.line, c.name, "the time is not one from a millisecond to an hour", "load.timeout and load.connect_timeout have such times")
		return
	}
	*to = time.Duration(seconds * float64(time.Second))
}

// curlCommand carries over one command.
func (d *draft) curlCommand(line int, args []string) {
	c := &curl{request: request{line: line}, d: d}
	options := curlOptions()
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		long, isLong := strings.CutPrefix(arg, "--")
		switch {
		case long == "next" && isLong:
			d.curlRequests(c)
			c = &curl{request: request{line: line}, d: d}
		case isLong:
			args = c.option(options, arg, long, "", args)
		case len(arg) > 1 && arg[0] == '-':
			for letters := arg[1:]; letters != ""; {
				i := slices.IndexFunc(options, func(o curlOption) bool { return strings.HasPrefix(o.names, letters[:1]+" ") || o.names == letters[:1] })
				if i >= 0 && options[i].bare {
					c.option(options, "-"+letters[:1], letters[:1], "", nil)
					letters = letters[1:]
					continue
				}
				args = c.option(options, "-"+letters[:1], letters[:1], letters[1:], args)
				break
			}
		default:
			c.urls = append(c.urls, arg)
		}
	}
	d.curlRequests(c)
}

// option takes an option, whose value may be the next argument, and returns the arguments after it.
func (c *curl) option(options []curlOption, typed, name, value string, args []string) []string {
	i := slices.IndexFunc(options, func(o curlOption) bool { return slices.Contains(strings.Fields(o.names), name) })
	if i < 0 {
		c.d.leave(c.line, typed, "dyno does not know this option", cmp.Or(remark(name), "its value, if it has one, was taken for a URL"))
		return args
	}
	o := options[i]
	if !o.bare && value == "" {
		if len(args) == 0 {
			c.lose(typed, "its value is missing", "")
			return nil
		}
		value, args = args[0], args[1:]
	}
	c.name = strings.TrimSpace(typed + " " + value)
	o.take(c, value)
	return args
}

// remark is what the table of other tools' flags says of one of curl's that dyno has nothing for.
func remark(name string) string {
	for _, f := range foreign.Flags() {
		if slices.Contains(strings.Fields(f.Names), name) && slices.Contains(strings.Fields(f.Tools), "curl") {
			return f.Remark
		}
	}
	return ""
}

// curlRequests adds the requests of a command.
func (d *draft) curlRequests(c *curl) {
	if c.name = ""; c.failed {
		return
	}
	body := strings.Join(c.data, "&")
	if c.json {
		body = strings.Join(c.data, "")
	}
	kind := ""
	switch {
	case len(c.form) > 0:
		var err error
		body, kind, err = foreign.EncodeForm(c.form, fmt.Sprintf("dyno-%04d", c.line), d.read)
		if err != nil {
			d.leave(c.line, "-F "+strings.Join(c.form, " -F "), err.Error(), "run dyno import in the folder that the script runs in")
			return
		}
	case c.json:
		kind = "application/json"
		if !hasHeader(c.headers, "Accept") {
			c.headers = append(c.headers, plan.Header{Name: "Accept", Value: kind})
		}
	case body != "" && !c.query && c.method != "PUT":
		kind = "application/x-www-form-urlencoded"
	}
	if kind != "" && !hasHeader(c.headers, "Content-Type") {
		c.headers = append(c.headers, plan.Header{Name: "Content-Type", Value: kind})
	}
	switch {
	case c.head:
		c.method = cmp.Or(c.method, "HEAD")
	case c.method == "" && len(c.data)+len(c.form) > 0 && !c.query:
		c.method = "POST"
	}
	if len(c.urls) == 0 {
		d.leave(c.line, "curl", "the command has no URL", "")
	}
	for _, at := range c.urls {
		r := c.request
		if r.url, r.body = at, []byte(body); c.query && body != "" {
			separator := "?"
			if strings.Contains(at, "?") {
				separator = "&"
			}
			r.url, r.body = at+separator+body, nil
		}
		if without, user, has := plan.CutUser(at); has {
			r.url = without
			if !hasHeader(r.headers, "Authorization") {
				r.headers = append(slices.Clone(r.headers), foreign.UserInURL(user))
			}
		}
		d.add(r)
	}
	if t := d.target(); len(c.connect)+len(c.resolve) > 0 && d.base != "" {
		at := plan.Target{Protocol: plan.HTTP, URL: d.base}
		at.Complete()
		to, faults := foreign.DialAddress(at.Address, c.connect, c.resolve)
		for _, f := range faults {
			d.leave(c.line, "curl", f.Error(), "target.address says where connections go")
		}
		if len(faults) == 0 {
			t.Address = to
		}
	}
}
