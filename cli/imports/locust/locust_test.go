package locust

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

// readLocustfile imports a locustfile.
func readLocustfile(t *testing.T, text string) (*draft.Result, error) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: scripts/setup.sh installs it")
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in.py", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return draft.Read([]draft.Format{Format()}, draft.Source{Format: "locust", File: "in.py"})
}

// Reading any locustfile ends.
func TestLocustfilesAreBounded(t *testing.T) {
	const begin = "from locust import HttpUser, task\nclass A(HttpUser):\n  @task\n  def t(self):\n"
	for text, want := range map[string]string{
		begin + "    for i in range(10000000000):\n      self.client.get('/')\n": "python3 needs more than",
		begin + "    self.client.get(" + strings.Repeat("(", 100_000):            "python3 cannot read it",
	} {
		if _, err := readLocustfile(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text[:min(len(text), 200)], err, want)
		}
	}
}

// A class inherits the same, whatever the names of classes. Requests that cannot be sent are listed.
func TestLocustClasses(t *testing.T) {
	const begin = "from locust import HttpUser as Base, TaskSet, task\nimport secrets\n"
	for _, c := range []struct{ text, sent, listed string }{
		{"class A(Base):\n  abstract = True\n  @task\n  def a(self):\n    self.client.get('/a')\nclass B(A):\n  pass\n", "/a", ""},
		{"class Mixin:\n  def on_start(self):\n    self.client.get('/start')\nclass B(Mixin, Base):\n  @task\n  def b(self):\n    self.client.get('/b')\n", "/start /b", ""},
		{"class A(Base):\n  abstract = True\n  def on_start(self):\n    self.client.get('/a')\nclass B(A):\n  def on_start(self):\n    super().on_start()\n    self.client.get('/b')\n  @task\n  def c(self):\n    self.client.get('/c')\n", "/a /b /c", ""},
		{"class A(Base):\n  @task\n  def a(self):\n    self.client.get('/x')\n    self.client.get(secrets.token_hex())\n", "/x", "the request is not sent"},
		{"class A(Base):\n  @task\n  def a(self):\n    self.client.get('/x')\n    self.client.post('/y', files={'f': open('f')})\n", "/x", "the request is not sent"},
		{"class A(Base):\n  @task\n  def a(self):\n    self.client.get('/x')\n    t = self.client.get(secrets.url()).json()['t']\n    self.client.get('/' + t)\n", "/x", "the request is not sent"},
		{"class A(Base):\n  @task\n  def a(self):\n    x = secrets.read(self.client.get('/x').text)\n    if self.client.get('/y').ok:\n      self.client.get('/z')\n    return self.client.get('/w').text\n", "/x /y /z /w", "x = secrets.read"},
		{"class A(Base):\n  @task\n  def a(self):\n    self.client.get('/x')\n    with self.rest('POST', '/y') as r:\n      pass\n", "/x", "the request is not sent: dyno does not know this client"},
		{"def visit(user):\n  user.client.get('/f')\nclass A(Base):\n  tasks = [visit]\n", "/f", ""},
		{"class A(Base):\n  @task\n  def a(self):\n    for i in range(50):\n     for j in range(50):\n      self.client.get('/x')\n", "/x", "it ends early"},
	} {
		r, err := readLocustfile(t, begin+c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var sent []string
		for line := range strings.Lines(string(r.Text)) {
			if path, found := strings.CutPrefix(strings.TrimSpace(line), "path: "); found && !strings.Contains(strings.Join(sent, " "), path) {
				sent = append(sent, path)
			}
		}
		listed := ""
		for _, i := range r.Items {
			listed += i.What + ": " + i.Why + "\n"
		}
		if got := strings.Join(sent, " "); got != c.sent || !strings.Contains(listed, c.listed) || strings.Contains(listed, "is not sent:") && c.listed == "" {
			t.Errorf("%s: %s, want %s; listed %s", c.text, got, c.sent, listed)
		}
	}
}

// Tokens that a locustfile signs are signed by templates, whatever the file imports and however it says the time.
func TestSignedTokens(t *testing.T) {
	const plain, now = `jwt("HS256", jwt_secret, "{\"sub\":\"u1\",\"exp\":", timestamp("s", 600), "}")`, `timestamp()`
	for _, c := range []struct{ text, want, listed string }{
		{"import jwt, time\n|jwt.encode({'sub': 'u1', 'exp': int(time.time()) + 600}, 'k', algorithm='HS256')", plain, ""},
		{"import jwt as pyjwt, time\n|pyjwt.encode(payload={'sub': 'u1', 'exp': int(time.time() + 10 * 60)}, key=b'k').decode('utf-8')", plain, ""},
		{"from jwt import encode\nfrom time import time as now\nMINUTES = 10\n|encode({'sub': 'u1', 'exp': MINUTES * 60 + round(now())}, 'k', 'HS256')", plain, ""},
		{"from jose import jwt\nfrom datetime import datetime, timedelta\n|jwt.encode({'sub': 'u1', 'exp': datetime.utcnow() + timedelta(minutes=10)}, 'k')", plain, ""},
		{"import jwt, datetime as dt\n|jwt.encode(dict(sub='u1', exp=dt.datetime.now(dt.timezone.utc) + dt.timedelta(0, 600)), 'k')", plain, ""},
		{"from authlib.jose import jwt\nimport time\n|jwt.encode({'alg': 'HS256'}, {'sub': 'u1', 'exp': time.time_ns() // 10**9 + 600}, 'k')", plain, ""},
		{"import jwt, time\nKEY = 'k'\ndef token(user, ttl=600):\n  claims = {'sub': f'{user}'}\n  claims['exp'] = int(time.time()) + ttl\n  return jwt.encode(claims, KEY, algorithm='HS256')\n|token('u1')", plain, ""},
		{"import jwt, os, uuid\n|jwt.encode({'jti': str(uuid.uuid4()), 'roles': ['a'], 'admin': True}, os.environ['SECRET'], algorithm='HS512')", `jwt("HS512", SECRET, "{\"jti\":\"", json_escape(uuid()), "\",\"roles\":[\"a\"],\"admin\":true}")`, "the file does not say the value"},
		{"import jwt, time\n|jwt.encode({'iat': time.time()}, 'k')", `jwt("HS256", jwt_secret, "{\"iat\":", ` + now + `, "}")`, "the time is sent as a whole number"},
		{"import jwt\n|jwt.encode({'sub': 'u1'}, open('key').read(), algorithm='RS256')", "token", "known only when the file runs"},
		{"import jwt\n|jwt.encode({'sub': 'u1'}, 'k', algorithm='ES256')", "token", "dyno signs tokens by HS256, HS384 and HS512 only"},
		{"import jwt\n|jwt.encode({'sub': 'u1'}, 'k', headers={'kid': '1'})", `jwt("HS256", jwt_secret, "{\"sub\":\"u1\"}")`, "the header of a token has alg and typ only"},
	} {
		head, token, _ := strings.Cut(c.text, "|")
		r, err := readLocustfile(t, "from locust import HttpUser, task\n"+head+"class A(HttpUser):\n  def on_start(self):\n    self.token = "+token+
			"\n  @task\n  def a(self):\n    self.client.get('/', headers={'Authorization': f'Bearer {self.token}'})\n")
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		listed := ""
		for _, i := range r.Items {
			listed += i.What + ": " + i.Why + "\n"
		}
		want := "Authorization: " + strconv.Quote("Bearer {{ "+c.want+" }}")
		if !strings.Contains(string(r.Text), want) && !strings.Contains(string(r.Text), "Authorization: 'Bearer {{ "+c.want+" }}'") || !strings.Contains(listed, c.listed) || c.listed == "" && strings.Contains(listed, "known only") {
			t.Errorf("%s:\n%s\nlisted %s\nwant %s", c.text, r.Text, listed, want)
		}
	}
}
