package rpc

import (
	"strings"
	"testing"
)

func TestServices(t *testing.T) {
	services := shop(t).Services()
	if len(services) != 2 || services[0].Name != "shop.v1.Closed" || services[1].Name != "shop.v1.Shop" {
		t.Fatalf("services %v", services)
	}
	if c := services[1].Comment; c != "Shop sells things.\nIt is closed on Sundays." {
		t.Errorf("comment %q", c)
	}
	var got []string
	for _, m := range services[1].Methods {
		text := m.Path + " " + m.Kind() + " " + m.Input + " " + m.Output
		if m.Deprecated {
			text += " deprecated"
		}
		got = append(got, text)
	}
	want := []string{
		"/shop.v1.Shop/Any unary google.protobuf.Value google.protobuf.Empty",
		"/shop.v1.Shop/Buy unary shop.v1.Order shop.v1.Receipt",
		"/shop.v1.Shop/Fill client streaming shop.v1.Item shop.v1.Receipt",
		"/shop.v1.Shop/Talk bidirectional streaming shop.v1.Event shop.v1.Event deprecated",
		"/shop.v1.Shop/Watch server streaming google.protobuf.StringValue shop.v1.Event",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("methods\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMethod(t *testing.T) {
	s := shop(t)
	for _, tt := range []struct{ name, want string }{
		{"shop.v1.Shop/Buy", ""},
		{"/shop.v1.Shop/Buy", ""},
		{"shop.v1.Shop.Buy", ""},
		{"shop.v1.Shop/buy", `service shop.v1.Shop has no method "buy"; did you mean "Buy"?`},
		{"shop.v1.Shop/Inspect", `service shop.v1.Shop has no method "Inspect"; known here: Any, Buy, Fill, Talk, Watch`},
		{"shop.v1.Shop", `"shop.v1.Shop" is a service, and a method must be named; known here: Any, Buy, Fill, Talk, Watch`},
		{"shop.v1.Closed/Buy", `service shop.v1.Closed has no method "Buy"; it has no methods at all`},
		{"shop.v1.shop/Buy", `there is no service "shop.v1.shop"; did you mean "shop.v1.Shop"?`},
		{"shop.v2.Shop.Buy", `there is no service "shop.v2.Shop"; did you mean "shop.v1.Shop"?`},
		{"a.totally.different.Name/Buy", `there is no service "a.totally.different.Name"; known here: shop.v1.Closed, shop.v1.Shop`},
		{"buy", `"buy" is not the name of a method; did you mean "shop.v1.Shop/Buy"?`},
		{"", `"" is not the name of a method; known here: shop.v1.Shop/Any`},
		{"a/b/c", `there is no service "a"`},
		{"\x1b[2J.x", "there is no service \" [2J\""},
	} {
		m, err := s.Method(tt.name)
		expect(t, err, tt.want)
		if err == nil && m.Path != "/shop.v1.Shop/Buy" {
			t.Errorf("%q: %s", tt.name, m.Path)
		}
	}
}

func TestMethodOfNothing(t *testing.T) {
	s := source(t, `syntax = "proto3"; message A {}`)
	_, err := s.Method("a.B/C")
	expect(t, err, `there is no service "a.B"; there are no services at all`)
	if n := len(s.Services()); n != 0 {
		t.Errorf("%d services", n)
	}
}
