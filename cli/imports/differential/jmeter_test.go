package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

var jmeter = tool{
	format:  "jmeter",
	program: "jmeter",
	command: func(file string) []string {
		return []string{"jmeter", "-n", "-t", file, "-j", "jmeter.log"}
	},
	inOrder: true,
	general: func(i draft.Item) bool { return strings.Contains(i.Why, "one value for the whole run") },
}

func TestJMeter(t *testing.T) { jmeter.compareFiles(t) }

func TestJMeterGenerated(t *testing.T) {
	jmeter.compareGenerated(t, "plan.jmx", func(r *rand.Rand) map[string]string {
		p := planOfJMeter{r: r, variables: []string{"plain", "with space", "a%20b+c", "ü", "x&y=z"}}
		return map[string]string{"plan.jmx": p.text(), "part-file.txt": "of a file {{ x }}\n", "part-rows.csv": "name,note\nann,a b\nbob,ü&+\n"}
	})
}

// A planOfJMeter makes a test plan at random.
type planOfJMeter struct {
	r         *rand.Rand
	variables []string // values of v0, v1 …
}

var inXML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\r", "&#xd;")

// prop returns a property; of an empty text none.
func prop(name, value string) string {
	return `<stringProp name="` + name + `">` + inXML.Replace(value) + "</stringProp>\n"
}

// element returns an element with the tree below it.
func elementOf(kind, gui, title, properties, below string) string {
	return fmt.Sprintf("<%s guiclass=%q testclass=%q testname=%q enabled=\"true\">\n%s</%s><hashTree>\n%s</hashTree>\n", kind, gui, kind, title, properties, kind, below)
}

func (p *planOfJMeter) text() string {
	var list strings.Builder
	for i, value := range p.variables {
		fmt.Fprintf(&list, "<elementProp name=\"v%d\" elementType=\"Argument\">%s%s</elementProp>\n", i, prop("Argument.name", fmt.Sprintf("v%d", i)), prop("Argument.value", value))
	}
	list.WriteString(`<elementProp name="" elementType="Argument">` + prop("Argument.name", "nested") + prop("Argument.value", "${v0} and ${v1}") + "</elementProp>\n")
	body := elementOf("ConfigTestElement", "HttpDefaultsGui", "defaults", prop("HTTPSampler.domain", "127.0.0.1")+prop("HTTPSampler.port", "18080")+p.sometimes(prop("HTTPSampler.path", "/default")), "") +
		elementOf("Arguments", "ArgumentsPanel", "more", `<collectionProp name="Arguments.arguments"><elementProp name="later" elementType="Argument">`+prop("Argument.name", "later")+prop("Argument.value", "${v3} ${nested}")+"</elementProp></collectionProp>", "")
	body += p.sometimes(elementOf("CSVDataSet", "TestBeanGUI", "rows", prop("filename", "part-rows.csv")+prop("delimiter", ",")+prop("variableNames", "")+`<boolProp name="recycle">true</boolProp><boolProp name="quotedData">false</boolProp>`, ""))
	body += p.sometimes(p.headers())
	for range 1 + p.r.IntN(3) {
		body += p.sampler()
	}
	body += p.sometimes(strings.ReplaceAll(p.sampler(), `enabled="true"`, `enabled="false"`))
	body += p.sometimes(elementOf("GenericController", "LogicControllerGui", "inner", "", p.sometimes(p.headers())+p.sometimes(elementOf("ConfigTestElement", "HttpDefaultsGui", "inner defaults", prop("HTTPSampler.path", "/inner")+p.arguments(1), ""))+p.sampler()))
	group := elementOf("ThreadGroup", "ThreadGroupGui", "users", `<elementProp name="ThreadGroup.main_controller" elementType="LoopController">`+`<boolProp name="LoopController.continue_forever">false</boolProp>`+prop("LoopController.loops", "1")+"</elementProp>"+prop("ThreadGroup.num_threads", "1")+prop("ThreadGroup.ramp_time", "0"), body)
	return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\" properties=\"5.0\" jmeter=\"5.6.3\"><hashTree>\n" +
		elementOf("TestPlan", "TestPlanGui", "plan", `<elementProp name="TestPlan.user_defined_variables" elementType="Arguments"><collectionProp name="Arguments.arguments">`+list.String()+"</collectionProp></elementProp>\n", group) + "</hashTree></jmeterTestPlan>\n"
}

// sometimes returns a text or none.
func (p *planOfJMeter) sometimes(text string) string { return choose(p.r, text, "") }

// value returns the value of an argument.
func (p *planOfJMeter) value() string {
	return choose(p.r, word(p.r), word(p.r), "a%20b", "a+b", "a%2Bb", "ü", "{x}", "@x", "<x", `"q"`, "~*!'()", "$1", `\`, "1&2=3", "",
		"${v0}", "${v1}", "${v2}", "${v3}", "${v4}", "x${v0}y", "${nested}", "${later}", "${__P(p,of a property)}", "${__eval(${v0}!)}", `\${v0} ${v0}`, "{{ a }}")
}

func (p *planOfJMeter) arguments(n int) string {
	var b strings.Builder
	b.WriteString(`<elementProp name="HTTPsampler.Arguments" elementType="Arguments"><collectionProp name="Arguments.arguments">`)
	for range n {
		name, value := choose(p.r, word(p.r), word(p.r), word(p.r), "a b", "a[0]", "ü", ""), p.value()
		// JMeter does not send a URL that has other characters than URLs may have, nor decodes what is not encoded.
		encode := p.r.IntN(2) == 0 || strings.ContainsAny(name+value, " {<\"\\")
		fmt.Fprintf(&b, "<elementProp name=\"\" elementType=\"HTTPArgument\"><boolProp name=\"HTTPArgument.always_encode\">%v</boolProp>%s%s%s</elementProp>\n",
			encode, prop("Argument.name", name), prop("Argument.value", value), choose(p.r, prop("Argument.metadata", "="), prop("Argument.metadata", "="), ""))
	}
	b.WriteString("</collectionProp></elementProp>\n")
	return b.String()
}

func (p *planOfJMeter) headers() string {
	var b strings.Builder
	for _, i := range p.r.Perm(5)[:1+p.r.IntN(2)] {
		name := []string{"X-A", "x-a", "Accept", "Content-Type", "X-B"}[i]
		b.WriteString(`<elementProp name="" elementType="Header">` + prop("Header.name", name) + prop("Header.value", choose(p.r, word(p.r), "a, b", "application/json", "${v0}", "${v4}")) + "</elementProp>\n")
	}
	return elementOf("HeaderManager", "HeaderPanel", "header", `<collectionProp name="HeaderManager.headers">`+b.String()+"</collectionProp>", "")
}

func (p *planOfJMeter) sampler() string {
	properties := p.arguments(p.r.IntN(4)) +
		prop("HTTPSampler.method", choose(p.r, "GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")) +
		prop("HTTPSampler.path", choose(p.r, "", "/"+word(p.r), "/"+word(p.r)+"?a=b&c=%20", word(p.r), "/a b/ü?q=1 2", "/a//b", "/${v0}/${v3}", "http://127.0.0.1:18080/whole?a=1"))
	switch p.r.IntN(6) {
	case 0:
		properties += `<boolProp name="HTTPSampler.postBodyRaw">true</boolProp>`
	case 1:
		properties += `<boolProp name="HTTPSampler.DO_MULTIPART_POST">true</boolProp>` + p.sometimes(`<boolProp name="HTTPSampler.BROWSER_COMPATIBLE_MULTIPART">true</boolProp>`)
	case 2:
		properties += `<elementProp name="HTTPsampler.Files" elementType="HTTPFileArgs"><collectionProp name="HTTPFileArgs.files"><elementProp name="" elementType="HTTPFileArg">` +
			prop("File.path", "part-file.txt") + prop("File.paramname", p.sometimes("file")) + prop("File.mimetype", "text/plain") + "</elementProp></collectionProp></elementProp>"
	}
	properties += p.sometimes(p.sometimes(prop("HTTPSampler.contentEncoding", "ISO-8859-1")))
	return elementOf("HTTPSamplerProxy", "HttpTestSampleGui", "request", properties, p.sometimes(p.headers()))
}
