package cli

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"dyno/internal/cli/fields"
	"dyno/lab/experiment"
)

// requestFlags are the flags of quick loads of HTTP that are not fields of the file: what is
// sent, and where connections go to.
type requestFlags struct {
	basicAuth string
	form      []string
	targets   string
	resolve   []string
	connectTo []string
}

func (r *requestFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&r.basicAuth, "basic-auth", "", "`user:password` of HTTP's basic authentication, or @FILE or '$VARIABLE' that holds them")
	f.StringArrayVar(&r.form, "form", nil, "a field of a form, sent as multipart/form-data: `name=value`, name=@FILE to send a file, name=<FILE to send its text; may be repeated")
	f.StringVar(&r.targets, "targets", "", "a `FILE` of requests that are sent in turn, or - for standard input: lines such as GET URL, each with header lines and @FILE for a body after it, or lines of JSON, both as vegeta has them")
	f.StringArrayVar(&r.resolve, "resolve", nil, "connect to an address in place of the URL's host and port, as `host:port:address`; may be repeated")
	f.StringArrayVar(&r.connectTo, "connect-to", nil, "connect to host2 and port2 in place of the URL's, as `host:port:host2:port2`, each of which may be empty; may be repeated")
}

// read returns what a file holds, or standard input.
func (q *quickLoad) read(name string) (string, error) {
	if name == "-" && q.stdin != nil {
		return q.stdin()
	}
	return fields.ReadFile(name)
}

// authorize adds the user and the password of --basic-auth to requests, or else those of the
// URL. Errors name none of them.
func (q *quickLoad) authorize(r *experiment.Request, inURL string, isInURL bool) error {
	given := hasHeader(r.Headers, "Authorization")
	switch {
	case q.given("basic-auth") && given:
		return errors.New("--basic-auth: --header has an Authorization, too; keep one of them")
	case q.given("basic-auth"):
		user, err := q.credentials(os.LookupEnv)
		if err != nil {
			return fmt.Errorf("--basic-auth: %w", err)
		}
		r.Headers = append(r.Headers, basicAuth(user))
	case isInURL && !given:
		r.Headers = append(r.Headers, userOf(inURL))
	}
	return nil
}

// basicAuth is the header field that carries user:password (RFC 7617).
func basicAuth(user string) experiment.Header {
	return experiment.Header{Name: "Authorization", Value: "Basic " + base64.StdEncoding.EncodeToString([]byte(user))}
}

// userOf is the header field for a user and a password as they stand in a URL.
func userOf(inURL string) experiment.Header {
	user, password, _ := strings.Cut(inURL, ":")
	plain := func(text string) string {
		if decoded, err := url.PathUnescape(text); err == nil {
			return decoded
		}
		return text
	}
	return basicAuth(plain(user) + ":" + plain(password))
}

var variable = regexp.MustCompile(`^\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})$`)

// credentials returns user:password as it was given, or from where it was said to be.
func (q *quickLoad) credentials(lookup func(string) (string, bool)) (user string, err error) {
	user = q.request.basicAuth
	if name, isFile := strings.CutPrefix(user, "@"); isFile {
		user, err = q.read(name)
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			err = fmt.Errorf("the file cannot be read: %w", failed.Err)
		}
		if err != nil {
			return "", err
		}
		user = strings.TrimRight(user, "\r\n")
	} else if name := variable.FindStringSubmatch(user); name != nil {
		found := false
		if user, found = lookup(name[1] + name[2]); !found {
			return "", errors.New("the environment has no such variable")
		}
	}
	if !strings.Contains(user, ":") {
		return "", errors.New("there is no colon; want user:password, @FILE or '$VARIABLE'")
	}
	return user, nil
}

// fillForm makes the request's body of the fields of a form.
func (q *quickLoad) fillForm(r *experiment.Request, seed uint64) (faults []error) {
	if !q.given("form") {
		return nil
	}
	if q.given("body") {
		faults = append(faults, errors.New("--form: --body says what is sent, too; keep one of them"))
	}
	if hasHeader(r.Headers, "Content-Type") {
		faults = append(faults, errors.New("--form: it sets Content-Type itself; leave it out of --header"))
	}
	read := q.read
	if len(q.data) > 0 { // braces in the fields are templates, and those in files are text
		read = func(name string) (string, error) {
			content, err := q.read(name)
			return experiment.Quote(content), err
		}
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a boundary is no secret
	body, kind, err := formBody(q.request.form, fmt.Sprintf("dyno-%016x%016x", random.Uint64(), random.Uint64()), read)
	if err != nil {
		return append(faults, fmt.Errorf("--form: %w", err))
	}
	r.Body, r.Headers = body, append(r.Headers, experiment.Header{Name: "Content-Type", Value: kind})
	if !q.given("method") {
		r.Method = "POST"
	}
	return faults
}

// formOption is what follows a field's value, as in curl.
var formOption = regexp.MustCompile(`;(type|filename)=`)

// formBody encodes the fields of a form, which are written as curl has them, and returns its
// content type.
func formBody(fields []string, boundary string, read func(string) (string, error)) (body, kind string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		return "", "", err
	}
	for _, field := range fields {
		if err := addField(w, field, read); err != nil {
			return "", "", err
		}
	}
	err = w.Close()
	return b.String(), w.FormDataContentType(), err
}

func addField(w *multipart.Writer, field string, read func(string) (string, error)) (err error) {
	name, value, found := strings.Cut(field, "=")
	if !found || name == "" {
		return errors.New("a field without a name or =; want name=value or name=@FILE")
	}
	value, options := cutOptions(value)
	file, isFile := strings.CutPrefix(value, "@")
	text, isText := strings.CutPrefix(value, "<")
	filename, isNamed := options["filename"]
	switch {
	case isFile && file == "" || isText && text == "":
		return fmt.Errorf("%s: no file is named; want %s=@FILE", name, name)
	case isFile:
		if value, err = read(file); !isNamed {
			filename = filepath.Base(file)
		}
	case isText:
		value, err = read(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h := textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition(name, filename)}}
	if !isFile && !isNamed {
		h["Content-Disposition"][0] = strings.TrimSuffix(h["Content-Disposition"][0], `; filename=""`)
	}
	kind := options["type"]
	if isFile {
		kind = cmp.Or(kind, mime.TypeByExtension(filepath.Ext(filename)), "application/octet-stream")
	}
	if strings.ContainsAny(kind, "\r\n") {
		return fmt.Errorf("%s: the type holds a line break; remove it", name)
	}
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	part, err := w.CreatePart(h)
	if err == nil {
		_, err = io.WriteString(part, value)
	}
	return err
}

// cutOptions takes ;type= and ;filename= off a field's value.
func cutOptions(value string) (string, map[string]string) {
	options := map[string]string{}
	all := formOption.FindAllStringSubmatchIndex(value, -1)
	for i := len(all) - 1; i >= 0; i-- {
		options[value[all[i][2]:all[i][3]]] = value[all[i][1]:]
		value = value[:all[i][0]]
	}
	return value, options
}

// connect directs connections to where --connect-to and --resolve say.
func (q *quickLoad) connect(t *experiment.Target) (faults []error) {
	r := &q.request
	if len(r.connectTo)+len(r.resolve) == 0 {
		return nil
	}
	if q.unix != "" {
		return []error{errors.New("--unix: --connect-to and --resolve say where connections go, too; keep one of them")}
	}
	t.Address, faults = r.address(t.Address)
	return faults
}

// address returns where connections for an address go.
func (r *requestFlags) address(address string) (to string, faults []error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address, nil // the plan's validation says what is wrong with it
	}
	fault := func(flag, format string, args ...any) {
		faults = append(faults, fmt.Errorf("--"+flag+": "+format, args...))
	}
	applies := func(ofHost, ofPort string) bool {
		return (ofHost == "" || strings.EqualFold(ofHost, host)) && (ofPort == "" || ofPort == port)
	}
	toHost, toPort, found := host, port, len(r.connectTo) == 0
	for _, text := range r.connectTo {
		c, ok := cutConnection(text)
		switch {
		case !ok:
			fault("connect-to", "%q cannot be read; want host:port:host2:port2, such as example.com:443:127.0.0.1:8443", text)
			found = true
		case !found && applies(c[0], c[1]):
			toHost, toPort, found = cmp.Or(experiment.Quote(c[2]), host), cmp.Or(c[3], port), true
		}
	}
	if !found {
		fault("connect-to", "none is for %s, where the URL goes; such as %s:127.0.0.1:8080", address, address)
	}
	host, port = toHost, toPort
	found = len(r.resolve) == 0
	for _, text := range r.resolve {
		ofHost, rest, _ := cutHost(strings.TrimPrefix(text, "+"))
		ofPort, ip, _ := strings.Cut(rest, ":")
		ip = strings.TrimSuffix(strings.TrimPrefix(ip, "["), "]")
		switch _, err := netip.ParseAddr(ip); {
		case strings.Contains(ip, ","):
			fault("resolve", "%q has several addresses; want one, as all connections go to the same", text)
			found = true
		case err != nil || ofHost == "" || !isPort(ofPort):
			fault("resolve", "%q cannot be read; want host:port:address, such as example.com:443:127.0.0.1; names instead of addresses are for --connect-to", text)
			found = true
		case !found && (applies(ofHost, ofPort) || ofHost == "*" && applies("", ofPort)):
			toHost, found = ip, true
		}
	}
	if !found {
		at := net.JoinHostPort(host, port)
		fault("resolve", "none is for %s, where connections go; such as %s:127.0.0.1", at, at)
	}
	return net.JoinHostPort(toHost, toPort), faults
}

// cutHost cuts a host, which has brackets around it if colons are in it, off what follows its
// colon.
func cutHost(text string) (host, rest string, ok bool) {
	if inner, isIPv6 := strings.CutPrefix(text, "["); isIPv6 {
		return strings.Cut(inner, "]:")
	}
	return strings.Cut(text, ":")
}

// cutConnection takes host:port:host2:port2 apart.
func cutConnection(text string) (parts [4]string, ok bool) {
	rest := text
	for _, at := range []int{0, 2} {
		if parts[at], rest, ok = cutHost(rest); !ok {
			return parts, false
		}
		if at == 0 {
			if parts[1], rest, ok = strings.Cut(rest, ":"); !ok {
				return parts, false
			}
		}
	}
	parts[3] = rest
	return parts, (parts[1] == "" || isPort(parts[1])) && (parts[3] == "" || isPort(parts[3]))
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
