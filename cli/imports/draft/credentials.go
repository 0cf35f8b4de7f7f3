package draft

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/results/mask"
)

// Credentials of a file are not in the experiment, which is passed on. Each becomes a variable, whose value is in a file
// that other users cannot read. Without --out no file is written: the value comes from the environment.

// A secret is a variable whose value is a credential.
type secret struct{ name, value string }

// secret returns the name of a variable for a credential.
func (d *Draft) secret(line int, name, value string) string {
	for _, s := range d.secrets {
		if s.value == value {
			return s.name
		}
	}
	variable := strings.ToLower(VariableName(strings.TrimSpace(name)))
	if d.Source.Out == "" {
		variable = strings.ToUpper(variable)
	}
	if len(d.Scenario.Data) > 0 { // whose columns are variables, too
		variable = "secret_" + variable
	}
	unique := d.newName(variable)
	d.addSecret(line, name, secret{unique, value})
	return unique
}

// newName makes a name of a variable that another one may have.
func (d *Draft) newName(name string) string {
	unique := name
	for n := 2; d.isTaken(unique); n++ {
		unique = fmt.Sprintf("%.60s_%d", name, n)
	}
	d.Extracted[unique] = true
	return unique
}

// isTaken tells whether something has the name of a variable.
func (d *Draft) isTaken(name string) bool {
	_, is := d.variables[name]
	_, given := d.Scenario.Variables[name]
	return is || given || slices.Contains(d.Marks, name) || d.Extracted[name] || slices.Contains(d.Scenario.Env, name) ||
		slices.ContainsFunc(d.secrets, func(s secret) bool { return s.name == name })
}

// addSecret adds a credential, and lists it.
func (d *Draft) addSecret(line int, what string, s secret) {
	d.secrets = append(d.secrets, s)
	if d.Source.Out == "" {
		d.Leave(line, what, "this is a credential, whose value is not in the experiment", fmt.Sprintf("dyno run takes it from the environment: export %s=VALUE", s.name))
		return
	}
	d.Leave(line, what, fmt.Sprintf("this is a credential, whose value is in %s, as the variable %s", d.fileName(secretsFile), s.name), "")
}

// secretsFile is the ending of the name of the file with credentials.
const secretsFile = "secrets.yaml"

// hideProxy takes a user and a password out of the address of a proxy, in which no variable may stand.
func (d *Draft) hideProxy() {
	t := d.Target()
	if without, _, has := plan.CutUser(t.Proxy); has {
		t.Proxy = without
		d.Leave(0, "target.proxy", "its user and password are credentials, which the experiment does not have", "dyno run --proxy gives the proxy with them")
	}
}

// hideCredentials puts variables in the place of credentials, everywhere in a request.
func (d *Draft) hideCredentials() {
	d.hideProxy()
	line := 0
	hide := func(name string, text *string) {
		*text = mask.Find(name, *text, func(of, value string) string {
			if of == "" {
				of = name
			}
			if !utf8.ValidString(value) {
				return value
			}
			return "{{ " + d.secret(line, of, plan.Unquote(value)) + " }}"
		})
		for _, s := range d.given {
			*text = replaceOutside(*text, plan.Quote(s.value), func() string { return "{{ " + d.secret(line, s.name, s.value) + " }}" })
		}
	}
	fields := func(all []scenario.Header) {
		for i := range all {
			h := &all[i]
			if mask.IsCredential(h.Name) {
				d.hideUsed(line, h.Value)
			}
			if strings.EqualFold(h.Name, "Cookie") && h.Value != "" && !strings.Contains(h.Value, "{{") {
				h.Value = "{{ " + d.secret(line, h.Name, h.Value) + " }}" // one for all of its cookies
				continue
			}
			hide(h.Name, &h.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Scenario.Variables)) {
		if value := d.Scenario.Variables[name]; mask.IsCredential(name) && value != "" && value != name {
			d.moveVariable(0, name)
		}
	}
	fields(d.Scenario.Headers)
	fields(d.Scenario.Metadata)
	d.Scenario.EachStep(func(_ string, st *scenario.Step) {
		line = d.lines[st.Name]
		fields(st.Headers)
		fields(st.Metadata)
		hide("", &st.Path)
		hide("", &st.Body)
		hide("", &st.Message)
		hideInForm(&st.Body, hide)
		for i := range d.files {
			if f := &d.files[i]; st.BodyFile != "" && f.Name == filepath.Base(st.BodyFile) && utf8.Valid(f.Content) {
				text := string(f.Content)
				hide("", &text)
				hideInForm(&text, hide)
				f.Content = []byte(text)
			}
		}
		for i := range st.Assert {
			if a := &st.Assert[i]; a.Equals != nil {
				hide(a.Header, a.Equals)
			}
		}
	})
}

// minGiven is how many bytes a credential of the environment has at least. A shorter one may stand in a text by chance.
const minGiven = 6

// HideEnvironment hides the credentials of an environment, which a script puts anywhere. Where one begins with another,
// the longer one comes first.
func (d *Draft) HideEnvironment(environment []string) {
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		if mask.IsCredential(name) && len(value) >= minGiven && utf8.ValidString(value) {
			d.given = append(d.given, secret{name, value})
		}
	}
	slices.SortStableFunc(d.given, func(a, b secret) int { return len(b.value) - len(a.value) })
}

// replaceOutside replaces what stands outside of templates.
func replaceOutside(text, old string, by func() string) string {
	if !strings.Contains(text, old) {
		return text
	}
	var b strings.Builder
	plain := func(part string) {
		if strings.Contains(part, old) {
			part = strings.ReplaceAll(part, old, by())
		}
		b.WriteString(part)
	}
	done := 0
	for _, at := range templateName().FindAllStringIndex(text, -1) {
		plain(text[done:at[0]])
		b.WriteString(text[at[0]:at[1]])
		done = at[1]
	}
	plain(text[done:])
	return b.String()
}

// formPart is a part of a form (multipart/form-data) that is text.
var formPart = lazyregexp.New(`(?s)(; name="([^"\r\n]*)"\r\n(?:[^\r\n]+\r\n)*\r\n)(.*?)(\r\n--)`)

// hideInForm hides credentials in parts of a form.
func hideInForm(body *string, hide func(name string, text *string)) {
	if !strings.HasPrefix(*body, "--") {
		return
	}
	*body = formPart().ReplaceAllStringFunc(*body, func(part string) string {
		of := formPart().FindStringSubmatch(part)
		if !mask.IsCredential(of[2]) {
			return part
		}
		hide(of[2], &of[3])
		return of[1] + of[3] + of[4]
	})
}

// templateName finds templates. Braces may stand in their strings.
var templateName = lazyregexp.New(`\{\{(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{}"'])*\}\}`)

// hideUsed moves the values of variables that a credential is made of.
func (d *Draft) hideUsed(line int, text string) {
	for _, expression := range templateName().FindAllString(text, -1) {
		for _, name := range notInWord().Split(expression, -1) {
			if value := d.Scenario.Variables[name]; value != "" && value != name {
				d.moveVariable(line, name)
			}
		}
	}
}

// moveVariable makes a variable one whose value is a credential.
func (d *Draft) moveVariable(line int, name string) {
	if v, is := d.variables[name]; is && line == 0 {
		line = v.line
	}
	d.addSecret(line, name, secret{name, d.Scenario.Variables[name]})
	delete(d.Scenario.Variables, name)
}

// keepSecrets says where the values of credentials are, once it is known which there are.
func (d *Draft) keepSecrets() {
	if len(d.secrets) == 0 {
		return
	}
	if d.Source.Out == "" {
		for _, s := range d.secrets {
			d.Scenario.Env = append(d.Scenario.Env, s.name)
		}
		return
	}
	var text strings.Builder
	for _, s := range d.secrets {
		value, err := json.Marshal(s.value) // which is YAML, too
		if err == nil {
			fmt.Fprintf(&text, "%s: %s\n", s.name, value)
		}
	}
	d.Scenario.Secrets = d.AddFile(0, secretsFile, []byte(text.String()))
	d.files[len(d.files)-1].Private = true
}
