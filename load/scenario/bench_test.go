package scenario

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"dyno/load/feed"
)

// everything uses all that a hot path may go through.
func everything(tb testing.TB) Spec {
	spec := shop(tb, table(tb, "users.csv", usersCSV), feed.Shuffled)
	spec.Feeds = append(spec.Feeds, Feed{Name: "items", Table: table(tb, "items.jsonl", "{\"title\":\"a\\u00e9\"}\n{\"title\":\"b\"}\n"), Order: feed.Random})
	post := &spec.Steps[2]
	post.Body = `{"title":"{{ json_escape(title) }}","key":"{{ uuid() }} {{ uuid7() }}","n":{{ random_int(1, 100) }},"s":"{{ random_string(9) }}{{ random_choice("a", title) }}",` +
		`"t":"{{ timestamp("rfc3339") }} {{ timestamp("ms") }}","b":"{{ base64(email, urlencode(title)) }}","e":"{{ path_entropy(9) }}"}`
	post.Assert = append(post.Assert, Assertion{Of: Header, Name: "ETag", Is: Matches, Value: "^x"}, Assertion{Of: JSON, Name: "$.s", Is: Contains, Value: "{{ base64(id) }}"})
	post.Extract = []Extraction{
		{Name: "etag", From: Header, Of: "ETag"}, {Name: "word", From: JSON, Of: "$.s"}, {Name: "miss", From: JSON, Of: "$.nothing", Otherwise: UseDefault, Default: "d"},
	}
	return spec
}

// exchange is one request and its response.
type exchange struct {
	request   Request
	responses []*Response
	n         int
}

func newExchange() *exchange {
	cookie := HeaderField{Name: 0, Value: []byte("sid=0123456789; Path=/; Max-Age=1000; HttpOnly")}
	return &exchange{responses: []*Response{
		answer(200, `{"data":{"token":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0"}}`, cookie),
		answer(200, `{"total":2,"items":[{"id":"it\u0065m-1","name":"a thing"},{"id":"item-2","name":"another"}]}`, cookie),
		answer(200, `{"id":"item-1","s":"aXRlbS0x\u002e"}`, HeaderField{Name: 1, Value: []byte("x1")}),
	}}
}

func (x *exchange) do(tb testing.TB, u *User) {
	if ok, err := u.Next(instant, &x.request); err != nil || !ok {
		tb.Fatal(ok, err)
	}
	if err := u.Response(instant, x.responses[x.request.Step]); err != nil {
		tb.Fatal(err)
	}
}

func TestUsersDoNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	spec := everything(t)
	spec.Steps[2].If = `defined(token) and (title == "b" or email != 1.5 and not email > 2) and random_int(1, 9) < 10`
	w := mustCompile(t, spec).Worker(whole, 1)
	users := []*User{w.User(), w.User(), w.User()}
	x := newExchange()
	round := func() {
		for _, u := range users {
			x.do(t, u)
		}
		if x.n++; x.n%7 == 0 {
			users[0].Restart()
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(500, round); n != 0 {
		t.Errorf("%v allocations in three exchanges", n)
	}
}

func TestFailingDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	u := mustCompile(t, everything(t)).Worker(whole, 1).User()
	bad := []*Response{answer(500, ""), answer(200, "{"), answer(200, `{"data":{}}`)}
	n := 0
	var r Request
	fail := func() {
		if ok, err := u.Next(instant, &r); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if n++; n%4 == 0 {
			u.Failed()
		} else if err := u.Response(instant, bad[n%4-1]); err == nil {
			t.Fatal("no error")
		}
	}
	fail()
	if allocs := testing.AllocsPerRun(500, fail); allocs != 0 {
		t.Errorf("%v allocations for each failure", allocs)
	}
}

// BenchmarkShop is an exchange of log-in once, then list and post, with a table of a
// million users.
func BenchmarkShop(b *testing.B) {
	path := filepath.Join(b.TempDir(), "users.csv")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	out := bufio.NewWriter(f)
	fmt.Fprintln(out, "email,password")
	for i := range 1_000_000 {
		fmt.Fprintf(out, "user%07d@example.com,password-%d\n", i, i)
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	users, err := feed.Open(path, feed.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer users.Close()
	for _, bb := range []struct {
		name  string
		order feed.Order
		per   Per
	}{
		{"a-row-per-user", feed.Sequential, PerNeed},
		{"a-row-per-iteration/sequential", feed.Sequential, PerIteration},
		{"a-row-per-iteration/shuffled", feed.Shuffled, PerIteration},
	} {
		b.Run(bb.name, func(b *testing.B) {
			spec := shop(b, users, bb.order)
			if spec.Feeds[0].Per = bb.per; bb.per == PerIteration {
				spec.Steps[0].Once = false
			}
			w := mustCompile(b, spec).Worker(whole, 1)
			var all []*User
			for range 64 {
				all = append(all, w.User())
			}
			x := newExchange()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.do(b, all[i%64])
			}
		})
	}
}
