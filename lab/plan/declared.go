package plan

import (
	"reflect"
	"sync"
	"time"

	"dyno/lab/schema"
)

// namedForms returns the types of the forms that tags name.
func namedForms() map[string]reflect.Type {
	return map[string]reflect.Type{
		"compare": reflect.TypeFor[comparison](),
		"ladder":  reflect.TypeFor[ladderForm](),
		"sweep":   reflect.TypeFor[sweepForm](),
		"short":   reflect.TypeFor[shortForm](),
		"stages":  reflect.TypeFor[[]StageForm](),
	}
}

// declared is what Declared returns.
var declared = sync.OnceValues(func() (file *schema.Spec, parts [2]*schema.Spec) {
	file = schema.Of(reflect.TypeFor[Experiment](), namedForms())
	file.Doc = "An experiment for dyno: what to load, how, and what to compare."
	variant := schema.Of(reflect.TypeFor[Variant](), namedForms())
	parts = [2]*schema.Spec{{Kind: schema.Mapping}, {Kind: schema.Mapping}}
	for _, f := range file.Fields {
		part := parts[0]
		if variant.Field(f.Name) != nil {
			part = parts[1]
		}
		part.Fields = append(part.Fields, f)
	}
	return file, parts
})

// Declared returns what the tags declare of a whole file, and of the two structs that its fields go
// to: the plan and, once for each variant, that.
func Declared() (file *schema.Spec, parts [2]*schema.Spec) { return declared() }

// DeclaredAt returns what the tags declare of the field at a path of the file, or nil.
func DeclaredAt(path string) *schema.Spec {
	file, _ := declared()
	return file.Find(path)
}

// The sections of the file, and the fields, that stand in another form in the plan.
type (
	comparison struct {
		Base     string                       `yaml:"base,required" like:"name" doc:"the variant others are compared with"`
		Variants map[string]map[string]string `yaml:"variants,required,nonempty" names:"name variable" kind:"word" most:"1000" doc:"each variant's variables, for {{name}} in target, services and load; what it does not set it takes from the base"`
	}
	ladderForm struct {
		Steps       map[string]map[string]string `yaml:"steps,required,nonempty" names:"name variable" kind:"word" most:"1000" doc:"each step's variables, on top of those of the steps before it; the first is the base"`
		LeaveOneOut bool                         `yaml:"leave_one_out" doc:"also measure the whole ladder without each step but the first and the last"`
	}
	sweepForm struct {
		Exclude []map[string]string `yaml:"exclude" names:"variable" kind:"word" doc:"combinations to leave out: those with all these values"`
		Values  map[string][]string `yaml:",rest" names:"variable" kind:"word" doc:"the values of a variable"`
	}
	shortForm struct {
		Rounds   int                 `yaml:"rounds" range:"design.rounds" doc:"how often each variant is measured, whatever design.stop says"`
		Warmup   time.Duration       `yaml:"warmup" range:"load.warmup" doc:"load that is not measured, before the window"`
		Window   time.Duration       `yaml:"window" range:"load.window" doc:"how long to measure"`
		Sweep    map[string][]string `yaml:"sweep" names:"variable" kind:"word" doc:"some of the values of some of the variables"`
		Variants []string            `yaml:"variants" like:"name" doc:"some of the variants or steps"`
	}
)

// A StageForm is a stage as the file has it.
type StageForm struct {
	Duration time.Duration `yaml:"duration,required" range:"1ms..24h" doc:"how long it lasts"`
	Rate     float64       `yaml:"rate" kind:"rate" range:"0..10000000" doc:"of requests in all, from its beginning to its end"`
	From     float64       `yaml:"from" kind:"rate" range:"0..10000000" otherwise:"where the last stage ended" doc:"at its beginning"`
	To       float64       `yaml:"to" kind:"rate" range:"0..10000000" doc:"at its end"`
}

// Empty returns a plan without variants that has those defaults that no variant
// decides.
func Empty() *Experiment {
	e := &Experiment{}
	_, parts := Declared()
	Preset(reflect.ValueOf(e).Elem(), parts[0], "", nil)
	return e
}

// New returns a plan of one variant in which everything has its default that has one.
func New(name, protocol string) *Experiment {
	e := Empty()
	e.Name, e.Variants = name, []Variant{DefaultVariant(protocol)}
	return e
}

// Preset gives the fields of a mapping their defaults, for a protocol where that is known.
// Where the traits are not known yet, a default with conditions waits until they are (see
// Complete).
func Preset(into reflect.Value, s *schema.Spec, protocol string, traits map[string]bool) {
	for _, f := range s.Fields {
		if f.Spec.Form || !hasField(protocol, f.Spec) {
			continue
		}
		to := into.FieldByIndex(f.Spec.At)
		switch d := f.Spec.DefaultWith(traits); {
		case d == "{}":
			to.Set(reflect.New(to.Type().Elem()))
			Preset(to.Elem(), f.Spec, protocol, traits)
		case d != "" && (len(f.Spec.Defaults) == 1 || traits != nil):
			f.Spec.Put(to, d)
		case to.Kind() == reflect.Struct:
			Preset(to, f.Spec, protocol, traits)
		}
	}
}

// DefaultVariant returns a variant named default in which everything has its
// default that has one. What is left to say: the target's address, URL or
// command, and a closed or an open load; of a program only the command.
func DefaultVariant(protocol string) Variant {
	return VariantWith(protocol, map[string]bool{"of " + protocol: true})
}

// VariantWith is DefaultVariant of a plan with these traits.
func VariantWith(protocol string, traits map[string]bool) Variant {
	v := Variant{Name: "default", Vars: map[string]string{}}
	_, parts := Declared()
	Preset(reflect.ValueOf(&v).Elem(), parts[1], protocol, traits)
	v.Target.Protocol, v.Target.Ready.Kind = protocol, ReadyTCP
	if protocol == Program {
		v.Target.Ready.Kind, v.Observe = ReadyNone, Observe{}
	}
	return v
}

// DefaultOpen returns an open load that lacks only its rate.
func DefaultOpen() *Open {
	o := &Open{}
	Preset(reflect.ValueOf(o).Elem(), DeclaredAt("load.open"), "", nil)
	return o
}
