package correlate

import (
	"cmp"
	"strings"

	"dyno/internal/lazyregexp"
	"dyno/load/scenario"
)

// A strength says whether a value that stands in two places may stand there by chance.
type strength uint8

const (
	common  strength = iota // a word, a date or a version
	ordinal                 // short: it counts where both places are those of IDs
	token                   // hardly by chance
)

// isCommon matches URLs, dates, times, decimals, versions and addresses.
var isCommon = lazyregexp.New(`://|^\d{4}-\d\d-\d\d|^\d\d?[:/]\d\d|^(?:19|20)\d{6}$|^v?\d+(?:\.\d+)+$|[^!-~]`)

// strengthOf rates a value.
func strengthOf(text string) strength {
	if text == "" || len(text) > scenario.MaxValue || isCommon().MatchString(text) {
		return common
	}
	digits, upper, lower := 0, 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'A' && c <= 'Z':
			upper++
		case c >= 'a' && c <= 'z':
			lower++
		}
	}
	letters, isMixed := upper+lower, min(upper, lower) > (upper+lower)/4
	switch {
	case digits == 0 && (letters < 12 || !isMixed): // words, such as camelCase
		return common
	case len(text) < 8, digits == 1 && !isMixed, letters == 0 && digits < len(text):
		return ordinal
	}
	return token
}

// idName matches the names of IDs and tokens.
var idName = lazyregexp.New(`(?i:(?:^|[^a-z])(?:id|uid|uuid|guid|key|sku|number|no|ref|code|state|hash)$|token|csrf|xsrf|nonce|session|verif)|[a-z](?:Id|ID)$`)

// fits tells whether what a request has at a place may come from the candidate.
func (c *candidate) fits(a atom) bool {
	isPath := a.where == inPath
	switch {
	case strengthOf(a.value) == token:
		return true
	case c.rank == anywhere: // as in a link
		return a.name != "" && (isPath && strings.HasSuffix(c.before, "/"+a.name+"/") || !isPath && strings.HasSuffix(c.before, a.name+"="))
	case c.rank == hiddenField, c.inPath && isPath:
		return a.name == c.name
	}
	return (c.inPath || idName().MatchString(c.name)) && (isPath || idName().MatchString(a.name))
}

var (
	notInWord = lazyregexp.New(`\W+`)
	newWord   = lazyregexp.New(`([a-z])([A-Z])`)
)

// name returns what a variable with the value is called.
func (v *value) name() string {
	name, use := v.best.name, v.atoms[0]
	if v.best.inPath || use.where == inPath && (name == "id" || name == "") {
		name = use.name + "_id"
	}
	name = newWord().ReplaceAllString(cmp.Or(name, use.name), "${1}_$2")
	name = strings.Trim(notInWord().ReplaceAllString(strings.ToLower(name), "_"), "_")
	if name = cmp.Or(name, "value"); name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name[:min(len(name), 60)]
}
