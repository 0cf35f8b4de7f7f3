package rest

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"dyno/services/control/format"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// TestFormats: a resource is made and read in each format, and is the same in all.
func TestFormats(t *testing.T) {
	b := newBed(t, nil)
	policy := &resource.Policy{Labels: map[string]string{"team": "x"}, Rules: []resource.Rule{{Action: resource.Limit, Limit: &resource.RateLimit{PerSecond: 2.5}}}}
	for _, c := range []struct {
		format format.Format
		accept string
	}{{format.Protobuf, "application/x-protobuf"}, {format.FlatBuffers, "application/json;q=0.5, application/x-flatbuffers"}, {format.Gob, "application/x-gob"}} {
		t.Run(c.format.String(), func(t *testing.T) {
			kind := c.format.MediaType()
			write := func(d *format.Document) string {
				text, err := c.format.Append(nil, d)
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			name := "p" + kind[len("application/x-"):]
			doc := &format.Document{Ref: resource.Ref{Kind: resource.Policies, Name: name}, Policy: policy}
			made := b.want(201, "", "POST", "/v1/policies", write(doc), "Content-Type", kind)
			if made.field(t, "rules", 0, "limit", "requests_per_second") != 2.5 || made.field(t, "labels", "team") != "x" || made.field(t, "name") != name {
				t.Errorf("%s", made.body)
			}
			path := "/v1/policies/" + name
			tag := made.header.Get("ETag")
			b.want(200, "", "PUT", path, write(doc), "Content-Type", kind, "If-Match", tag)
			tag = b.want(200, "", "GET", path, "").header.Get("ETag")

			got := b.want(200, "", "GET", path, "", "Accept", c.accept)
			if got.header.Get("Content-Type") != kind || got.header.Get("Vary") != "Accept" || got.header.Get("ETag") != "W/"+tag {
				t.Errorf("%v", got.header)
			}
			d, err := c.format.Decode(got.body)
			if err != nil || d.Policy.Name != name || d.Policy.Rules[0].Limit.PerSecond != 2.5 {
				t.Errorf("%+v: %v", d, err)
			}
			b.want(304, "", "GET", path, "", "Accept", c.accept, "If-None-Match", got.header.Get("ETag"))
			if first := b.want(200, "", "GET", path+"/history/1", "", "Accept", c.accept); first.header.Get("Content-Type") != kind {
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
			read := b.want(200, "", "GET", "/v1/configs/"+name, "", "Accept", c.accept)
			if d, err := c.format.Decode(read.body); err != nil || d.Config.Content != "c" {
				t.Errorf("%+v: %v", d, err)
			}
		})
	}
}

// TestGobIsForTrustedPeers: others are not read, and get what else they accept.
func TestGobIsForTrustedPeers(t *testing.T) {
	b := withBook(t, nil)
	b.token = "editor"
	text, err := format.Gob.Append(nil, &format.Document{Ref: resource.Ref{Kind: resource.Configs}, Config: &resource.Config{Content: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	b.want(415, "media", "PUT", "/v1/configs/a?namespace=shop", string(text), "Content-Type", "application/x-gob")
	b.want(201, "", "PUT", "/v1/configs/a?namespace=shop", `{"content":"c"}`)
	if got := b.want(200, "", "GET", "/v1/configs/a?namespace=shop", "", "Accept", "application/x-gob, application/x-protobuf;q=0.1"); got.header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("%v", got.header)
	}
}

// TestSecretsInFormats: what is not shown in JSON is not shown otherwise.
func TestSecretsInFormats(t *testing.T) {
	b := withBook(t, nil)
	b.token = "editor"
	tag := b.want(201, "", "PUT", "/v1/configs/a?namespace=shop", `{"content":"hidden","secret":true}`).header.Get("ETag")
	b.token = "reader"
	for _, f := range []format.Format{format.JSON, format.Protobuf, format.FlatBuffers} {
		for _, path := range []string{"/v1/configs/a?namespace=shop", "/v1/watch?namespace=shop&wait=0"} {
			if got := b.want(200, "", "GET", path, "", "Accept", f.MediaType()); bytes.Contains(got.body, []byte("hidden")) || bytes.Contains(got.body, []byte(tag)) || strings.Contains(got.header.Get("ETag"), tag) || got.header.Get("Content-Type") != f.MediaType() {
				t.Errorf("%v: %s: %v %s", f, path, got.header, got.body)
			}
		}
	}
}

// TestPollInFormats: a long poll tells the same in each format.
func TestPollInFormats(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":`+rules+`}`)
	first := b.want(200, "", "GET", "/v1/watch?kind=policy&wait=0", "", "Accept", "application/x-protobuf")
	var events []*controlpb.WatchResponse
	for in := bytes.NewReader(first.body); ; {
		m := new(controlpb.WatchResponse)
		err := protodelim.UnmarshalFrom(in, m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, m)
	}
	if len(events) != 3 || events[0].GetType() != controlpb.WatchResponse_TYPE_RESYNC || events[1].GetResource().GetPolicy().GetRules()[0].GetLimit().GetRequestsPerSecond() != 100 ||
		events[2].GetType() != controlpb.WatchResponse_TYPE_SYNCED {
		t.Fatalf("%v", events)
	}
	b.want(204, "", "DELETE", "/v1/policies/a", "")
	next := "/v1/watch?kind=policy&wait=0&since=" + events[2].GetToken()
	second := b.want(200, "", "GET", next, "", "Accept", "application/x-gob")
	var e format.Event
	if err := gob.NewDecoder(bytes.NewReader(second.body)).Decode(&e); err != nil || e.Type != format.Remove || e.Document.Ref.Name != "a" {
		t.Errorf("%+v: %v", e, err)
	}
	m := new(controlpb.WatchResponse)
	if err := protodelim.UnmarshalFrom(bytes.NewReader(b.want(200, "", "GET", next, "", "Accept", "application/x-protobuf").body), m); err != nil || m.GetType() != controlpb.WatchResponse_TYPE_REMOVE || proto.Size(m.GetResource()) == 0 {
		t.Errorf("%v: %v", m, err)
	}
}
