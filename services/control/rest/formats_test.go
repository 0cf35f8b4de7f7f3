package rest

import (
	"testing"

	"dyno/services/control/format"
	"dyno/services/control/resource"
)

// TestFormats: a resource is made and read in Protocol Buffers, and is the same as in JSON.
func TestFormats(t *testing.T) {
	b := newBed(t, nil)
	policy := &resource.Policy{Labels: map[string]string{"team": "x"}, Rules: []resource.Rule{{Action: resource.Limit, Limit: &resource.RateLimit{PerSecond: 2.5}}}}
	const kind = "application/x-protobuf"
	write := func(d *format.Document) string {
		text, err := format.Protobuf.Append(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const name = "p"
	doc := &format.Document{Ref: resource.Ref{Kind: resource.Policies, Name: name}, Policy: policy}
	made := b.want(201, "", "POST", "/v1/policies", write(doc), "Content-Type", kind)
	if made.field(t, "rules", 0, "limit", "requests_per_second") != 2.5 || made.field(t, "labels", "team") != "x" || made.field(t, "name") != name {
		t.Errorf("%s", made.body)
	}
	path := "/v1/policies/" + name
	tag := made.header.Get("ETag")
	b.want(200, "", "PUT", path, write(doc), "Content-Type", kind, "If-Match", tag)
	tag = b.want(200, "", "GET", path, "").header.Get("ETag")

	got := b.want(200, "", "GET", path, "", "Accept", "application/json;q=0.5, "+kind)
	if got.header.Get("Content-Type") != kind || got.header.Get("Vary") != "Accept" || got.header.Get("ETag") != "W/"+tag {
		t.Errorf("%v", got.header)
	}
	d, err := format.Decode(format.Protobuf, got.body)
	if err != nil || d.Policy.Name != name || d.Policy.Rules[0].Limit.PerSecond != 2.5 {
		t.Errorf("%+v: %v", d, err)
	}
	b.want(304, "", "GET", path, "", "Accept", "application/json;q=0.5, "+kind, "If-None-Match", got.header.Get("ETag"))
	if first := b.want(200, "", "GET", path+"/history/1", "", "Accept", "application/json;q=0.5, "+kind); first.header.Get("Content-Type") != kind {
		t.Errorf("%v", first.header)
	}
	other := &format.Document{Ref: resource.Ref{Kind: resource.Configs, Name: name}, Config: &resource.Config{Content: "c"}}
	b.want(422, "invalid", "PUT", path, write(other), "Content-Type", kind)
	b.want(422, "invalid", "PUT", "/v1/policies/another", write(doc), "Content-Type", kind)
	b.want(422, "invalid", "PUT", path, "damaged", "Content-Type", kind)
	b.want(415, "media", "POST", "/v1/acks", "x", "Content-Type", kind)

	instance := &format.Document{Ref: resource.Ref{Kind: resource.Instances, Name: "shop", ID: name}, Instance: &resource.Instance{Address: "10.0.0.1", Port: 80, Weight: 7}}
	at := "/v1/services/shop/instances/" + name
	if i := b.want(201, "", "PUT", at, write(instance), "Content-Type", kind); i.field(t, "weight") != 7.0 || i.field(t, "status") != "up" {
		t.Errorf("%s", i.body)
	}
	b.want(201, "", "PUT", "/v1/configs/"+name, write(other), "Content-Type", kind)
	read := b.want(200, "", "GET", "/v1/configs/"+name, "", "Accept", "application/json;q=0.5, "+kind)
	if d, err := format.Decode(format.Protobuf, read.body); err != nil || d.Config.Content != "c" {
		t.Errorf("%+v: %v", d, err)
	}
}
