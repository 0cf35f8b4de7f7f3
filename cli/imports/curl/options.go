package curl

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/cli/foreign"
	"dyno/cli/imports/draft"
	"dyno/lab/plan"
)

// A command is a command that is being read.
type command struct {
	draft.Request
	d       *draft.Draft
	input   *string // what its standard input has; nil: that is not known
	urls    []string
	data    string // the body
	hasData bool
	form    []foreign.FormField
	inQuery []string // what is added to the query
	cookies []string
	upload  string   // the file that is the body
	without []string // header fields of curl's own that are not sent, in small letters
	user    string
	query   bool // data stands in the query
	head    bool
	json    bool
	globs   bool // brackets and braces in URLs stand for several
	asIs    bool // dots in paths stay
	connect []string
	resolve []string
	configs int // files of options that were read
	failed  bool
}

func newCommand(d *draft.Draft, line int, input *string) *command {
	return &command{Request: draft.Request{Line: line, Exact: true}, d: d, input: input, globs: true}
}

// An option is an option of curl.
type option struct {
	names string // without dashes; the short one first, where there is one
	bare  bool   // it takes no value
	take  func(c *command, value string)
}

// sends is an option that adds a header field.
func sends(name string) func(c *command, value string) {
	return func(c *command, value string) { c.AddHeader(name, value) }
}

// differs is an option that the experiment has no equivalent for.
func differs(why, hint string) func(c *command, value string) {
	return func(c *command, value string) { c.d.Leave(c.Line, c.Name, why, hint) }
}

// options are the options that change what is sent. Others are about curl's output, or are listed.
func options() []option {
	none := func(*command, string) {}
	return []option{
		{"X request", false, func(c *command, v string) { c.Method = v }},
		{"url", false, func(c *command, v string) { c.urls = append(c.urls, v) }},
		{"H header", false, (*command).header},
		{"d data data-ascii", false, func(c *command, v string) { c.add(c.fromFile("-d", v, true), "&") }},
		{"data-binary", false, func(c *command, v string) { c.add(c.fromFile("--data-binary", v, false), "&") }},
		{"data-raw", false, func(c *command, v string) { c.add(v, "&") }},
		{"data-urlencode", false, func(c *command, v string) { c.add(c.encode(v), "&") }},
		{"url-query", false, func(c *command, v string) {
			if raw, is := strings.CutPrefix(v, "+"); is {
				c.inQuery = append(c.inQuery, raw)
				return
			}
			c.inQuery = append(c.inQuery, c.encode(v))
		}},
		{"json", false, func(c *command, v string) {
			c.add(c.fromFile("--json", v, false), "")
			c.json = true
		}},
		{"F form", false, func(c *command, v string) { c.form = append(c.form, foreign.FormField{Text: v}) }},
		{"form-string", false, func(c *command, v string) { c.form = append(c.form, foreign.FormField{Text: v, Literal: true}) }},
		{"G get", true, func(c *command, _ string) { c.query = true }},
		{"I head", true, func(c *command, _ string) { c.head = true }},
		{"T upload-file", false, func(c *command, v string) { c.upload = v }},
		{"A user-agent", false, sends("User-Agent")},
		{"e referer", false, func(c *command, v string) {
			if v = strings.TrimSuffix(v, ";auto"); v != "" {
				sends("Referer")(c, v)
			}
		}},
		{"r range", false, func(c *command, v string) { sends("Range")(c, "bytes="+v) }},
		{"b cookie", false, func(c *command, v string) {
			if strings.Contains(v, "=") {
				c.cookies = append(c.cookies, v)
				return
			}
			if c.d.Scenario.Cookies = true; v != "" {
				c.d.Leave(c.Line, c.Name, "cookies of a file are not sent; a user keeps those that the server sets", "give the step a header field Cookie")
			}
		}},
		{"c cookie-jar", false, func(c *command, _ string) { c.d.Scenario.Cookies = true }},
		{"u user", false, func(c *command, v string) { c.user = v }}, {"basic", true, none},
		{"oauth2-bearer", false, func(c *command, v string) { sends("Authorization")(c, "Bearer "+v) }},
		{"compressed", true, func(c *command, _ string) { sends("Accept-Encoding")(c, "deflate, gzip") }},
		{"k insecure", true, func(c *command, _ string) { c.d.TLS().Insecure = true }},
		{"cacert", false, func(c *command, v string) { c.d.TLS().CA = c.d.Relative(c.Line, v) }},
		{"E cert", false, func(c *command, v string) { c.d.TLS().Certificate = c.d.Relative(c.Line, v) }},
		{"key", false, func(c *command, v string) { c.d.TLS().Key = c.d.Relative(c.Line, v) }},
		{"x proxy", false, func(c *command, v string) {
			if !strings.Contains(v, "://") {
				v = "http://" + v
			}
			c.d.Target().Proxy = plan.Quote(v)
		}},
		{"m max-time", false, func(c *command, v string) { c.duration(v, &c.d.Load().Timeout) }},
		{"connect-timeout", false, func(c *command, v string) { c.duration(v, &c.d.Load().ConnectTimeout) }},
		{"connect-to", false, func(c *command, v string) { c.connect = append(c.connect, v) }},
		{"resolve", false, func(c *command, v string) { c.resolve = append(c.resolve, v) }},
		{"unix-socket", false, func(c *command, v string) { c.d.Target().Address = plan.Quote("unix:" + v) }},
		{"http2", true, none}, {"0 http1.0", true, differs("dyno has no HTTP/1.0", "")}, {"http1.1", true, func(c *command, _ string) { c.d.Load().HTTP2.Use = plan.HTTP2Never }},
		{"http2-prior-knowledge", true, func(c *command, _ string) { c.d.Load().HTTP2.Use = plan.HTTP2Always }},
		{"L location", true, differs("users of a scenario follow no redirects", "request the last address, or extract the field Location and request it by a step of its own")},
		{"retry", false, differs("a failed request is counted, and not sent again", "")},
		{"K config", false, (*command).config},
		{"request-target", false, differs("the target comes from the URL", "give the step the path")},
		{"limit-rate", false, differs("dyno reads as fast as it can", "")},
		{"parallel", true, none}, {"Z", true, none}, {"f fail fail-with-body", true, none},
		{"s silent", true, none}, {"S show-error", true, none}, {"v verbose", true, none}, {"i include show-headers", true, none},
		{"# progress-bar", true, none}, {"N no-buffer", true, none}, {"g globoff", true, func(c *command, _ string) { c.globs = false }}, {"q disable", true, none}, {"4 ipv4", true, none}, {"6 ipv6", true, none},
		{"o output", false, none}, {"O remote-name", true, none}, {"J remote-header-name", true, none}, {"w write-out", false, none}, {"D dump-header", false, none},
		{"stderr", false, none}, {"trace", false, none}, {"trace-ascii", false, none}, {"no-progress-meter", true, none}, {"tcp-nodelay", true, none}, {"path-as-is", true, func(c *command, _ string) { c.asIs = true }}, {"fail-early", true, none}, {"create-dirs", true, none}, {"no-clobber", true, none}, {"no-keepalive", true, none},
	}
}

func (c *command) header(v string) {
	if file, is := strings.CutPrefix(v, "@"); is {
		text, err := c.read(file)
		if err != nil {
			c.d.Leave(c.Line, "-H "+v, err.Error(), "")
			return
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				c.header(line)
			}
		}
		return
	}
	name, value, found := strings.Cut(v, ":")
	if name, isEmpty := strings.CutSuffix(strings.TrimSpace(v), ";"); isEmpty && !found {
		c.AddHeader(name, "")
		return
	}
	switch name = strings.TrimSpace(name); {
	case !found:
		return // curl sends no such field, either
	case strings.TrimSpace(value) == "":
		c.without = append(c.without, strings.ToLower(name))
	default:
		c.AddHeader(name, strings.TrimSpace(value))
	}
}

// add adds a part of the body.
func (c *command) add(content, separator string) {
	if c.hasData {
		c.data += separator
	}
	c.data, c.hasData = c.data+content, true
}

// fromFile returns a text, or the content of the file that it names: without line breaks if it is text.
func (c *command) fromFile(option, v string, isText bool) string {
	file, isFile := strings.CutPrefix(v, "@")
	if !isFile {
		return v
	}
	content, err := c.read(file)
	if err != nil {
		c.lose(option+" "+v, err.Error(), "run dyno import in the folder that the script runs in")
	}
	if isText {
		content = strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(content)
	}
	return content
}

// encode returns a text of --data-urlencode: content, =content, name=content, @file or name@file.
func (c *command) encode(v string) string {
	at := strings.IndexAny(v, "=@")
	if at < 0 {
		return url.QueryEscape(v)
	}
	name, content := v[:at], v[at+1:]
	if v[at] == '@' {
		content = c.fromFile("--data-urlencode", v[at:], false)
	}
	if name != "" {
		name += "="
	}
	return name + url.QueryEscape(content)
}

// read returns what a file holds, or the standard input.
func (c *command) read(name string) (string, error) {
	switch {
	case name == "-" && c.input != nil:
		return *c.input, nil
	case name == "-" || name == ".":
		return "", errors.New("what the standard input has is not known")
	}
	return c.d.ReadFile(name)
}

// maxConfigs bounds how many files of options a command reads: one may name itself.
const maxConfigs = 16

// config reads a file of options.
func (c *command) config(file string) {
	if c.configs++; c.configs > maxConfigs {
		c.lose("-K "+file, "there are too many files of options", "")
		return
	}
	text, err := c.read(file)
	if err != nil {
		c.lose("-K "+file, err.Error(), "")
		return
	}
	var args []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		option, value := line, ""
		if at := strings.IndexAny(line, " \t=:"); at >= 0 && !strings.HasPrefix(line, "-") || at > 0 {
			option, value = line[:at], strings.TrimLeft(strings.TrimLeft(strings.TrimLeft(line[at:], " \t"), "=:"), " \t")
		}
		if strings.HasPrefix(value, `"`) {
			value = unquoteConfig(value)
		} else if at := strings.IndexAny(value, " \t"); at >= 0 {
			value = value[:at]
		}
		if !strings.HasPrefix(option, "-") {
			option = "--" + option
		}
		if args = append(args, option); value != "" {
			args = append(args, value)
		}
	}
	c.arguments(args)
}

// unquoteConfig returns a value of a file of options that is in quotes.
func unquoteConfig(value string) string {
	var b strings.Builder
	for i := 1; i < len(value) && value[i] != '"'; i++ {
		if value[i] == '\\' && i+1 < len(value) {
			i++
			switch value[i] {
			case 't':
				b.WriteByte('\t')
				continue
			case 'n':
				b.WriteByte('\n')
				continue
			case 'r':
				b.WriteByte('\r')
				continue
			case 'v':
				b.WriteByte('\v')
				continue
			}
		}
		b.WriteByte(value[i])
	}
	return b.String()
}

// lose says that the request cannot be sent.
func (c *command) lose(what, why, hint string) {
	c.d.Leave(c.Line, what, why, hint)
	c.failed = true
}

func (c *command) duration(v string, to *time.Duration) {
	seconds, err := strconv.ParseFloat(v, 64)
	if err != nil || seconds < 0.001 || seconds > 3600 {
		c.d.Leave(c.Line, c.Name, "the time is not one from a millisecond to an hour", "load.timeout and load.connect_timeout have such times")
		return
	}
	*to = time.Duration(seconds * float64(time.Second))
}

// addCommand carries over one command.
func addCommand(d *draft.Draft, line int, args []string, input *string) {
	c := newCommand(d, line, input)
	c.arguments(args)
	addRequests(d, c)
}

// arguments takes the arguments of a command.
func (c *command) arguments(args []string) {
	options := options()
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		long, isLong := strings.CutPrefix(arg, "--")
		switch {
		case long == "next" && isLong, arg == "-:":
			addRequests(c.d, c)
			*c = *newCommand(c.d, c.Line, c.input)
		case isLong:
			args = c.option(options, arg, long, "", args)
		case len(arg) > 1 && arg[0] == '-':
			for letters := arg[1:]; letters != ""; {
				i := slices.IndexFunc(options, func(o option) bool { return strings.HasPrefix(o.names, letters[:1]+" ") || o.names == letters[:1] })
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
}

// option takes an option, whose value may be the next argument, and returns the arguments after it.
func (c *command) option(options []option, typed, name, value string, args []string) []string {
	i := slices.IndexFunc(options, func(o option) bool { return slices.Contains(strings.Fields(o.names), name) })
	if positive, is := strings.CutPrefix(name, "no-"); i < 0 && is && slices.ContainsFunc(options, func(o option) bool { return o.bare && slices.Contains(strings.Fields(o.names), positive) }) {
		return args // it is so anyway
	}
	if i < 0 {
		c.d.Leave(c.Line, typed, "dyno does not know this option", cmp.Or(remark(name), "its value, if it has one, was taken for a URL"))
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
	c.Name = strings.TrimSpace(typed + " " + value)
	o.take(c, value)
	return args
}

// remark returns the remark on a flag that dyno does not have, from the table of other tools' flags.
func remark(name string) string {
	for _, f := range foreign.Flags() {
		if slices.Contains(strings.Fields(f.Names), name) && slices.Contains(strings.Fields(f.Tools), "curl") {
			return f.Remark
		}
	}
	return ""
}
