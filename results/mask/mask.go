// Package mask finds the credentials in what users write, such as experiment files and
// command lines, and masks them. A run folder is passed on, so it holds none.
//
// The names of credentials stay, and so does what only refers to one: $NAME, @FILE and
// {{ name }}.
package mask

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Sign stands for a credential.
const Sign = "***"

// Bounds of the search, as others may have made the text.
const (
	maxElsewhere = 1000    // credentials that are masked where they stand without their names
	maxBefore    = 4 << 10 // bytes of a line that are searched before a name
)

// leastElsewhere is the length in bytes from which a credential is masked where it stands without its
// name. Shorter ones occur in unrelated words.
const leastElsewhere = 6

// Credentials masks credentials, and notes those that it has masked. The zero value has none.
type Credentials struct {
	values  []string
	replace func(name, value string) string // nil: by Sign
}

// Text masks the credentials in a text that a user wrote. The name is that of the setting, and
// empty for a command.
func Text(name, text string) string { return new(Credentials).Named(name, text) }

// Find replaces the credentials in a text that is the value of a name. replace returns what to put in place of a
// credential. It gets the credential's name, which may be empty, and its value as it stands in the text.
func Find(name, text string, replace func(name, value string) string) string {
	return (&Credentials{replace: replace}).Named(name, text)
}

// IsCredential tells whether a header, member, parameter or variable of this name holds a credential.
func IsCredential(name string) bool { return isCredential(name) }

// Replacer masks the credentials noted until now wherever they stand. It is nil if there are none.
func (s *Credentials) Replacer() *strings.Replacer {
	if len(s.values) == 0 {
		return nil
	}
	// Where one begins with another, the longer one is replaced.
	longest := slices.SortedStableFunc(slices.Values(s.values), func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, value := range longest {
		pairs = append(pairs, value, Sign)
	}
	return strings.NewReplacer(pairs...)
}

// Named masks a text that is the value of a name, or the credentials in it.
func (s *Credentials) Named(name, text string) string {
	if isCredential(name) {
		return s.value(name, text)
	}
	return s.inText(text)
}

// Copy returns a deep copy in which every text, keys included, is replaced.
func Copy[T any](of T, replace func(string) string) T {
	return copied(reflect.ValueOf(of), replace).Interface().(T)
}

func copied(of reflect.Value, replace func(string) string) reflect.Value {
	out := reflect.New(of.Type()).Elem()
	out.Set(of)
	switch of.Kind() {
	case reflect.String:
		out.SetString(replace(of.String()))
	case reflect.Pointer:
		if !of.IsNil() {
			out.Set(reflect.New(of.Type().Elem()))
			out.Elem().Set(copied(of.Elem(), replace))
		}
	case reflect.Struct:
		for i := range of.NumField() {
			if field := out.Field(i); field.CanSet() {
				field.Set(copied(of.Field(i), replace))
			}
		}
	case reflect.Slice:
		if !of.IsNil() {
			out.Set(reflect.MakeSlice(of.Type(), of.Len(), of.Len()))
		}
		for i := range of.Len() {
			out.Index(i).Set(copied(of.Index(i), replace))
		}
	case reflect.Array:
		for i := range of.Len() {
			out.Index(i).Set(copied(of.Index(i), replace))
		}
	case reflect.Map:
		if !of.IsNil() {
			out.Set(reflect.MakeMap(of.Type()))
		}
		for _, key := range of.MapKeys() {
			out.SetMapIndex(copied(key, replace), copied(of.MapIndex(key), replace))
		}
	}
	return out
}

var (
	headerArgument = regexp.MustCompile("^(?:-H ?|--header=)?([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*)$")
	flagArgument   = regexp.MustCompile(`^--?[A-Za-z][\w-]*$`)
	flagAndValue   = regexp.MustCompile(`(?s)^(--([A-Za-z][\w-]*)=)(.*)$`)
	// bareUserinfo is that of an address without a scheme.
	bareUserinfo = regexp.MustCompile(`^([^\s/?#@:"'<>\\=]*:)([^\s/?#"'<>\\]+)(@[\w.\[\]:-]+(?:[/?#].*)?)$`)
)

// Arguments returns the arguments of a command without the credentials in them.
func (s *Credentials) Arguments(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range args {
		header, flag, address, before := headerArgument.FindStringSubmatch(arg), flagAndValue.FindStringSubmatch(arg), bareUserinfo.FindStringSubmatch(arg), ""
		if i > 0 && flagArgument.MatchString(args[i-1]) {
			before = strings.TrimLeft(args[i-1], "-")
		}
		switch {
		case isCredential(before):
			out[i] = s.value(before, arg)
		case flag != nil && isCredential(flag[2]):
			out[i] = flag[1] + s.value(flag[2], flag[3])
		case header != nil && isCredential(header[1]):
			out[i] = strings.TrimSuffix(arg, header[2]) + s.value(header[1], header[2])
		case address != nil && before != "H" && before != "header":
			out[i] = address[1] + s.value("", address[2]) + address[3]
		default:
			out[i] = s.inText(arg)
		}
	}
	return out
}

var (
	word     = regexp.MustCompile(`[A-Za-z][\w.-]*`)
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@:"'<>\\]*:)([^\s/?#"'<>\\]+)@`)
	quote    = regexp.MustCompile(`^\\*["']`)
	// ofFlag is what stands between a flag and its value, in a command or in a list of YAML.
	ofFlag = regexp.MustCompile(`^(?:["']?[ \t]*,[ \t]*|[ \t]+|["']?[ \t]*\n[ \t]*-[ \t]+)`)
	// ofName is what stands between a name and its value. A value of YAML may begin on a line of
	// its own.
	ofName = regexp.MustCompile(`^(?:\\*["'])?[ \t]*[:=][ \t]*`)
	block  = regexp.MustCompile(`^(?:[|>][-+0-9]*[ \t]*)?(?:#.*)?\n`)
)

// inText masks the credentials in a text: YAML, JSON, a form, a header, a URL or a command.
func (s *Credentials) inText(text string) string {
	text = userinfo.ReplaceAllStringFunc(text, func(found string) string {
		parts := userinfo.FindStringSubmatch(found)
		return parts[1] + s.value("", parts[2]) + "@"
	})
	var b strings.Builder
	done := 0
	for _, at := range word.FindAllStringIndex(text, -1) {
		inQuery := at[0] > 0 && strings.ContainsAny(text[at[0]-1:at[0]], "?&") && text[at[0]:at[1]] == "key"
		if at[0] < done || !inQuery && !isCredential(text[at[0]:at[1]]) {
			continue
		}
		begin, end := valueAfter(text, at[0], at[1])
		if begin == end {
			continue
		}
		b.WriteString(text[done:begin])
		b.WriteString(s.value(text[at[0]:at[1]], text[begin:end]))
		done = end
	}
	b.WriteString(text[done:])
	return b.String()
}

// valueAfter returns where the value of the name at a place in a text stands. begin and end are
// the same if the name has none.
func valueAfter(text string, name, at int) (begin, end int) {
	rest := text[at:]
	isFlag := name > 0 && text[name-1] == '-'
	separator := ofName.FindString(rest)
	begin = at + len(separator)
	switch {
	case separator == "" && isFlag:
		if separator = ofFlag.FindString(rest); separator == "" {
			return at, at
		}
		begin = at + len(separator)
	case separator == "", strings.HasPrefix(text[begin:], "//"), strings.HasPrefix(text[begin:], "="):
		return at, at
	}
	value := text[begin:]
	named := strings.TrimSpace(separator)
	byColon := strings.HasSuffix(named, ":")
	if byColon && block.MatchString(value) {
		return blockAfter(text, name, begin)
	}
	if open := quote.FindString(value); open != "" {
		begin += len(open)
		return begin, begin + closing(text[begin:], open)
	}
	stops := "\"'\\\n"
	switch {
	case !byColon:
		stops += " \t&#;,)}]|<>`"
	case inFlow(text[:name]):
		stops += ",}]"
	}
	end = strings.IndexAny(value, stops)
	if strings.HasPrefix(value, "{{") || strings.HasPrefix(value, "${") {
		end = strings.IndexAny(value, "\n") // a reference, in which they may stand
	}
	if end < 0 {
		end = len(value)
	}
	if comment := strings.Index(value[:end], " #"); byColon && comment >= 0 {
		end = comment
	}
	return begin, begin + len(strings.TrimRight(value[:end], " \t\r"))
}

// closing returns where a quoted value ends.
func closing(value, quote string) int {
	for at := 0; at < len(value); at++ {
		switch {
		case strings.HasPrefix(value[at:], quote) && quote == "'" && strings.HasPrefix(value[at+1:], "'"):
			at++ // YAML writes a quote in quotes twice
		case strings.HasPrefix(value[at:], quote):
			return at
		case quote == `"` && value[at] == '\\':
			at++
		}
	}
	return len(value)
}

// inFlow tells whether what follows a text is in braces or brackets on the same line.
func inFlow(before string) bool {
	line := strings.NewReplacer("{{", "", "}}", "").Replace(lineOf(before))
	return strings.Count(line, "{")+strings.Count(line, "[") > strings.Count(line, "}")+strings.Count(line, "]")
}

// lineOf returns the last line of a text, or its end if it is long.
func lineOf(text string) string {
	text = text[max(0, len(text)-maxBefore):]
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// blockAfter returns where a value stands on lines of its own, which are indented deeper than its name.
// A mapping is no value.
func blockAfter(text string, name, at int) (begin, end int) {
	depth := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	own := depth(lineOf(text[:name]) + text[name:at])
	scalar := strings.ContainsAny(text[at:at+1], "|>")
	at += strings.IndexByte(text[at:], '\n') + 1
	begin, end = at, at
	for at < len(text) {
		line, _, _ := strings.Cut(text[at:], "\n")
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "":
		case depth(line) <= own:
			return begin, end
		case !scalar && (strings.Contains(trimmed, ":") || strings.HasPrefix(trimmed, "- ")):
			return begin, begin
		default:
			if begin == end {
				begin = at + depth(line)
			}
			end = at + len(strings.TrimRight(line, " \t\r"))
		}
		at += len(line) + 1
	}
	return begin, end
}

var (
	scheme = regexp.MustCompile(`(?i)^(?:basic|bearer|digest|dpop|negotiate|token|apikey|key)[ \t]+`)
	// A reference says where a credential is, and a mapping is none.
	reference = regexp.MustCompile(`^(?:\$|@|\{|\[|true$|false$|null$|~$)|\{\{`)
)

// value masks the value of a name, and notes what it masks.
func (s *Credentials) value(name, value string) string {
	if folded := fold(name); folded == "cookie" || folded == "set_cookie" {
		return s.cookies(value)
	} else if folded == "basic_auth" && strings.Contains(value, ":") {
		return s.basicAuth(value)
	}
	return s.single(name, value)
}

// single masks the one credential that a value is.
func (s *Credentials) single(name, value string) string {
	kept := scheme.FindString(value)
	value = value[len(kept):]
	if value == "" || value == Sign || reference.MatchString(value) {
		return kept + value
	}
	return kept + s.hide(name, value)
}

// hide returns what stands for a credential, and notes it.
func (s *Credentials) hide(name, value string) string {
	if s.replace != nil {
		return s.replace(name, value)
	}
	s.note(value)
	return Sign
}

// basicAuth masks the password in USER:PASSWORD, and notes the base64 of the whole, which requests
// carry.
func (s *Credentials) basicAuth(value string) string {
	user, password, _ := strings.Cut(value, ":")
	if password == "" || password == Sign {
		return value
	}
	hidden := s.hide("", password)
	if s.replace == nil {
		s.note(base64.StdEncoding.EncodeToString([]byte(value)))
	}
	return user + ":" + hidden
}

// cookies masks the values of cookies.
func (s *Credentials) cookies(value string) string {
	parts := strings.Split(value, ";")
	for i, part := range parts {
		name, value, found := strings.Cut(part, "=")
		if !found {
			name, value = "", part
		} else {
			name += "="
		}
		parts[i] = name + s.single(strings.TrimSuffix(strings.TrimSpace(name), "="), value)
	}
	return strings.Join(parts, ";")
}

// credentialNames are values that people use as placeholders, and that stand all over a run as names.
var credentialNames = []string{
	"access_key", "access_token", "api_key", "apikey", "authorization", "basic_auth", "bearer", "cookie", "credential", "credentials",
	"passphrase", "passwd", "password", "private_key", "secret", "session", "session_id", "sessionid", "signature", "tokens", "x_api_key",
}

// note makes Replacer mask a value without its name, too, in every form in which it may be written.
func (s *Credentials) note(value string) {
	forms := []string{value}
	if plain, err := url.QueryUnescape(value); err == nil {
		forms = append(forms, plain)
	}
	var plain string
	if json.Unmarshal([]byte(`"`+value+`"`), &plain) == nil {
		forms = append(forms, plain)
	}
	for _, form := range slices.Clone(forms) {
		quoted, err := json.Marshal(form)
		if err == nil {
			forms = append(forms, string(quoted[1:len(quoted)-1]))
		}
		forms = append(forms, url.QueryEscape(form), url.PathEscape(form))
	}
	for _, form := range forms {
		// Short values and names of credentials stand in unrelated places.
		if len(form) >= leastElsewhere && len(s.values) < maxElsewhere && !slices.Contains(credentialNames, fold(form)) && !slices.Contains(s.values, form) {
			s.values = append(s.values, form)
		}
	}
}

// fold returns a name as it is compared: without what is before a dot, and however it is written.
func fold(name string) string {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return strings.ToLower(strings.ReplaceAll(name, "-", "_"))
}

// isCredential decides by the words in the name. Names of files with credentials, and of
// numbers of tokens, do not count.
func isCredential(name string) bool {
	name = fold(name)
	switch name {
	case "auth", "basic_auth", "cookie", "jwt", "pass", "pwd", "session", "sessionid", "sid", "sig", "x_auth", "ocp_apim_subscription_key":
		return true
	case "first_token", "token_time": // metrics of language models, and bounds on them
		return false
	}
	for _, suffix := range []string{"_file", "_path", "_env", "_type", "_name", "_header", "_url", "_uri", "_time", "_ttl", "_count", "_limit", "_size", "_first_token"} {
		if strings.HasSuffix(name, suffix) {
			return false
		}
	}
	for _, part := range []string{
		"authorization", "passw", "passphrase", "secret", "credential", "signature", "session_id", "_cookie",
		"apikey", "api_key", "access_key", "accesskey", "private_key", "privatekey", "jwt",
	} {
		if strings.Contains(name, part) {
			return true
		}
	}
	if strings.HasPrefix(name, "x_") && strings.HasSuffix(name, "_key") {
		return true
	}
	return strings.Contains(name, "token") && !strings.Contains(name, "tokens") && !strings.Contains(name, "tokeni")
}
