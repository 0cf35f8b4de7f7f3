package scenario

import (
	"testing"
)

// everything uses all that a hot path may go through.
func everything(tb testing.TB) Spec {
	spec := shop(tb, rows(tb, "users.csv", usersCSV), "shuffled")
	spec.Data = append(spec.Data, Data{Name: "items", File: rows(tb, "items.jsonl", "{\"title\":\"a\\u00e9\"}\n{\"title\":\"b\"}\n"), Order: "random"})
	post := &spec.Steps[2]
	post.Body = `{"title":"{{ json_escape(title) }} {{ user() }} {{ iteration() }} {{ iteration("all") }}","key":"{{ uuid() }} {{ uuid7() }}","n":{{ random_int(1, 100) }},"s":"{{ random_string(9) }}{{ random_choice("a", title) }}",` +
		`"t":"{{ timestamp("rfc3339") }} {{ timestamp("ms") }}","b":"{{ base64(email, urlencode(title)) }}"}`
	post.Assert = append(post.Assert, Assertion{Header: "ETag", Matches: "^x"}, Assertion{JSON: "$.s", Contains: "{{ base64(id) }}"})
	post.Extract = []Extraction{
		{Variable: "etag", Header: "ETag"}, {Variable: "word", JSON: "$.s"}, {Variable: "miss", JSON: "$.nothing", Default: new("d")},
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
