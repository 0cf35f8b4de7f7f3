package imports

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/goccy/go-yaml"

	"dyno/internal/nesting"
	"dyno/services/control/resource"
)

// Bounds of an archive: the bytes of all entries together and of one, unpacked.
const (
	MaxTotal  = 64 << 20
	maxEntry  = 4 << 20
	maxTokens = 200_000 // of .metadata.yml
)

// Nacos reads an archive of configurations, as the console exports them, or a list of instances. Nacos' documentation has them: "Console
// guide" and "Open API guide" (v1, v2 and v3).
func (i *Import) Nacos(data []byte) error {
	if bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return i.archive(data)
	}
	return i.hosts(data)
}

// A described configuration is one in .metadata.yml.
type described struct {
	DataID      string `yaml:"dataId"`
	Group       string `yaml:"group"`
	Type        string `yaml:"type"`
	App         string `yaml:"appName"`
	Description string `yaml:"desc"`
}

// mediaTypes has those of Nacos' types.
var mediaTypes = map[string]string{
	"json": "application/json", "yaml": "application/yaml", "xml": "application/xml", "toml": "application/toml", "html": "text/html", "text": "text/plain", "properties": "text/plain",
}

func (i *Import) archive(data []byte) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	contents := map[string]string{}
	total := 0
	for _, f := range z.File {
		text, err := unpack(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if total += len(text); total > MaxTotal {
			return fmt.Errorf("has more than %d bytes unpacked", MaxTotal)
		}
		contents[f.Name] = string(text)
	}
	about, err := describe(contents[".metadata.yml"], contents[".meta.yml"])
	if err != nil {
		return err
	}
	for _, f := range z.File {
		group, id, ok := strings.Cut(f.Name, "/")
		switch {
		case strings.HasSuffix(f.Name, "/"), f.Name == ".metadata.yml", f.Name == ".meta.yml":
		case !ok || group == "":
			i.leave("entry "+f.Name, "is not GROUP/DATAID")
		default:
			i.config(group, id, contents[f.Name], about)
		}
	}
	return nil
}

// unpack reads an entry of an archive.
func unpack(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxEntry+1))
	if len(text) > maxEntry {
		err = fmt.Errorf("has more than %d bytes unpacked", maxEntry)
	}
	return text, errors.Join(err, r.Close())
}

// describe reads both forms of metadata: a list, by GROUP/DATAID, and the older lines, by what precedes their equals sign.
func describe(list, lines string) (map[string]described, error) {
	about := map[string]described{}
	docs, err := nesting.Parse([]byte(list), maxTokens)
	if err != nil {
		return nil, fmt.Errorf(".metadata.yml: %w", err)
	}
	for _, doc := range docs {
		var all struct{ Metadata []described }
		if err := yaml.NodeToValue(doc, &all); err != nil {
			return nil, fmt.Errorf(".metadata.yml: %w", err)
		}
		for _, one := range all.Metadata {
			about[one.Group+"/"+one.DataID] = one
		}
	}
	for line := range strings.Lines(lines) {
		key, app, _ := strings.Cut(strings.TrimSpace(line), "=")
		about[key] = described{App: app}
	}
	return about, nil
}

// config makes a configuration. Nacos has decrypted what it keeps encrypted.
func (i *Import) config(group, id, content string, about map[string]described) {
	labels := map[string]string{}
	d := about[group+"/"+id]
	older := id
	if dot := strings.LastIndexByte(id, '.'); dot >= 0 {
		older = id[:dot] + "~" + id[dot+1:]
	}
	for name, value := range map[string]string{"app": cmp.Or(d.App, about[group+"."+older+".app"].App), "description": d.Description} {
		if value != "" {
			labels[name] = value
		}
	}
	one := &resource.Config{Namespace: i.Namespace, Name: named(group, "/", id), ContentType: mediaTypes[d.Type], Labels: labels, Secret: strings.HasPrefix(id, "cipher-")}
	one.SetData(content)
	i.add("configuration "+group+"/"+id, one)
}

// named puts a group before a name, unless it is the default one.
func named(group, separator, name string) string {
	if group == "" || group == "DEFAULT_GROUP" {
		return name
	}
	return group + separator + name
}

// hosts reads an answer with the instances of a service. Nacos' weight of 1 is 100 here.
func (i *Import) hosts(data []byte) error {
	answer := struct {
		Code    int
		Message string
		Data    json.RawMessage
	}{Data: data} // version 1 has no envelope
	if err := json.Unmarshal(data, &answer); err != nil {
		return err
	}
	if answer.Code != 0 && answer.Code != 200 {
		return fmt.Errorf("is a refusal: %d %s", answer.Code, answer.Message)
	}
	var of struct {
		Name, GroupName string
		Hosts           []struct {
			IP, ClusterName, ServiceName string
			Port                         int
			Weight                       *float64
			Healthy, Enabled             *bool
			Metadata                     map[string]string
		}
	}
	err := json.Unmarshal(answer.Data, &of)
	if bytes.HasPrefix(bytes.TrimSpace(answer.Data), []byte{'['}) {
		err = json.Unmarshal(answer.Data, &of.Hosts) // version 3
	}
	if err != nil || of.Hosts == nil {
		return errors.Join(errors.New("is of no known form: want the ZIP of an export, or JSON of /nacos/v1/ns/instance/list, v2 or v3"), err)
	}
	for _, h := range of.Hosts {
		group, name, ok := strings.Cut(cmp.Or(h.ServiceName, of.Name), "@@")
		if !ok {
			group, name = of.GroupName, group
		}
		one := &resource.Instance{
			Namespace: i.Namespace, Service: named(group, ".", name), ID: fmt.Sprintf("%s:%d", h.IP, h.Port), Address: h.IP, Port: h.Port,
			Weight: resource.DefaultWeight, Status: resource.Up, TTL: i.TTL, Checks: i.Checks, Metadata: h.Metadata,
		}
		if h.Weight != nil {
			one.Weight = int(math.Round(*h.Weight * resource.DefaultWeight))
		}
		if h.Healthy != nil && !*h.Healthy && len(i.Checks) == 0 || h.Enabled != nil && !*h.Enabled {
			one.Status = resource.Down
		}
		if h.ClusterName != "" && h.ClusterName != "DEFAULT" {
			one.Zone = h.ClusterName
			one.ID += ":" + h.ClusterName
		}
		i.add("service "+one.Service+" "+one.ID, one)
	}
	return nil
}
