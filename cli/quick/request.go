package quick

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"dyno/cli/foreign"
	"dyno/cli/planflags"
	"dyno/lab/plan"
	"dyno/load/scenario"
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
func (q *Load) read(name string) (string, error) {
	if name == "-" && q.stdin != nil {
		return q.stdin()
	}
	return planflags.ReadFile(name)
}

// authorize adds the user and the password of --basic-auth to requests, or else those of the
// URL. Errors name none of them.
func (q *Load) authorize(r *plan.Request, inURL string, isInURL bool) error {
	given := hasHeader(r.Headers, "Authorization")
	switch {
	case q.Given("basic-auth") && given:
		return errors.New("--basic-auth: --header has an Authorization, too; keep one of them")
	case q.Given("basic-auth"):
		user, err := q.credentials(os.LookupEnv)
		if err != nil {
			return fmt.Errorf("--basic-auth: %w", err)
		}
		r.Headers = append(r.Headers, scenario.Header{Name: "Authorization", Value: foreign.BasicAuth(user)})
	case isInURL && !given:
		r.Headers = append(r.Headers, scenario.Header{Name: "Authorization", Value: foreign.UserInURL(inURL)})
	}
	return nil
}

var variable = regexp.MustCompile(`^\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})$`)

// credentials returns user:password as it was given, or from where it was said to be.
func (q *Load) credentials(lookup func(string) (string, bool)) (user string, err error) {
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
func (q *Load) fillForm(r *plan.Request, seed uint64) (faults []error) {
	if !q.Given("form") {
		return nil
	}
	if q.Given("body") {
		faults = append(faults, errors.New("--form: --body says what is sent, too; keep one of them"))
	}
	if hasHeader(r.Headers, "Content-Type") {
		faults = append(faults, errors.New("--form: it sets Content-Type itself; leave it out of --header"))
	}
	read := q.read
	if len(q.data) > 0 { // braces in the fields are templates, and those in files are text
		read = func(name string) (string, error) {
			content, err := q.read(name)
			return plan.Quote(content), err
		}
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a boundary is no secret
	var fields []foreign.FormField
	for _, text := range q.request.form {
		fields = append(fields, foreign.FormField{Text: text})
	}
	body, kind, unknown, err := foreign.EncodeForm(fields, fmt.Sprintf("dyno-%016x%016x", random.Uint64(), random.Uint64()), read)
	if err != nil {
		return append(faults, fmt.Errorf("--form: %w", err))
	}
	for _, text := range unknown {
		faults = append(faults, fmt.Errorf("--form: %q is unknown after a value; want ;type= or ;filename=, or the value in double quotes", text))
	}
	r.Body, r.Headers = body, append(r.Headers, scenario.Header{Name: "Content-Type", Value: kind})
	if !q.Given("method") {
		r.Method = "POST"
	}
	return faults
}

// connect directs connections to where --connect-to and --resolve say.
func (q *Load) connect(t *plan.Target) (faults []error) {
	r := &q.request
	if len(r.connectTo)+len(r.resolve) == 0 {
		return nil
	}
	if q.unix != "" {
		return []error{errors.New("--unix: --connect-to and --resolve say where connections go, too; keep one of them")}
	}
	t.Address, faults = foreign.DialAddress(t.Address, r.connectTo, r.resolve)
	return faults
}

// list reads the requests of --targets, and returns the URL of their host.
func (q *Load) list(url string) ([]foreign.Target, string, error) {
	name := q.request.targets
	src, err := q.read(name)
	if name == "-" {
		name = "standard input"
	}
	var requests []foreign.Target
	if err == nil {
		requests, url, err = foreign.ReadTargets(name, src, url, q.read)
	}
	if err != nil {
		return nil, url, fmt.Errorf("--targets: %w", err)
	}
	return requests, url, nil
}

// playList makes users send requests in turn.
func (q *Load) playList(l *plan.Load, requests []foreign.Target) (faults []error) {
	for _, flag := range []string{"method", "body", "form", "scenario", "data-file"} {
		if q.Given(flag) {
			faults = append(faults, fmt.Errorf("--%s: the requests of --targets say what is sent; leave it out", flag))
		}
	}
	s := &scenario.Spec{InTurn: true, Headers: quoted(l.Request.Headers)}
	for i, r := range requests {
		step := scenario.Step{Name: r.Name(i + 1)}
		step.Method, step.Path, step.Headers, step.Body = r.Method, plan.Quote(r.Path), quoted(r.Headers), plan.Quote(r.Body)
		s.Steps = append(s.Steps, step)
	}
	l.Request, l.Scenario = plan.DefaultVariant(plan.HTTP).Load.Request, s
	return append(faults, q.complete(s, nil)...)
}

// quoted returns header fields in whose values braces are text.
func quoted(headers []scenario.Header) (out []scenario.Header) {
	for _, h := range headers {
		out = append(out, scenario.Header{Name: h.Name, Value: plan.Quote(h.Value)})
	}
	return out
}
