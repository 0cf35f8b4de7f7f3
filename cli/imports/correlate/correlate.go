// Package correlate finds the values in a recording that a server gave in one response and the client sent back in later
// requests, such as tokens, sessions and IDs. Another session has other values, so that each is to be taken from the
// response again. Find looks at what was sent (sent.go) and received (received.go). It takes only values that are neither
// common words nor known to the client from elsewhere (value.go). Each extraction was carried out on its recorded
// response, and gave the recorded value.
package correlate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"dyno/load/pace"
	"dyno/load/scenario"
)

// Bounds of a search.
const (
	MaxFound = 500      // correlations
	MaxBody  = 16 << 20 // bytes of a body that is looked at
	maxSent  = 1 << 20  // the same of a request
	maxTried = 32       // places at which a value is looked for by extractions
	maxPlace = 1000     // places of one text in which values are replaced
	minAlone = 4        // bytes of a value that, once it is taken for one place, is put into all others
)

// An Exchange is a recorded request, with what is known of its response.
type Exchange struct {
	URL      string
	Header   []scenario.Header
	Body     string
	Response Response
}

// A Response is a recorded response, whose body is decoded.
type Response struct {
	Header []scenario.Header
	Body   string
}

// A Correlation is a value of a response that later requests sent.
type Correlation struct {
	Source   int // the number of the exchange with the response
	From     scenario.Extraction
	Value    string   // which From takes from that response
	Requests int      // that sent it
	Where    []string // they did so, such as "header field Authorization"
}

// Find finds the correlations of a recording, in the order of their sources. In the requests, it puts what mark returns
// for an expression of a template in the place of a value. newName returns what a variable is called.
func Find(all []Exchange, newName, mark func(string) string) (found []Correlation) {
	sent, requests := map[string]*value{}, reader{}
	for requests.exchange = range all {
		requests.request(&all[requests.exchange])
	}
	for _, a := range requests.all {
		if sent[a.value] == nil {
			sent[a.value] = &value{}
		}
		sent[a.value].atoms = append(sent[a.value].atoms, a)
	}
	for i := range all {
		if r := &all[i].Response; len(r.Body) <= MaxBody {
			received(r, sent, i)
		}
	}
	values := slices.DeleteFunc(slices.Collect(maps.Values(sent)), func(v *value) bool { return v.best == nil })
	slices.SortFunc(values, func(a, b *value) int {
		return cmp.Or(a.best.exchange-b.best.exchange, a.atoms[0].exchange-b.atoms[0].exchange, strings.Compare(a.atoms[0].value, b.atoms[0].value))
	})
	placed := map[*string][]atom{}
	for _, v := range values[:min(len(values), MaxFound)] {
		c := Correlation{Source: v.best.exchange, From: v.best.from, Value: v.atoms[0].value}
		requests := map[int]bool{}
		for _, a := range v.atoms {
			overlaps := slices.ContainsFunc(placed[a.text], func(b atom) bool { return a.start < b.end && b.start < a.end })
			if overlaps || len(placed[a.text]) == maxPlace || len(c.Value) < minAlone && !v.best.fits(a) {
				continue
			}
			if c.From.Variable == "" {
				c.From.Variable = newName(v.name())
			}
			requests[a.exchange] = true
			if !slices.Contains(c.Where, a.where) {
				c.Where = append(c.Where, a.where)
			}
			a.value = cmp.Or(mark(a.before+c.From.Variable+a.after), (*a.text)[a.start:a.end])
			placed[a.text] = append(placed[a.text], a)
		}
		if c.Requests = len(requests); c.Requests > 0 {
			found = append(found, c)
		}
	}
	for text, atoms := range placed {
		slices.SortFunc(atoms, func(a, b atom) int { return b.start - a.start }) // so that places stay
		for _, a := range atoms {
			*text = (*text)[:a.start] + a.value + (*text)[a.end:]
		}
	}
	return found
}

// A value is a text that requests have sent.
type value struct {
	atoms []atom     // in the order in which they were sent
	best  *candidate // nil: no response had it before the first of them
	tried int        // extractions
}

// consider makes a candidate the best one, if it is, and if it gives the value of the recorded response.
func (v *value) consider(c candidate, r *Response) {
	if c.exchange >= v.atoms[0].exchange || v.best != nil && v.best.rank <= c.rank || !slices.ContainsFunc(v.atoms, c.fits) || v.tried == maxTried {
		return
	}
	v.tried++
	if c.patterns == nil {
		c.patterns = []string{c.from.Pattern}
	}
	for _, c.from.Pattern = range c.patterns {
		if text, ok := take(c.from, r); ok && text == v.atoms[0].value {
			v.best = &c
			return
		}
	}
}

// take carries an extraction out, as users of a scenario do.
func take(from scenario.Extraction, r *Response) (text string, ok bool) {
	from.Variable = "v"
	s, err := scenario.Compile(&scenario.Spec{Variables: map[string]string{"v": ""}, Steps: []scenario.Step{
		{Name: "gives", Path: "/", Extract: []scenario.Extraction{from}, MaxBody: MaxBody},
		{Name: "sends", Path: "/", Body: "{{ v }}"},
	}}, scenario.Protocol{})
	if err != nil {
		return "", false
	}
	answer := scenario.Response{Status: 200, Body: []byte(r.Body), Size: int64(len(r.Body)), Decoded: true}
	for _, h := range r.Header {
		if n := slices.Index(s.HeaderNames(), strings.ToLower(h.Name)); n >= 0 {
			answer.Header = append(answer.Header, scenario.HeaderField{Name: n, Value: []byte(h.Value)})
		}
	}
	u, request := s.Worker(pace.Whole(), 1).User(), scenario.Request{}
	if ok, bad := u.Next(0, &request); !ok || bad != nil || u.Response(0, &answer) != nil {
		return "", false
	}
	ok, bad := u.Next(0, &request)
	return string(slices.Concat(request.Parts...)), ok && bad == nil
}

// KeepCookies takes cookies out of requests that earlier responses have set: users who keep cookies send them.
func KeepCookies(all []Exchange) {
	isSet := map[string]bool{}
	for i := range all {
		e := &all[i]
		e.Header = slices.Clone(e.Header)
		for k := range e.Header {
			if h := &e.Header[k]; strings.EqualFold(h.Name, "Cookie") {
				pairs := slices.DeleteFunc(strings.Split(h.Value, "; "), func(pair string) bool { return isSet[pair] })
				h.Value = strings.Join(pairs, "; ")
			}
		}
		e.Header = slices.DeleteFunc(e.Header, func(h scenario.Header) bool { return strings.EqualFold(h.Name, "Cookie") && h.Value == "" })
		for _, h := range e.Response.Header {
			if pair, _, _ := strings.Cut(h.Value, ";"); strings.EqualFold(h.Name, "Set-Cookie") {
				isSet[pair] = true
			}
		}
	}
}
