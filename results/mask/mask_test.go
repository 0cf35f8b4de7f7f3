package mask

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Credentials are found by their names, in whatever form a user wrote them. What refers to one
// stays, and so does what only sounds like one.
func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"password":"hunter22","n":1}`, `{"password":"***","n":1}`},
		{`{"a":{"client_secret": "x\"y"},"pin":2}`, `{"a":{"client_secret": "***"},"pin":2}`},
		{`"{\"apiKey\":\"hunter22\",\"n\":1}"`, `"{\"apiKey\":\"***\",\"n\":1}"`},
		{`{"password":12345678}`, `{"password":***}`},
		{"user=ann&password=hunter22&n=1", "user=ann&password=***&n=1"},
		{"http://h/?a=1&access_token=hunter22#x", "http://h/?a=1&access_token=***#x"},
		{"http://h/?key=hunter22&x-goog-api-key=a key: 5", "http://h/?key=***&x-goog-api-key=*** key: 5"},
		{"X-RapidAPI-Key: hunter22\nkey: a\nkeys=b", "X-RapidAPI-Key: ***\nkey: a\nkeys=b"},
		{"http://ann:hunter22@h/ and http://h:80/a@b", "http://ann:***@h/ and http://h:80/a@b"},
		{"http://ann:h@nter22@h/ and https://ann@h/", "http://ann:***@h/ and https://ann@h/"},
		{"headers: {Authorization: Bearer hunter22, X-Api-Key: 'it''s', Accept: a/b}", "headers: {Authorization: Bearer ***, X-Api-Key: '***', Accept: a/b}"},
		{"  Authorization: Digest a=1, b=2 # why\n  Accept: x", "  Authorization: Digest *** # why\n  Accept: x"},
		{"headers:\n  Cookie: a=hunter22; b=3\n", "headers:\n  Cookie: a=***; b=***\n"},
		{"env: {DB_PASSWORD: hunter22}\nstart: [srv, --token, hunter22, --max-tokens, 3]", "env: {DB_PASSWORD: ***}\nstart: [srv, --token, ***, --max-tokens, 3]"},
		{"start:\n  - srv\n  - --api-key\n  - hunter22\n  - x", "start:\n  - srv\n  - --api-key\n  - ***\n  - x"},
		{`start: ["srv", "--secret", "hunter22"]`, `start: ["srv", "--secret", "***"]`},
		{"./srv --token=hunter22 --token hunter22 -v", "./srv --token=*** --token *** -v"},
		{"password: |\n  hunter22\n  again\nname: x", "password: |\n  ***\nname: x"},
		{"password:\n  hunter22\nname: x", "password:\n  ***\nname: x"},
		{"secrets:\n  a: 1\n", "secrets:\n  a: 1\n"},

		{`Authorization: "Bearer {{ token }}"`, `Authorization: "Bearer {{ token }}"`},
		{"token: ${TOKEN}\npassword: $PASSWORD\nsecret: @file", "token: ${TOKEN}\npassword: $PASSWORD\nsecret: @file"},
		{"extract: {token: $.data.token}\nextract: {token: {json: $.t}}", "extract: {token: $.data.token}\nextract: {token: {json: $.t}}"},
		{"max_tokens: 64\nfirst_token: 500ms\ntoken_time: 1s\ncookies: true\ntoken_file: a", "max_tokens: 64\nfirst_token: 500ms\ntoken_time: 1s\ncookies: true\ntoken_file: a"},
		{"thresholds: ['first_token.p99 < 1s', 'token_time.p50 < 2ms']", "thresholds: ['first_token.p99 < 1s', 'token_time.p50 < 2ms']"},
		{"tokens per second; a token, a secret", "tokens per second; a token, a secret"},
		{"password: ", "password: "},
	} {
		s := new(Credentials)
		got := s.inText(c.text)
		if got != c.want {
			t.Errorf("%s\nbecame %s\n  want %s", c.text, got, c.want)
		}
		if again := new(Credentials).inText(got); again != got {
			t.Errorf("%s\nthen became %s", got, again)
		}
	}
}

func TestArguments(t *testing.T) {
	got := new(Credentials).Arguments([]string{
		"dyno", "-H", "Authorization: Bearer a, b", "-HX-Api-Key: c", "--header=Cookie: d=e", "-H", "Accept: f", "-m", `{"authorization": "g"}`,
		"--token", "h", "--max-tokens", "5", "--body", "@file", "--set", "password=i", "--push", "http://j:k@l/?api_key=m",
		"--basic-auth", "n:$o:p q&r", "--basic-auth=s:t;u", "--basic-auth", "@file", "--basic-auth", "$V", "w:x@y@127.0.0.1:80/z", "-H", "From:me@h",
	})
	want := []string{
		"dyno", "-H", "Authorization: Bearer ***", "-HX-Api-Key: ***", "--header=Cookie: d=***", "-H", "Accept: f", "-m", `{"authorization": "***"}`,
		"--token", "***", "--max-tokens", "5", "--body", "@file", "--set", "password=***", "--push", "http://j:***@l/?api_key=***",
		"--basic-auth", "n:***", "--basic-auth=s:***", "--basic-auth", "@file", "--basic-auth", "$V", "w:***@127.0.0.1:80/z", "-H", "From:me@h",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}

// A text that somebody else wrote is searched once, however many names are in it.
func TestHugeText(t *testing.T) {
	s := new(Credentials)
	text := strings.Repeat("token: a", 1<<18)
	if got := s.inText(text); strings.Contains(got, ": a") || len(s.values) > maxElsewhere {
		t.Errorf("%d values, %.30q", len(s.values), got)
	}
	var b strings.Builder
	for n := range 10_000 {
		fmt.Fprintf(&b, "password=value-%d\n", n)
	}
	if got := s.inText(b.String()); strings.Contains(got, "value") || len(s.values) > maxElsewhere {
		t.Errorf("%d values, %.30q", len(s.values), got)
	}
}

// A value is masked where it stands without its name, whatever it is like; the name of a credential,
// which people type as a placeholder, is not.
func TestElsewhere(t *testing.T) {
	for value, masked := range map[string]bool{
		"my-secret-key-abcdef": true, "Passw0rd99": true, "prod_token_8f3a": true, "abcdef": true,
		"password": false, "Access-Token": false, "abc": false,
	} {
		s := new(Credentials)
		s.Named("X-Api-Key", value)
		if got := slices.Contains(s.values, value); got != masked {
			t.Errorf("%s is masked elsewhere: %v, want %v", value, got, masked)
		}
	}
}

// The caller gets each credential of a text with its name, and replaces it.
func TestFind(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"Authorization", "Bearer abc", "Bearer <Authorization=abc>"},
		{"Cookie", "sid=1; theme=dark", "sid=<sid=1>; theme=<theme=dark>"},
		{"Accept", "*/*", "*/*"},
		{"", "/items?page=1&api_key=k%201#x", "/items?page=1&api_key=<api_key=k%201>#x"},
		{"", `{"user": "ann", "password": "p\"w"}`, `{"user": "ann", "password": "<password=p\"w>"}`},
		{"", "user=ann&password=pw&x=y", "user=ann&password=<password=pw>&x=y"},
		{"X-Api-Key", "{{ key }}", "{{ key }}"},
	} {
		got := Find(test.name, test.text, func(name, value string) string { return "<" + name + "=" + value + ">" })
		if got != test.want {
			t.Errorf("%s: %s: got %s, want %s", test.name, test.text, got, test.want)
		}
	}
}
