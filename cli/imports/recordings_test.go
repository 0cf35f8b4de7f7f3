package imports

import (
	"fmt"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

// visit is a recording of a log-in, with what a browser loads in addition.
const visit = `{"log": {"entries": [
{"startedDateTime": "2026-03-29T03:00:00.000Z", "time": 20, "request": {"method": "GET", "url": "http://127.0.0.1:1/", "headers": []},
 "response": {"status": 200, "headers": [{"name": "Set-Cookie", "value": "seen=1\nsid=0a1b2c3d4e"}], "content": {"mimeType": "text/html; charset=utf-8", "encoding": "base64", "text": "PGlucHV0IG5hbWU9ImNzcmYiIHZhbHVlPSJmMDBiYTItNzciPg=="}}},
{"startedDateTime": "2026-03-29T03:00:00.025Z", "time": 10, "request": {"method": "GET", "url": "http://127.0.0.1:1/app.js?v=f00ba2-78", "headers": [{"name": "Cookie", "value": "seen=1; sid=0a1b2c3d4e"}]},
 "response": {"status": 200, "headers": [], "content": {"mimeType": "text/javascript", "text": "key = 'k-71f4aa90b2'"}}},
{"startedDateTime": "2026-03-29T03:00:00.030Z", "time": 10, "request": {"method": "GET", "url": "http://127.0.0.1:1/logo.PNG", "headers": []}, "response": {"status": 200}},
{"startedDateTime": "2026-03-29T03:00:00.040Z", "time": 30, "request": {"method": "GET", "url": "http://127.0.0.1:2/count", "headers": []}, "response": {"status": 200}},
{"startedDateTime": "2026-03-29T03:00:00.041Z", "time": 30, "request": {"method": "GET", "url": "http://127.0.0.1:2/count?again", "headers": []}, "response": {"status": 200}},
{"startedDateTime": "2026-03-29T03:00:02.000Z", "time": 100, "request": {"method": "POST", "url": "http://127.0.0.1:1/login", "headers": [{"name": "Cookie", "value": "seen=1; sid=0a1b2c3d4e"}, {"name": "X-Key", "value": "k-71f4aa90b2"}],
 "postData": {"mimeType": "application/x-www-form-urlencoded", "text": "csrf=f00ba2-77&user=ann"}},
 "response": {"status": 200, "headers": [], "content": {"mimeType": "application/json", "text": "{\"id\": 42}"}}},
{"startedDateTime": "2026-03-29T03:00:02.150Z", "time": 10, "request": {"method": "GET", "url": "http://127.0.0.1:1/users/42", "headers": []}, "response": {"status": 404}}
]}}`

// saved is a collection with an example of an answer.
const saved = `{"info": {"name": "c", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"}, "item": [
{"name": "login", "request": {"method": "POST", "url": "http://127.0.0.1:1/login"}, "response": [{"code": 401, "body": "{\"access\": \"f00ba2-77\"}"}, {"code": 200, "header": [{"key": "Location", "value": "/users/4217"}], "body": "{\"token\": \"f00ba2-77\"}"}]},
{"name": "logo", "request": "http://127.0.0.1:1/logo.png"},
{"name": "me", "request": {"method": "GET", "url": "http://127.0.0.1:1/users/4217/{{sub}}", "header": [{"key": "Authorization", "value": "Bearer f00ba2-77"}]}, "response": "none"}], "variable": [{"key": "sub", "value": "f00ba2-77"}]}`

// What a browser did in addition is left out, and values of responses are taken from the responses, unless flags say
// otherwise.
func TestRecordings(t *testing.T) {
	for _, tt := range []struct {
		format, file string
		change       func(s *draft.Source)
		has, hasNot  []string
	}{
		{
			"har", visit, func(*draft.Source) {},
			[]string{"csrf={{ csrf }}", "/users/{{ users_id }}", "cookies: true", "think: 1.96s", "/app.js?v=f00ba2-78", `status: "404"`, "2: csrf: it is taken from the content of step GET; later requests send it: 1 (form field csrf)", "9: users_id: it is taken from $.id of step POST-login; later requests send it: 1 (path)", "7: requests to http://127.0.0.1:2: 2 are left out"},
			[]string{"Cookie", "/count", "think: 5ms", "think: 50ms", "f00ba2-77", "key:"},
		},
		{
			"har", visit, func(s *draft.Source) { s.NoStatic = true },
			[]string{"csrf={{ csrf }}", "think: 1.98s", "4: static files: 2 are left out"}, []string{"app.js", "logo"},
		},
		{"har", visit, func(s *draft.Source) { s.NoThink = true }, []string{"app.js", "{{ csrf }}"}, []string{"think"}},
		{
			"har", visit, func(s *draft.Source) { s.NoCorrelate = true },
			[]string{"/users/42", "csrf=f00ba2-77", "Cookie: \"{{ cookie }}", "think: 1.96s"}, []string{"extract", "cookies: true", "it is taken"},
		},
		{
			"postman", saved, func(*draft.Source) {},
			[]string{"Bearer {{ token }}", "token: $.token", "/users/{{ users_id }}/{{ ", "pattern: \"users/([^/?#]+)\"", "2: token: it is taken from $.token of step login; later requests send it: 1 (header field Authorization)", "logo.png"}, []string{"$.access"},
		},
		{"postman", saved, func(s *draft.Source) { s.NoCorrelate, s.NoStatic = true, true }, []string{"/users/4217", "static files: 1 are left out"}, []string{"extract", "logo.png"}},
	} {
		r, err := importedFrom(t, tt.format, tt.file, tt.change)
		if err != nil {
			t.Fatal(err)
		}
		text := string(r.Text)
		for _, i := range r.Items {
			text += fmt.Sprintf("%d: %s: %s; %s\n", i.Line, i.What, i.Why, i.Hint)
		}
		for _, has := range tt.has {
			if !strings.Contains(text, has) {
				t.Errorf("%s: %q is missing:\n%s", tt.format, has, text)
			}
		}
		for _, has := range tt.hasNot {
			if strings.Contains(text, has) {
				t.Errorf("%s: %q is there:\n%s", tt.format, has, text)
			}
		}
	}
	if _, err := importedFrom(t, "curl", "curl http://127.0.0.1:1/", func(s *draft.Source) { s.NoStatic = true }); err == nil || !strings.Contains(err.Error(), "--no-static") {
		t.Errorf("--no-static of curl: %v", err)
	}
}
