package protocols

import (
	"fmt"
	"os"
	"path/filepath"

	"dyno/internal/fields"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// EachFile calls use with each file that the load of a variant reads, and with the field that
// names it. A .proto file that is named as imports name it is where they find it.
func EachFile(v *plan.Variant, use func(field, file string)) {
	named := func(field, file string) {
		if file != "" {
			use(field, file)
		}
	}
	if req := v.Load.Request; req != nil {
		named("load.request.body_file", req.BodyFile)
	}
	if a := v.Load.Ask; a != nil {
		named("load.ask.prompts", a.Prompts)
	}
	if c := v.Load.Call; c != nil {
		for i, file := range c.Protos {
			named(fmt.Sprintf("load.call.proto[%d]", i), imported(c, file))
		}
		named("load.call.protoset", c.Protoset)
		named("load.call.message_file", c.MessageFile)
		named("load.call.binary_file", c.BinaryFile)
		for _, d := range c.Data {
			named(fields.Join("load.call.data", d.Name), d.File)
		}
	}
	if s := v.Load.Scenario; s != nil {
		named("load.scenario.secrets", s.Secrets)
		for _, d := range s.Data {
			named(fields.Join("load.scenario.data", d.Name), d.File)
		}
		s.EachStep(func(at string, st *scenario.Step) {
			field, file := st.Content()
			named(fields.Join("load.scenario", at)+"."+field, file)
		})
	}
	if t := v.Target.TLS; t != nil {
		named("target.tls.ca", t.CA)
		named("target.tls.certificate", t.Certificate)
		named("target.tls.key", t.Key)
	}
}

// imported returns where a .proto file is: below a folder of imports, or where its name says.
func imported(c *plan.Call, file string) string {
	for _, dir := range c.ImportPaths {
		found := filepath.Join(dir, file)
		if info, err := os.Stat(found); err == nil && info.Mode().IsRegular() {
			return found
		}
	}
	return file
}
