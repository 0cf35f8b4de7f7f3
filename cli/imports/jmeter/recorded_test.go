package jmeter

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
	"dyno/lab/planfile"
)

// planOf is a test plan with a recorder whose listener names recorded.xml.
func planOf(samplers ...string) string {
	return `<jmeterTestPlan><hashTree><TestPlan/><hashTree><ThreadGroup testname="g"/><hashTree>` + strings.Join(samplers, "\n") + `</hashTree>
<ProxyControl testname="recorder"/><hashTree><ResultCollector testname="tree"><stringProp name="filename">/home/ann/recorded.xml</stringProp></ResultCollector><hashTree/></hashTree>
</hashTree></hashTree></jmeterTestPlan>`
}

func samplerOf(label, path string) string {
	return fmt.Sprintf(`<HTTPSamplerProxy testname="%s"><stringProp name="HTTPSampler.domain">127.0.0.1</stringProp><stringProp name="HTTPSampler.path">%s</stringProp></HTTPSamplerProxy><hashTree/>`, label, path)
}

// gives is what a sample has if its response is JSON.
func gives(text string) string { return "<responseData>" + text + "</responseData>" }

func sampleOf(label, path, rest string) string {
	return fmt.Sprintf(`<httpSample lb="%s" rc="200" ts="1000" t="5" tn="g 1-1">%s<method>GET</method><java.net.URL>http://127.0.0.1%s</java.net.URL></httpSample>`, label, rest, path)
}

func results(samples ...string) string {
	return `<testResults version="1.2">` + strings.Join(samples, "\n") + `</testResults>`
}

// write returns the name of a file with a text.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "elsewhere.xml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// imported imports a plan whose recording is next to it, checks the experiment, and returns it with its list.
func imported(t testing.TB, plan, recorded string, change func(s *draft.Source)) (string, error) {
	t.Helper()
	dir := t.TempDir()
	s := draft.Source{Format: "jmeter", File: filepath.Join(dir, "plan.jmx"), Out: filepath.Join(dir, "out.yaml")}
	for name, text := range map[string]string{s.File: plan, filepath.Join(dir, "recorded.xml"): recorded, filepath.Join(dir, "token.json"): `{"token": "f00ba2-77"}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(&s)
	}
	r, err := draft.Read([]draft.Format{Format()}, s)
	if err != nil {
		return "", err
	}
	for _, f := range r.Files {
		if err := os.WriteFile(filepath.Join(filepath.Dir(s.Out), f.Name), f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := planfile.ParseWithFiles(s.Out, r.Text, planfile.Options{}); err != nil {
		t.Errorf("%v\n%s", err, r.Text)
	}
	text := string(r.Text)
	for _, i := range r.Items {
		text += fmt.Sprintf("%d: %s: %s; %s\n", i.Line, i.What, i.Why, i.Hint)
	}
	return text, nil
}

// Samples are found by what they have in common with samplers. What cannot be used of a recording is listed.
func TestRecorded(t *testing.T) {
	first, second := samplerOf("login-1", "/login"), samplerOf("me-2", "/me/f00ba2-77")
	token := sampleOf("login-1", "/login", gives(`{"token": "f00ba2-77"}`))
	me := sampleOf("me-2", "/me/f00ba2-77", gives("{}"))
	const taken = "1: token: it is taken from $.token of step "
	for name, tt := range map[string]struct {
		plan, recorded string
		change         func(s *draft.Source)
		has, hasNot    []string
	}{
		"by label":                   {planOf(first, second), results(me, token), nil, []string{taken + "login-1; later requests send it: 1 (path)", `path: "/me/{{ token }}"`, "0: cookies: users keep them"}, []string{"recorder"}},
		"by method and path":         {planOf(samplerOf("log in", "/login"), second), results(token), nil, []string{taken + "log-in", "2: me-2: the recording has no sample of it"}, nil},
		"by label and method":        {planOf(samplerOf("login-1", "/${x}"), second), results(token), nil, []string{taken + "login-1"}, nil},
		"in order":                   {planOf(samplerOf("a", "/login"), samplerOf("a", "/login"), second), results(sampleOf("a", "/login", gives("{}")), sampleOf("a", "/login", gives(`{"token": "f00ba2-77"}`))), nil, []string{"2: token: it is taken from $.token of step a-2"}, nil},
		"the label before the order": {planOf(samplerOf("b", "/login"), first, second), results(token), nil, []string{"2: token: it is taken from $.token of step login-1", "1: b: the recording has no sample"}, nil},
		"redirects and resources":    {planOf(first, second), results(`<sample lb="page"><httpSample lb="login-1">` + sampleOf("login-1-0", "/login", gives(`{"token": "f00ba2-77"}`)) + sampleOf("login-1-1", "/home", gives("no")) + `</httpSample></sample>`), nil, []string{taken}, nil},
		"one thread of a group":      {planOf(samplerOf("a", "/"), first, second), results(strings.Replace(token, "f00ba2", "f00ba3", 1), strings.Replace(token, "g 1-1", "g 1-2", 1), me), nil, nil, []string{"it is taken"}},
		"repeated":                   {planOf(`<LoopController><stringProp name="LoopController.loops">2</stringProp></LoopController><hashTree>` + first + second + "</hashTree>"), results(token, me), nil, []string{taken + "login-1;", taken + "login-1-2;", "1: 1 requests: they began before"}, []string{"/f00ba2"}},
		"flows":                      {planOf(first, `</hashTree><ThreadGroup testname="h"/><hashTree>`, second), results(token, me), nil, []string{"path: /me/f00ba2-77"}, []string{"it is taken"}},
		"the plan's extractor":       {planOf(strings.Replace(first, "<hashTree/>", `<hashTree><JSONPostProcessor testname="x"><stringProp name="JSONPostProcessor.referenceNames">token</stringProp><stringProp name="JSONPostProcessor.jsonPathExprs">$.token</stringProp></JSONPostProcessor><hashTree/></hashTree>`, 1), samplerOf("me-2", "/me/${token}"), second), results(token, me), nil, []string{"token: $.token\n", "token_2: $.token", `path: "/me/{{ token }}"`, `path: "/me/{{ token_2 }}"`}, nil},
		"a character of control":     {planOf(first, second), results(sampleOf("login-1", "/login", gives(`&#x1;&#XFFFF;&#0;<![CDATA[<input name="token" value="f00ba2-77">]]>`))), nil, []string{"1: token: it is taken from the content"}, nil},
		"latin-1":                    {planOf(first, second), results(strings.Replace(sampleOf("login-1", "/login", gives("clé: f00ba2-77 is the key")), "tn=", `de="ISO-8859-1" tn=`, 1)), nil, nil, []string{"clé"}},
		"a file of a response":       {planOf(first, second), results(sampleOf("login-1", "/login", "<responseFile>token.json</responseFile>")), nil, []string{taken}, nil},
		"no content":                 {planOf(first, second, samplerOf("logo", "/logo.png")), results(sampleOf("login-1", "/login", ""), sampleOf("me-2", "/me/f00ba2-77", gives("Non-TEXT response data, cannot record: (bin)")), sampleOf("logo", "/logo.png", "")), nil, []string{"1: login-1: the recording does not have the content", "2: me-2: the recording does not have the content"}, []string{"3: "}},
		"empty content":              {planOf(first), results(strings.Replace(sampleOf("login-1", "/login", ""), "200", "204", 1)), nil, nil, []string{"does not have the content"}},
		"a status":                   {planOf(first), results(strings.Replace(token, "200", "404", 1)), nil, []string{`status: "404"`}, nil},
		"a pause":                    {planOf(first, second), results(token, strings.Replace(me, "1000", "3005", 1)), nil, []string{"think: 2s"}, nil},
		"a timer":                    {planOf(`<ConstantTimer><stringProp name="ConstantTimer.delay">300</stringProp></ConstantTimer><hashTree/>`, first, second), results(token, strings.Replace(me, "1000", "3005", 1)), nil, []string{"think: 300ms"}, []string{"think: 2s"}},
		"no pauses":                  {planOf(first, second), results(token, strings.Replace(me, "1000", "3005", 1)), func(s *draft.Source) { s.NoThink = true }, []string{taken}, []string{"think"}},
		"no correlation":             {planOf(first, second), results(token, strings.Replace(me, "1000", "3005", 1)), func(s *draft.Source) { s.NoCorrelate = true }, []string{"think: 2s"}, []string{"it is taken", "cookies: true"}},
		"no static files":            {planOf(first, samplerOf("logo", "/logo.png"), second), results(token, me), func(s *draft.Source) { s.NoStatic = true }, []string{taken, "2: logo: static files are left out"}, []string{"path: /logo"}},
		"a cookie of a script":       {planOf(`<CookieManager testname="c"/><hashTree/>`, first), results(sampleOf("login-1", "/login", "<cookies>theme=dark</cookies>")), nil, []string{`Cookie: "{{ cookie }}"`}, []string{"0: cookies"}},
		"a redirect":                 {planOf(strings.Replace(strings.Replace(first, "><", ` enabled="false"><stringProp name="TestPlan.comments">`+redirected+"</stringProp><", 1), "login-1", "r", 1)), results(token), nil, []string{"path: /login", "1: r: the recorder has switched it off"}, nil},
		"CSV":                        {planOf(first), "timeStamp,elapsed\n1,2\n", nil, []string{"2: tree: ", "recorded.xml: this is no XML, and files in CSV have no responses; tick Save As XML", "2: recorder: without its responses"}, nil},
		"no end":                     {planOf(first), "<testResults>\n<httpSample", nil, []string{"2: tree: ", "recorded.xml: line 2: this is no XML"}, nil},
		"another file":               {planOf(first), planOf(first), nil, []string{"recorded.xml: this is no file of results"}, nil},
		"a file elsewhere":           {planOf(first, second), "", func(s *draft.Source) { s.Recorded = write(t, results(token)) }, []string{taken}, []string{"recorder"}},
		"no file":                    {strings.Replace(planOf(first), "recorded.xml", "none.xml", 1), "", nil, []string{"2: tree: none.xml cannot be read; ", "2: recorder: without its responses"}, nil},
	} {
		text, err := imported(t, tt.plan, tt.recorded, tt.change)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, has := range tt.has {
			if !strings.Contains(text, has) {
				t.Errorf("%s: %q is missing:\n%s", name, has, text)
			}
		}
		for _, has := range tt.hasNot {
			if strings.Contains(text, has) {
				t.Errorf("%s: %q is there:\n%s", name, has, text)
			}
		}
	}
}

// A file that the user names is an error if it cannot be read.
func TestRecordedFile(t *testing.T) {
	for text, want := range map[string]string{"": "the file is empty", "a,b": "this is no XML, and files in CSV have no responses", "<a>\n</b>": "line 2: this is no XML", "<a/>": "this is no file of results"} {
		name := write(t, text)
		_, err := imported(t, planOf(samplerOf("a", "/")), "", func(s *draft.Source) { s.Recorded = name })
		if err == nil || !strings.Contains(err.Error(), name+": "+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Reading any recording ends. What it makes is an experiment.
func FuzzRecorded(f *testing.F) {
	src, err := os.ReadFile("../testdata/jmeter/part-recorded.xml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(src))
	f.Add(results(`<sample lb="p"><httpSample lb="login-1">`+sampleOf("x", "/login", gives(`{"token": "f00ba2-77"}`))+`</httpSample></sample>`, sampleOf("me-2", "/me/f00ba2-77", "<cookies>a=b</cookies>")))
	plan := planOf(samplerOf("login-1", "/login"), samplerOf("me-2", "/me/f00ba2-77"), samplerOf("/login-4", "/login"))
	f.Fuzz(func(t *testing.T, recorded string) {
		if _, err := imported(t, plan, recorded, nil); err != nil {
			t.Error(err)
		}
	})
}
